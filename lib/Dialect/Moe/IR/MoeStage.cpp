//===- MoeStage.cpp - what stages of a pipeline hand over -----------------===//
#include "moe/Dialect/Moe/IR/MoeOps.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::moe;

static LogicalResult verifyPeer(Operation *op, GroupAttr group, int64_t peer) {
  if (peer < 0 || peer >= group.getSize())
    return op->emitOpError() << "expected the peer to be between 0 and " << group.getSize() - 1 << " but got " << peer;
  return success();
}

/// Cost of a transfer, which is a broadcast between the two ranks.
static OpCost getTransferCost(Operation *op, Value value) {
  OpCost cost = getMemoryCost(op);
  cost.resource = Resource::Network;
  cost.collective = Collective::Broadcast;
  cost.payload = getByteSize(value.getType());
  return cost;
}

/// A pair of neighbouring members. The program defines which ones transfer.
static GroupAttr getPair(GroupAttr group) {
  return GroupAttr::get(group.getContext(), group.getName(), 2, group.getStride());
}

static LogicalResult failOnStates(Operation *op) {
  return op->emitOpError()
         << "expected a program that is not yet divided into stages; infer its states before moe-split-stages";
}

LogicalResult RepeatOp::verify() {
  if (getMost() < 1) // (C1)
    return emitOpError() << "expected 'most' to be at least 1 but got " << getMost();
  if (getTimes().getType().getDimSize(0) != 1) // (C1)
    return emitOpError() << "expected times to be [1] but got " << getTimes().getType();
  if (getResultTypes() != getCarried().getTypes()) // (C2)
    return emitOpError() << "expected results of the types of carried";
  return success();
}
LogicalResult RepeatOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto program = symbols.lookupNearestSymbolFrom<FunctionOpInterface>(*this, getProgramAttr());
  SmallVector<Type> arguments(getCarried().getTypes());
  llvm::append_range(arguments, getInputs().getTypes());
  if (!program || program.getArgumentTypes() != ArrayRef(arguments) ||
      program.getResultTypes() != ArrayRef(SmallVector<Type>(getResultTypes()))) // (C2)
    return emitOpError() << "expected a function " << getProgramAttr()
                         << " of the types of carried and inputs, with results of the types of carried";
  return success();
}

LogicalResult SendOp::verify() { return verifyPeer(*this, getGroup(), getPeer()); }
LogicalResult SendOp::inferSpmd(const SpmdAxes &, ArrayRef<AxisSet>, SmallVectorImpl<AxisSet> &,
                                SmallVectorImpl<AxisSet> &) {
  return failOnStates(*this);
}
OpCost SendOp::getOpCost() { return getTransferCost(*this, getInput()); }
GroupAttr SendOp::getCostGroup() { return getPair(getGroup()); }

LogicalResult ReceiveOp::verify() { return verifyPeer(*this, getGroup(), getPeer()); }
LogicalResult ReceiveOp::inferSpmd(const SpmdAxes &, ArrayRef<AxisSet>, SmallVectorImpl<AxisSet> &,
                                   SmallVectorImpl<AxisSet> &) {
  return failOnStates(*this);
}
OpCost ReceiveOp::getOpCost() { return getTransferCost(*this, getResult()); }
GroupAttr ReceiveOp::getCostGroup() { return getPair(getGroup()); }
