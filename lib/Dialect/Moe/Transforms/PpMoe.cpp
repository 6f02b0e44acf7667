//===- PpMoe.cpp - moe-ppmoe ----------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/Transforms/BaselineLayer.h"
#include "moe/Dialect/Moe/Transforms/LeftLayers.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEPPMOE
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// The axes over which the experts are divided.
static AxisSet getExpertAxes(const BaselineLayer &layer, const SpmdAnalysis &states) {
  return layer.fused ? *states.getAxes().getAxes(layer.fused) : AxisSet();
}

/// Reason why the exchanges are needed, or an empty text.
static std::string getObstacle(const BaselineLayer &layer, const SpmdAnalysis &states) {
  AxisSet different = states.getState(layer.tokens) & getExpertAxes(layer, states);
  if (different.empty())
    return "";
  return "the ranks that hold its experts have different tokens over " + states.getAxes().describe(different) +
         "; expected ep * esp to divide mp";
}

/// Type of the rows of the member's own experts. In the dropless form the baseline has room for those that ep * esp
/// members send, all of whom hold the same ones here.
static RankedTensorType getOwnRows(BaselineLayer &layer) {
  RankedTensorType sent = layer.dispatch.getResult().getType();
  if (!layer.isDropless())
    return withDim(sent, 0, sent.getDimSize(0) / layer.getEp());
  RankedTensorType received = getTensorType(layer.experts.front()->getOperand(0));
  return withDim(sent, 0, llvm::divideCeil(received.getDimSize(0), layer.getEp() * layer.getEsp()));
}

/// Tokens in the state of the slots. The baseline's cast is used if it has that state, so that one cast serves all
/// users.
static Value getVaryingTokens(BaselineLayer &layer, const SpmdAnalysis &states) {
  Value varying = layer.dispatch.getTokens();
  AxisSet wanted = states.getState(layer.tokens) | getExpertAxes(layer, states);
  return states.getState(varying) == wanted ? varying : layer.tokens;
}

static void rewriteLayer(BaselineLayer layer, const SpmdAnalysis &states) {
  OpBuilder builder(layer.combine);
  Location loc = layer.dispatch.getLoc();
  RankedTensorType type = getOwnRows(layer);
  Value slots = layer.route.getSlots(), counts = layer.route.getCounts();
  if (layer.fused) {
    int64_t room = layer.isDropless() ? type.getDimSize(0) : 0, capacity = layer.isDropless() ? 0 : type.getDimSize(1);
    auto own = builder.create<LocalSlotsOp>(loc, slots, counts, layer.fused, capacity, room, layer.getEsp());
    slots = own.getSlots();
    counts = own.getCounts();
  }
  Value rows = builder.create<DispatchOp>(loc, type, getVaryingTokens(layer, states), slots,
                                          layer.getDispatchWeights(layer.route));
  rows = layer.cloneExperts(builder, rows, layer.isDropless() ? counts : Value());
  Value output =
      builder.create<CombineOp>(loc, layer.tokens.getType(), rows, slots, layer.getCombineWeights(layer.route))
          .getResult();
  if (layer.fused)
    output = builder.create<AllReduceOp>(loc, output.getType(), output, Value(), layer.fused);
  layer.replaceWith(output);
}

namespace {
struct MoePpMoe : moe::impl::MoePpMoeBase<MoePpMoe> {
  using Base::Base;

  void runOnOperation() override {
    for (auto dispatch : llvm::to_vector(getOperation().getOps<DispatchOp>())) {
      FailureOr<SpmdAnalysis> states = SpmdAnalysis::compute(getOperation());
      if (failed(states))
        return signalPassFailure();
      std::string reason;
      FailureOr<BaselineLayer> layer = BaselineLayer::match(dispatch, *states, reason);
      if (succeeded(layer))
        reason = getObstacle(*layer, *states);
      if (!reason.empty())
        leaveLayer(dispatch, "moe-ppmoe", reason);
      else
        rewriteLayer(*layer, *states);
    }
    if (failed(insertToVarying(getOperation())))
      signalPassFailure();
  }
};
} // namespace
