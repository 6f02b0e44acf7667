//===- ExchangeByNode.cpp - moe-exchange-by-node --------------------------===//
#include "ExpertPath.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "moe/Dialect/Moe/Transforms/LeftLayers.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEEXCHANGEBYNODE
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Both exchanges of a layer.
struct ExchangedLayer {
  AllToAllOp there, back;

  /// Fails with the obstacle (a phrase) in `reason`.
  static FailureOr<ExchangedLayer> find(DispatchOp dispatch, std::string &reason);
};
} // namespace

/// Each row between the exchanges is computed alone, so their order does not matter.
FailureOr<ExchangedLayer> ExchangedLayer::find(DispatchOp dispatch, std::string &reason) {
  FailureOr<ExpertPath> path = ExpertPath::find(dispatch, reason);
  if (failed(path))
    return failure();
  ExchangedLayer layer;
  if (path->slots.isDropless())
    reason = "its rows are not as many for each rank; 'once:node' sends rows of such layers by node";
  bool isOther = false;
  for (Operation *op : path->ops) {
    if (reason.empty() && isa<DumpOp>(op))
      reason = "its experts are cut into slices, to each of which its rows are sent";
    auto exchange = dyn_cast<AllToAllOp>(op);
    if (exchange && !layer.there)
      layer.there = exchange;
    else if (exchange && !layer.back)
      layer.back = exchange;
    else if (exchange || (layer.there && !layer.back && !isExpert(op) && !isa<AllReduceOp, ToVaryingOp>(op)))
      isOther = true;
  }
  bool arePair = layer.back && !isOther && layer.there.getGroup() == layer.back.getGroup() &&
                 layer.there.getSplitDim() == layer.back.getConcatDim() &&
                 layer.there.getConcatDim() == layer.back.getSplitDim();
  if (reason.empty() && !arePair)
    reason = "its rows do not go to its experts and back in one exchange each";
  if (!reason.empty())
    return failure();
  return layer;
}

static void exchangeOver(AllToAllOp exchange, GroupAttr first, GroupAttr second) {
  OpBuilder builder(exchange);
  Value value = exchange.getInput();
  for (GroupAttr group : {first, second})
    value =
        builder.create<AllToAllOp>(exchange.getLoc(), value, group, exchange.getSplitDim(), exchange.getConcatDim());
  exchange.replaceAllUsesWith(value);
  exchange.erase();
}

namespace {
struct MoeExchangeByNode : moe::impl::MoeExchangeByNodeBase<MoeExchangeByNode> {
  using Base::Base;

  void runOnOperation() override {
    if (nodeRanks < 1) {
      getOperation().emitError() << "expected node-ranks of at least 1 but got " << nodeRanks.getValue();
      return signalPassFailure();
    }
    for (DispatchOp dispatch : ExpertPath::getDispatches(getOperation()))
      if (std::string reason = rewrite(dispatch); !reason.empty())
        leaveLayer(dispatch, "moe-exchange-by-node", reason);
  }

  /// Rewrites a layer. Returns the obstacle, or an empty text.
  std::string rewrite(DispatchOp dispatch) {
    std::string reason;
    FailureOr<ExchangedLayer> layer = ExchangedLayer::find(dispatch, reason);
    if (failed(layer))
      return reason;
    auto divided = layer->there.getGroup().divideByNode(nodeRanks);
    if (!divided)
      return "the ranks of its exchange are not several nodes of several ranks each";
    auto [nodes, node] = *divided;
    exchangeOver(layer->there, nodes, node);
    exchangeOver(layer->back, node, nodes);
    return "";
  }
};
} // namespace
