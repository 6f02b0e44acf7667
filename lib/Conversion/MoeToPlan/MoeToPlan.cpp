//===- MoeToPlan.cpp - SPMD programs to plans -----------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

#include "moe/Conversion/Passes.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"

namespace mlir::moe {
#define GEN_PASS_DEF_CONVERTMOETOPLAN
#include "moe/Conversion/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

static MemRefType getMemRefType(Type type, Attribute space = {}) {
  auto tensor = cast<RankedTensorType>(type);
  return MemRefType::get(tensor.getShape(), tensor.getElementType(), MemRefLayoutAttrInterface(), space);
}

namespace {
class ProgramConverter {
public:
  explicit ProgramConverter(func::FuncOp function)
      : function(function), terminator(function.front().getTerminator()), builder(terminator) {}

  LogicalResult run();

private:
  LogicalResult convert(Operation *op);
  void launch(Operation *op, MoeKernelOpInterface kernel, ValueRange outputs);
  void convertSignature();
  void convertReturn();

  func::FuncOp function;
  Operation *terminator;
  OpBuilder builder;
  /// From tensors to the memory that holds them.
  IRMapping memory;
  unsigned numInputs = 0;
};
} // namespace

/// Which layer an op belongs to, as its location says.
static StringAttr getLabel(Operation *op) {
  auto layer = dyn_cast<NameLoc>(op->getLoc());
  return layer ? layer.getName() : StringAttr();
}

static plan::CostAttr getCost(Operation *op) {
  auto priced = dyn_cast<MoeCostOpInterface>(op);
  if (!priced)
    return {};
  return plan::CostAttr::get(op->getContext(), priced.getOpCost());
}

void ProgramConverter::launch(Operation *op, MoeKernelOpInterface kernel, ValueRange outputs) {
  SmallVector<Value> inputs;
  SmallVector<int64_t> absent, operandOf, inPlace;
  for (auto [position, input] : llvm::enumerate(kernel.getKernelInputs())) {
    operandOf.push_back(static_cast<int64_t>(inputs.size()));
    if (input)
      inputs.push_back(memory.lookup(input));
    else
      absent.push_back(static_cast<int64_t>(position));
  }
  for (int64_t position : kernel.getInPlaceInputs())
    inPlace.push_back(operandOf[position]);
  SmallVector<Attribute> params = kernel.getKernelParams();
  auto array = [&](ArrayRef<int64_t> values) {
    return values.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(values);
  };
  builder.create<plan::LaunchOp>(op->getLoc(), builder.getStringAttr(kernel.getKernelName()), inputs, outputs,
                                 params.empty() ? ArrayAttr() : builder.getArrayAttr(params),
                                 kernel.isCollective() ? builder.getUnitAttr() : UnitAttr(), kernel.getKernelGroup(),
                                 /*stream=*/StringAttr(), getLabel(op), array(absent), array(inPlace), getCost(op));
}

LogicalResult ProgramConverter::convert(Operation *op) {
  auto kernel = dyn_cast<MoeKernelOpInterface>(op);
  if (!kernel)
    return op->emitOpError() << "expected an op of an SPMD program, which names a runtime call";
  SmallVector<Value> outputs;
  if (kernel.isAlias()) {
    memory.map(op->getResult(0), memory.lookup(op->getOperand(0)));
  } else {
    auto space = plan::SpaceAttr::get(op->getContext(), plan::Space::device);
    for (Value result : op->getResults()) {
      Value buffer = builder.create<plan::BufferOp>(op->getLoc(), getMemRefType(result.getType(), space),
                                                    /*offset=*/IntegerAttr());
      memory.map(result, buffer);
      outputs.push_back(buffer);
    }
  }
  if (!kernel.getKernelName().empty())
    launch(op, kernel, outputs);
  return success();
}

/// Inputs keep their places as memory of the caller; results become arguments behind them.
void ProgramConverter::convertSignature() {
  numInputs = function.getNumArguments();
  SmallVector<Value> tensors;
  for (unsigned i = 0; i < numInputs; ++i) {
    BlockArgument tensor = function.getArgument(i);
    BlockArgument memref = function.front().addArgument(getMemRefType(tensor.getType()), tensor.getLoc());
    memory.map(tensor, memref);
  }
  for (Value result : terminator->getOperands())
    function.front().addArgument(getMemRefType(result.getType()), result.getLoc());
}

void ProgramConverter::convertReturn() {
  for (OpOperand &operand : terminator->getOpOperands()) {
    Value argument = function.front().getArgument(2 * numInputs + operand.getOperandNumber());
    Value value = memory.lookup(operand.get());
    if (auto buffer = value.getDefiningOp<plan::BufferOp>()) {
      value.replaceAllUsesWith(argument);
      for (unsigned later = operand.getOperandNumber() + 1; later < terminator->getNumOperands(); ++later)
        if (memory.lookup(terminator->getOperand(later)) == value)
          memory.map(terminator->getOperand(later), argument);
      buffer.erase();
      continue;
    }
    // An input, or a value that is already another result.
    OpCost cost;
    cost.resource = Resource::Memory;
    cost.bytesRead = cost.bytesWritten = getByteSize(argument.getType());
    builder.create<plan::LaunchOp>(terminator->getLoc(), builder.getStringAttr("copy"), value, argument, ArrayAttr(),
                                   UnitAttr(), GroupAttr(), StringAttr(), StringAttr(), DenseI64ArrayAttr(),
                                   DenseI64ArrayAttr(), plan::CostAttr::get(builder.getContext(), cost));
  }
}

LogicalResult ProgramConverter::run() {
  convertSignature();
  SmallVector<Operation *> program;
  for (Operation &op : function.front().without_terminator())
    program.push_back(&op);
  for (Operation *op : program)
    if (failed(convert(op)))
      return failure();
  convertReturn();

  SmallVector<DictionaryAttr> attributes;
  for (unsigned i = 0; i < numInputs; ++i)
    attributes.push_back(function.getArgAttrDict(i));
  for (unsigned i = 0; i < terminator->getNumOperands(); ++i)
    attributes.push_back(function.getResultAttrDict(i));
  terminator->eraseOperands(0, terminator->getNumOperands());
  for (Operation *op : llvm::reverse(program))
    op->erase();
  function.front().eraseArguments(0, numInputs);
  function.removeResAttrsAttr();
  function.removeArgAttrsAttr();
  function.setType(builder.getFunctionType(function.front().getArgumentTypes(), {}));
  function.setAllArgAttrs(attributes);
  function->setAttr(plan::kInputsAttrName, builder.getI64IntegerAttr(numInputs));
  return success();
}

namespace {
struct ConvertMoeToPlan : moe::impl::ConvertMoeToPlanBase<ConvertMoeToPlan> {
  using Base::Base;

  void runOnOperation() override {
    if (!getOperation().getBody().hasOneBlock()) {
      getOperation().emitError() << "expected a body of one block";
      return signalPassFailure();
    }
    if (failed(ProgramConverter(getOperation()).run()))
      signalPassFailure();
  }
};
} // namespace
