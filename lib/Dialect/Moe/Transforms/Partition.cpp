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
  /// Partitions for `parallel`. `ranks` equals it, or, in the model for one rank, is the division of the ranks with
  /// which it is compared.
  FunctionPartitioner(func::FuncOp function, ParallelAttr parallel, ParallelAttr ranks, int64_t groups)
      : function(function), parallel(parallel), ranks(ranks), tokens{groups} {}

  LogicalResult run();

private:
  LogicalResult divideTokens();
  LogicalResult inferLayouts();
  LogicalResult partitionArguments();
  LogicalResult partitionBody();
  LogicalResult partitionResults();
  FailureOr<RankedTensorType> getLocalType(Value global, StringRef what);
  LayoutAttr describe(LayoutAttr layout, int64_t rows) const;

  func::FuncOp function;
  ParallelAttr parallel, ranks;
  TokenDivision tokens;
  SmallVector<Operation *> graph;
  llvm::DenseMap<Value, LayoutAttr> layouts;
  IRMapping shards;
};
} // namespace

/// Sequences of the model: the fewest that an op states. Others are pieces of them.
static SmallVector<SequenceUse> findSequences(func::FuncOp function, int64_t &fewest) {
  SmallVector<SequenceUse> uses;
  for (auto op : function.front().getOps<MoePartitionOpInterface>())
    if (SequenceUse use = op.getSequenceUse(); use.sequences > 0)
      uses.push_back(use);
  for (const SequenceUse &use : uses)
    fewest = &use == &uses.front() ? use.sequences : std::min(fewest, use.sequences);
  return uses;
}

/// Divides tokens. Without sequences, the tokens of a data-parallel shard are one.
LogicalResult FunctionPartitioner::divideTokens() {
  tokens.shards = tokens.sequences = ranks.getDp();
  int64_t cp = ranks.getCp();
  if (cp == 1)
    return success();
  SmallVector<SequenceUse> uses = findSequences(function, tokens.sequences);
  if (tokens.sequences % tokens.shards != 0)
    return function.emitError() << "expected sequences in a multiple of dp = " << tokens.shards << " but got "
                                << tokens.sequences;
  bool isCausal = !uses.empty() && llvm::all_of(uses, [](const SequenceUse &use) { return use.isCausal; });
  bool zigzag = isCausal;
  for (const SequenceUse &use : uses)
    for (int64_t rows : use.rows) {
      int64_t length = rows / tokens.sequences;
      if (length % cp != 0)
        return function.emitError() << "expected sequences that cp = " << cp << " divides but got " << length
                                    << " tokens; choose another cp, or another length with --seq";
      zigzag = zigzag && length % (2 * cp) == 0;
    }
  // The remark is for the ranks alone. The model for one rank would repeat it.
  if (isCausal && !zigzag && parallel == ranks)
    function.emitWarning() << "expected sequences that 2 cp = " << 2 * cp
                           << " divides, so that all ranks of cp have the same work in attention; the last of them now "
                              "has the most";
  tokens.cut = CutAttr::get(function.getContext(), ranks.getGroup("cp"), zigzag);
  return success();
}

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
    FailureOr<Layouts> results = partitionable.inferLayouts(parallel, operands);
    if (failed(results))
      return failure();
    for (auto [operand, layout] : llvm::zip_equal(op.getOperands(), operands))
      layouts[operand] = layout;
    for (auto [result, layout] : llvm::zip_equal(op.getResults(), *results))
      layouts[result] = layout;
  }
  return success();
}

/// Adds the rank's own rows to the `layout` of a value of `rows` rows.
LayoutAttr FunctionPartitioner::describe(LayoutAttr layout, int64_t rows) const {
  bool isCut = llvm::any_of(layout.getDims(), [&](ArrayAttr dim) {
    return llvm::is_contained(dim, StringAttr::get(layout.getContext(), "cp"));
  });
  if (!isCut || parallel.getCp() == 1)
    return layout;
  return LayoutAttr::get(layout.getContext(), layout.getDims(), rows / tokens.sequences, tokens.cut.getChunks());
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
    int64_t rows = type->getRank() > 0 ? getTensorType(argument).getDimSize(0) : 0;
    function.setArgAttr(index, kLayoutAttrName, describe(layouts[argument], rows));
    // The L0 ops still use the argument. They are erased before its type has to fit.
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
    FailureOr<Values> results =
        cast<MoePartitionOpInterface>(op).partition(builder, {parallel, tokens, operandLayouts, operands});
    if (failed(results))
      return failure();
    shards.map(op->getResults(), *results);
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
    auto type = getTensorType(operand.get());
    function.setResultAttr(index, kLayoutAttrName, describe(layout, type.getRank() > 0 ? type.getDimSize(0) : 0));
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
  if (failed(divideTokens()) || failed(inferLayouts()) || failed(partitionArguments()) || failed(partitionBody()) ||
      failed(partitionResults()))
    return failure();
  return insertToVarying(function);
}

namespace {
struct MoePartition : moe::impl::MoePartitionBase<MoePartition> {
  using Base::Base;

  void runOnOperation() override {
    ParallelAttr ranks = getParallel(getOperation());
    if (!ranks)
      return signalPassFailure();
    int64_t shards = groups ? static_cast<int64_t>(groups) : ranks.getTokenGroup().getSize();
    ParallelAttr parallel = reference ? ParallelAttr::getSingle(&getContext()) : ranks;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (reference)
        function->setAttr(kParallelAttrName, parallel);
      if (failed(FunctionPartitioner(function, parallel, ranks, shards).run()))
        return signalPassFailure();
    }
  }
};
} // namespace
