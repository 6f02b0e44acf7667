//===- Accumulate.cpp - a step of several micro-batches -------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEACCUMULATE
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
class Accumulator {
public:
  Accumulator(func::FuncOp function, int64_t count)
      : function(function), terminator(function.front().getTerminator()), builder(terminator), count(count) {}

  LogicalResult run();

private:
  LogicalResult checkResults();
  StringRef getRole(BlockArgument argument);
  LogicalResult findDependent();
  void widenInputs();
  void countOnce();
  void build(int64_t index);
  void averageResults();

  func::FuncOp function;
  Operation *terminator;
  OpBuilder builder;
  int64_t count;
  /// Inputs, and what depends on them, in program order.
  SmallVector<BlockArgument> inputs;
  SmallVector<Operation *> dependent;
  /// What counts in an input of the whole step.
  SmallVector<Operation *> counts;
  /// For each result the sum over the micro-batches so far.
  SmallVector<Value> sums;
};
} // namespace

LogicalResult Accumulator::checkResults() {
  for (unsigned index = 0; index < function.getNumResults(); ++index) {
    auto role = function.getResultAttrOfType<StringAttr>(index, kRoleAttrName);
    if (!role || (role.getValue() != kLossRole && role.getValue() != kMetricRole))
      return function.emitError()
             << "expected a step in micro-batches to have only results of role loss or metric but got role "
             << (role ? role.getValue() : "none") << " of result " << index;
  }
  return success();
}

StringRef Accumulator::getRole(BlockArgument argument) {
  auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kRoleAttrName);
  return role ? role.getValue() : "";
}

LogicalResult Accumulator::findDependent() {
  llvm::DenseSet<Value> values;
  for (BlockArgument argument : function.getArguments())
    if (getRole(argument) == kInputRole || getRole(argument) == kStepRole) {
      inputs.push_back(argument);
      values.insert(argument);
    }
  for (Operation &op : function.front().without_terminator())
    if (isa<MoeStepCountOpInterface>(op)) {
      if (!llvm::is_contained(inputs, op.getOperand(0)))
        return op.emitOpError()
               << "expected operand #0 to be an input of the step: the op counts over all micro-batches";
      counts.push_back(&op);
    } else if (llvm::any_of(op.getOperands(), [&](Value operand) { return values.contains(operand); })) {
      dependent.push_back(&op);
      values.insert(op.result_begin(), op.result_end());
    }
  return success();
}

/// An input of each micro-batch is one of all of them; the ops that use it are replaced before its type has to fit.
void Accumulator::widenInputs() {
  for (BlockArgument argument : inputs) {
    if (getRole(argument) == kStepRole)
      continue;
    auto type = cast<RankedTensorType>(argument.getType());
    SmallVector<int64_t> shape = {count};
    llvm::append_range(shape, type.getShape());
    argument.setType(RankedTensorType::get(shape, type.getElementType()));
    if (auto layout = function.getArgAttrOfType<LayoutAttr>(argument.getArgNumber(), kLayoutAttrName)) {
      SmallVector<ArrayAttr> dims = {builder.getArrayAttr({})};
      llvm::append_range(dims, layout.getDims());
      function.setArgAttr(argument.getArgNumber(), kLayoutAttrName, LayoutAttr::get(function.getContext(), dims));
    }
  }
}

/// Each micro-batch divides by the mean of the counts, so that the mean of the quotients is that of the whole step.
void Accumulator::countOnce() {
  for (Operation *op : counts) {
    Value total = op->getResult(0);
    builder.setInsertionPointAfter(op);
    auto mean = builder.create<ScaleOp>(op->getLoc(), total, builder.getF64FloatAttr(1.0 / static_cast<double>(count)));
    total.replaceAllUsesExcept(mean, mean);
    inheritUnit(op, mean);
  }
  builder.setInsertionPoint(terminator);
}

/// Its own inputs, its own step of what is random, and everything that depends on them.
void Accumulator::build(int64_t index) {
  IRMapping mapping;
  auto place = ChunkAttr::get(function.getContext(), index, count);
  for (BlockArgument argument : inputs) {
    Location loc = argument.getLoc();
    auto type = cast<RankedTensorType>(argument.getType());
    Operation *own;
    if (getRole(argument) == kStepRole)
      own = builder.create<IndexAffineOp>(loc, type, argument, count, index);
    else
      own = builder.create<MicroBatchOp>(
          loc, RankedTensorType::get(type.getShape().drop_front(), type.getElementType()), argument, index);
    own->setAttr(kMicroBatchAttrName, place);
    mapping.map(argument, own->getResult(0));
  }
  for (Operation *op : dependent)
    builder.clone(*op, mapping)->setAttr(kMicroBatchAttrName, place);
  for (auto [sum, result] : llvm::zip_equal(sums, terminator->getOperands())) {
    Value own = mapping.lookupOrDefault(result);
    sum = sum ? builder.create<AddOp>(result.getLoc(), sum, own).getResult() : own;
  }
}

void Accumulator::averageResults() {
  for (auto [operand, sum] : llvm::zip_equal(terminator->getOpOperands(), sums))
    operand.set(builder.create<ScaleOp>(sum.getLoc(), sum, builder.getF64FloatAttr(1.0 / static_cast<double>(count))));
  for (Operation *op : llvm::reverse(dependent))
    op->erase();
  function.setType(
      FunctionType::get(function.getContext(), function.front().getArgumentTypes(), terminator->getOperandTypes()));
}

LogicalResult Accumulator::run() {
  if (failed(checkResults()) || failed(findDependent()))
    return failure();
  widenInputs();
  countOnce();
  sums.resize(terminator->getNumOperands());
  for (int64_t index = count - 1; index >= 0; --index)
    build(index);
  averageResults();
  return success();
}

namespace {
struct MoeAccumulate : moe::impl::MoeAccumulateBase<MoeAccumulate> {
  using Base::Base;

  void runOnOperation() override {
    if (microBatches < 1 || !getOperation().getBody().hasOneBlock()) {
      getOperation().emitError() << "expected a body of one block and at least one micro-batch but got "
                                 << microBatches;
      return signalPassFailure();
    }
    if (failed(Accumulator(getOperation(), microBatches).run()))
      signalPassFailure();
  }
};
} // namespace
