//===- Accumulate.cpp - a step of several micro-batches -------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVectorExtras.h"

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
  /// Builds a step of `count` micro-batches, of which the first `written` are written out.
  Accumulator(func::FuncOp function, int64_t count, int64_t written)
      : function(function), terminator(function.front().getTerminator()), builder(terminator), count(count),
        written(written) {}

  LogicalResult run();

private:
  LogicalResult checkResults();
  LogicalResult findDependent();
  void widenInputs();
  void countOnce();
  void countSteps();
  void build(int64_t index);
  void sumUp();
  void averageResults();

  func::FuncOp function;
  Operation *terminator;
  OpBuilder builder;
  int64_t count, written;
  /// Inputs, and ops that depend on them or state that they do, in program order.
  SmallVector<BlockArgument> inputs;
  SmallVector<Operation *> dependent;
  /// Ops that count in an input of the whole step.
  SmallVector<Operation *> counts;
  /// Inputs that are steps, and results, by micro-batch.
  std::vector<IRMapping> steps;
  std::vector<SmallVector<Value>> results;
};
} // namespace

LogicalResult Accumulator::checkResults() {
  for (OpOperand &result : terminator->getOpOperands())
    if (StringRef role = getRole(result); role != kLossRole && role != kMetricRole)
      return function.emitError()
             << "expected a step in micro-batches to have only results of role loss or metric but got role "
             << (role.empty() ? "none" : role) << " of result " << result.getOperandNumber();
  return success();
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
    } else if (op.hasAttr(kEachMicroBatchAttrName) ||
               llvm::any_of(op.getOperands(), [&](Value operand) { return values.contains(operand); })) {
      dependent.push_back(&op);
      values.insert(op.result_begin(), op.result_end());
    }
  return success();
}

/// Widens the input of a micro-batch to that of all. The ops that use it are replaced before its type has to fit.
void Accumulator::widenInputs() {
  for (BlockArgument argument : inputs) {
    if (getRole(argument) == kStepRole)
      continue;
    auto type = getTensorType(argument);
    SmallVector<int64_t> shape = {count};
    llvm::append_range(shape, type.getShape());
    argument.setType(type.clone(shape));
    if (auto layout = function.getArgAttrOfType<LayoutAttr>(argument.getArgNumber(), kLayoutAttrName)) {
      SmallVector<ArrayAttr> dims = {builder.getArrayAttr({})};
      llvm::append_range(dims, layout.getDims());
      function.setArgAttr(argument.getArgNumber(), kLayoutAttrName,
                          LayoutAttr::get(function.getContext(), dims, layout.getSequence(), layout.getChunks()));
    }
  }
}

/// Lets each micro-batch divide by the mean of the counts, so that the mean of the quotients is that of the whole step.
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

/// Gives random ops another step in each micro-batch: the next number after that of the one before, so that all
/// micro-batches have the same ops.
void Accumulator::countSteps() {
  for (int64_t index = 0; index < written; ++index) {
    IRMapping &own = steps.emplace_back();
    for (BlockArgument argument : inputs)
      if (getRole(argument) == kStepRole) {
        Value before = index == 0 ? argument : steps[index - 1].lookup(argument);
        auto step = builder.create<IndexAffineOp>(argument.getLoc(), argument.getType(), before, index == 0 ? count : 1,
                                                  index == 0 ? 0 : 1);
        step->setAttr(kMicroBatchAttrName, ChunkAttr::get(function.getContext(), index, count));
        own.map(argument, step.getResult());
      }
  }
}

/// Builds the inputs of a micro-batch and all ops that depend on them.
void Accumulator::build(int64_t index) {
  IRMapping mapping = steps[index];
  auto place = ChunkAttr::get(function.getContext(), index, count);
  for (BlockArgument argument : inputs) {
    if (getRole(argument) == kStepRole)
      continue;
    auto type = getTensorType(argument);
    auto own = builder.create<MicroBatchOp>(
        argument.getLoc(), RankedTensorType::get(type.getShape().drop_front(), type.getElementType()), argument, index);
    own->setAttr(kMicroBatchAttrName, place);
    mapping.map(argument, own.getResult());
  }
  for (Operation *op : dependent) {
    Operation *own = builder.clone(*op, mapping);
    own->setAttr(kMicroBatchAttrName, place);
    own->removeAttr(kEachMicroBatchAttrName);
  }
  results[index] =
      llvm::map_to_vector(terminator->getOperands(), [&](Value result) { return mapping.lookupOrDefault(result); });
}

/// Lets each micro-batch add its results to those before, so that none is kept until the end.
void Accumulator::sumUp() {
  for (int64_t index = 1; index < written; ++index)
    for (auto [own, before] : llvm::zip_equal(results[index], results[index - 1])) {
      auto sum = builder.create<AddOp>(own.getLoc(), before, own);
      if (Operation *maker = own.getDefiningOp())
        inheritUnit(maker, sum);
      own = sum;
    }
}

void Accumulator::averageResults() {
  for (auto [operand, sum] : llvm::zip_equal(terminator->getOpOperands(), results.back()))
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
  countSteps();
  results.resize(written);
  for (int64_t index = written - 1; index >= 0; --index)
    build(index);
  sumUp();
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
    if (written < 0 || written > microBatches) {
      getOperation().emitError() << "expected 'written' to be from 0 to " << microBatches << " but got " << written;
      return signalPassFailure();
    }
    if (failed(Accumulator(getOperation(), microBatches, written > 0 ? written : microBatches).run()))
      signalPassFailure();
  }
};
} // namespace
