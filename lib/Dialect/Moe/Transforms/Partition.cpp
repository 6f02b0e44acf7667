//===- Partition.cpp - divide a model graph over the ranks ----------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEPARTITION
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Rewrites one function from global tensors to shards.
class FunctionPartitioner {
public:
  FunctionPartitioner(func::FuncOp function, ParallelAttr parallel, int64_t groups)
      : function(function), parallel(parallel), groups(groups) {}

  LogicalResult run();

private:
  LogicalResult inferLayouts();
  LogicalResult partitionArguments();
  LogicalResult partitionBody();
  LogicalResult partitionResults();
  FailureOr<RankedTensorType> getLocalType(Value global, StringRef what);

  func::FuncOp function;
  ParallelAttr parallel;
  int64_t groups;
  SmallVector<Operation *> graph;
  llvm::DenseMap<Value, LayoutAttr> layouts;
  IRMapping shards;
};
} // namespace

LogicalResult FunctionPartitioner::inferLayouts() {
  for (BlockArgument argument : function.getArguments())
    if (auto layout = function.getArgAttrOfType<LayoutAttr>(argument.getArgNumber(), kLayoutAttrName))
      layouts[argument] = layout;
  for (Operation &op : function.front().without_terminator()) {
    auto partitionable = dyn_cast<MoePartitionOpInterface>(op);
    if (!partitionable)
      return op.emitOpError() << "expected an op of a model graph, e.g. moe.layer or moe.add";
    SmallVector<LayoutAttr> operands =
        llvm::map_to_vector(op.getOperands(), [&](Value value) { return layouts.lookup(value); });
    SmallVector<LayoutAttr> results;
    if (failed(partitionable.inferLayouts(parallel, operands, results)))
      return failure();
    for (auto [operand, layout] : llvm::zip_equal(op.getOperands(), operands))
      layouts[operand] = layout;
    for (auto [result, layout] : llvm::zip_equal(op.getResults(), results))
      layouts[result] = layout;
  }
  return success();
}

FailureOr<RankedTensorType> FunctionPartitioner::getLocalType(Value global, StringRef what) {
  auto type = dyn_cast<RankedTensorType>(global.getType());
  if (!type || !type.hasStaticShape())
    return function.emitError() << "expected '" << what << "' to be a tensor of static shape but got "
                                << global.getType();
  LayoutAttr &layout = layouts[global];
  if (!layout)
    layout = LayoutAttr::get(function.getContext(), type.getRank());
  return layout.getLocalType(type, parallel, what, [&] { return function.emitError(); });
}

LogicalResult FunctionPartitioner::partitionArguments() {
  for (BlockArgument argument : llvm::to_vector(function.getArguments())) {
    unsigned index = argument.getArgNumber();
    auto name = function.getArgAttrOfType<StringAttr>(index, kNameAttrName);
    FailureOr<RankedTensorType> type =
        getLocalType(argument, name ? name.getValue() : StringRef("argument " + std::to_string(index)));
    if (failed(type))
      return failure();
    function.setArgAttr(index, kLayoutAttrName, layouts[argument]);
    // The L0 ops still use the argument; they are erased before its type has to fit.
    shards.map(argument, argument);
    argument.setType(*type);
  }
  return success();
}

LogicalResult FunctionPartitioner::partitionBody() {
  for (Operation &op : function.front().without_terminator())
    graph.push_back(&op);
  OpBuilder builder(function.front().getTerminator());
  for (Operation *op : graph) {
    SmallVector<Value> operands =
        llvm::map_to_vector(op->getOperands(), [&](Value value) { return shards.lookup(value); });
    SmallVector<LayoutAttr> operandLayouts =
        llvm::map_to_vector(op->getOperands(), [&](Value value) { return layouts.lookup(value); });
    SmallVector<Value> results;
    if (failed(
            cast<MoePartitionOpInterface>(op).partition(builder, parallel, groups, operandLayouts, operands, results)))
      return failure();
    shards.map(op->getResults(), results);
  }
  return success();
}

LogicalResult FunctionPartitioner::partitionResults() {
  Operation *terminator = function.front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    LayoutAttr layout = layouts.lookup(operand.get());
    auto wanted = function.getResultAttrOfType<LayoutAttr>(index, kLayoutAttrName);
    if (wanted && wanted != layout)
      return function.emitError() << "expected result " << index << " to have the layout " << layout << " but got "
                                  << wanted;
    function.setResultAttr(index, kLayoutAttrName, layout);
    operand.set(shards.lookup(operand.get()));
  }
  for (Operation *op : llvm::reverse(graph))
    op->erase();
  function.setType(
      FunctionType::get(function.getContext(), function.front().getArgumentTypes(), terminator->getOperandTypes()));
  return success();
}

LogicalResult FunctionPartitioner::run() {
  if (!function.getBody().hasOneBlock())
    return function.emitError() << "expected a model graph of one block";
  if (failed(inferLayouts()) || failed(partitionArguments()) || failed(partitionBody()) || failed(partitionResults()))
    return failure();
  return insertToVarying(function);
}

namespace {
struct MoePartition : moe::impl::MoePartitionBase<MoePartition> {
  using Base::Base;

  void runOnOperation() override {
    ParallelAttr parallel = getParallel(getOperation());
    if (!parallel)
      return signalPassFailure();
    int64_t shards = groups ? static_cast<int64_t>(groups) : parallel.getDp();
    if (reference)
      parallel = ParallelAttr::getSingle(&getContext());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (reference)
        function->setAttr(kParallelAttrName, parallel);
      if (failed(FunctionPartitioner(function, parallel, shards).run()))
        return signalPassFailure();
    }
  }
};
} // namespace
