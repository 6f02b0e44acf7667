//===- WeighHidden.cpp - weights of a routing before the last product -----===//
#include "ExpertPath.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/STLExtras.h"

#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEWEIGHHIDDEN
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// Whether the op moves rows or adds them up. Weights of rows may then be applied before it as well as after it.
static bool passesRows(Operation *op) {
  if (auto exchange = dyn_cast<AllToAllVOp>(op))
    return !exchange.getAddend() && exchange.getPhases() == 1;
  return isa<AllGatherOp, AllReduceOp, DumpOp, LocalReduceOp, ReduceScatterOp, SliceOp, ToVaryingOp>(op);
}

/// Ops before `value`, the last one first, up to the first one that `goesOn` refuses, whose result becomes `value`.
/// Each has one user.
static SmallVector<Operation *> follow(Value &value, function_ref<bool(Operation *)> goesOn) {
  SmallVector<Operation *> ops;
  for (Operation *op = value.getDefiningOp(); op && goesOn(op) && op->hasOneUse(); op = value.getDefiningOp()) {
    ops.push_back(op);
    value = op->getOperand(0);
  }
  return ops;
}

namespace {
/// A layer whose weights may move.
struct WeighedLayer {
  CombineOp combine;
  GroupedMatmulOp last; ///< product of its experts
  DispatchOp dispatch;
  SmallVector<Operation *> there; ///< from the dispatch to the experts, the last one first

  static std::optional<WeighedLayer> match(CombineOp combine);
};

struct MoeWeighHidden : moe::impl::MoeWeighHiddenBase<MoeWeighHidden> {
  using Base::Base;

  void runOnOperation() override {
    for (auto combine : llvm::to_vector(getOperation().getOps<CombineOp>()))
      if (std::optional<WeighedLayer> layer = WeighedLayer::match(combine))
        rewrite(*layer);
    if (failed(insertToVarying(getOperation())))
      signalPassFailure();
  }

  void rewrite(const WeighedLayer &layer);
};
} // namespace

std::optional<WeighedLayer> WeighedLayer::match(CombineOp combine) {
  WeighedLayer layer{combine, {}, {}, {}};
  Value rows = combine.getRows();
  follow(rows, passesRows);
  layer.last = rows.getDefiningOp<GroupedMatmulOp>();
  // Rows with a capacity are not weighed: their hidden rows are 3-D. Wide hidden rows take longer to weigh.
  if (!combine.getWeights() || !layer.last || !layer.last.getCounts() || !rows.hasOneUse() ||
      layer.last.getRows().getType().getShape().back() >= getTensorType(rows).getShape().back())
    return std::nullopt;
  rows = layer.last.getRows();
  follow(rows, [](Operation *op) { return isa<ActivationOp, BiasAddOp, GroupedMatmulOp>(op); });
  layer.there = follow(rows, passesRows);
  layer.dispatch = rows.getDefiningOp<DispatchOp>();
  if (!layer.dispatch || layer.dispatch.getWeights() ||
      skipToVarying(layer.dispatch.getSlots()) != skipToVarying(combine.getSlots()))
    return std::nullopt;
  return layer;
}

/// Moves the weights along the path of the tokens, as rows of one column.
void MoeWeighHidden::rewrite(const WeighedLayer &layer) {
  GroupedMatmulOp last = layer.last;
  DispatchOp dispatch = layer.dispatch;
  CombineOp combine = layer.combine;
  Value weights = skipToVarying(combine.getWeights());
  auto getColumn = [&](Value value) { return getTensorType(weights).clone({getTensorType(value).getDimSize(0), 1}); };
  OpBuilder builder(last);
  Location loc = combine.getLoc();
  Value one = builder.create<FillOp>(loc, getColumn(dispatch.getTokens()), builder.getF64FloatAttr(1));
  Value rows = builder.create<DispatchOp>(loc, getColumn(dispatch.getResult()), one, dispatch.getSlots(), weights,
                                          dispatch.getUsed());
  for (Operation *op : llvm::reverse(layer.there)) {
    IRMapping mapping;
    mapping.map(op->getOperand(0), rows);
    rows = builder.clone(*op, mapping)->getResult(0);
    rows.setType(getColumn(rows));
  }
  last->setOperand(0, builder.create<RowScaleOp>(loc, last.getRows(), rows));
  combine.getWeightsMutable().clear();
}
