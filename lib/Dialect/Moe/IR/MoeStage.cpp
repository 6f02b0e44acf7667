//===- MoeStage.cpp - what stages of a pipeline hand over -----------------===//
#include "MoeComm.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::moe;

static LogicalResult verifyPeer(Operation *op, GroupAttr group, int64_t peer) {
  if (peer < 0 || peer >= group.getSize())
    return op->emitOpError() << "expected the peer to be between 0 and " << group.getSize() - 1 << " but got " << peer;
  return success();
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
LogicalResult ReceiveOp::verify() { return verifyPeer(*this, getGroup(), getPeer()); }
/// A transfer costs what a broadcast between the two ranks does.
OpCost SendOp::getOpCost() { return getExchangeCost(*this, Collective::Broadcast, getInput()); }
OpCost ReceiveOp::getOpCost() { return getExchangeCost(*this, Collective::Broadcast, getResult()); }
