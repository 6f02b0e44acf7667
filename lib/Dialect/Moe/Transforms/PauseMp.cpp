//===- PauseMp.cpp - moe-pause-mp -----------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/Transforms/BaselineLayer.h"
#include "moe/Dialect/Moe/Transforms/LeftLayers.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEPAUSEMP
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Rewrites one layer.
class LayerRewriter {
public:
  explicit LayerRewriter(BaselineLayer layer) : layer(layer), loc(layer.dispatch.getLoc()), builder(layer.combine) {}

  void rewriteToS1();
  void rewriteToS2();

private:
  /// Rows of this rank, per expert or packed, with their counts in the dropless form.
  struct Rows {
    Value rows, counts;
  };

  Value slice(Value value, int64_t dim) {
    return layer.mp ? builder.create<SliceOp>(loc, value, layer.mp, dim).getResult() : value;
  }
  Value gather(Value value, int64_t dim) {
    return layer.mp ? builder.create<AllGatherOp>(loc, value, layer.mp, dim).getResult() : value;
  }
  /// Dumps `blocks` blocks of `value` along `dim`, each for all shards of an expert, or adds up the blocks that they
  /// return.
  Value dump(Value value, int64_t dim, int64_t blocks) {
    return layer.esp ? builder.create<DumpOp>(loc, value, dim, blocks, layer.getEsp()).getResult() : value;
  }
  Value reduce(Value value, int64_t dim, int64_t blocks) {
    return layer.esp ? builder.create<LocalReduceOp>(loc, value, dim, blocks, layer.getEsp()).getResult() : value;
  }

  RouteOp routeShare(Value tokens);
  int64_t padExpertRows();
  Value dispatch(Value tokens, RouteOp route, int64_t rows);
  /// Sends rows to the experts and back, over the fused group. Returns rows of the shape of `share.rows`.
  Value runExperts(Rows share);
  Value runExpertsRagged(Rows share);
  Value cloneExperts(Value rows, Value counts) { return layer.cloneExperts(builder, rows, counts); }
  int64_t getReservedRows(int64_t sentRows);
  Value combine(Value rows, RouteOp route, Value tokens);
  void replaceAux(RouteOp route);

  BaselineLayer layer;
  Location loc;
  OpBuilder builder;
};

} // namespace

//===----------------------------------------------------------------------===//
// Routing
//===----------------------------------------------------------------------===//

static Operation *cloneRoute(OpBuilder &builder, RouteOp route, Value logits) {
  IRMapping mapping;
  mapping.map(route.getLogits(), logits);
  return builder.clone(*route, mapping);
}

RouteOp LayerRewriter::routeShare(Value tokens) {
  Value logits = tokens;
  for (Operation *op : layer.gate)
    logits = cloneOnRows(builder, op, logits, {});
  auto route = cast<RouteOp>(cloneRoute(builder, layer.route, logits));
  int64_t share = getTensorType(tokens).getDimSize(0), groups = layer.getGroupsOfShare();
  for (Value result :
       std::initializer_list<Value>{route.getScores(), route.getExperts(), route.getSlots(), route.getWeights()})
    result.setType(withDim(getTensorType(result), 0, share));
  // Number of its groups that the baseline routes as one of its own.
  int64_t parts = layer.getMp() * groups / layer.route.getGroups();
  int64_t capacity = llvm::divideCeil(layer.route.getCapacity(), parts);
  route.setGroups(groups);
  route.setCapacity(capacity);
  if (capacity * parts != layer.route.getCapacity())
    layer.route.emitRemark() << "moe-pause-mp: expected a capacity divisible by " << parts << ", the members of '"
                             << layer.mp.getName() << "', but got " << layer.route.getCapacity()
                             << "; each member takes " << capacity;
  return route;
}

/// Gives each expert as many rows as the members can divide evenly, and returns their number. The same choices are
/// dropped.
int64_t LayerRewriter::padExpertRows() {
  int64_t needed = static_cast<int64_t>(layer.route.getCapacity() * layer.route.getGroups());
  int64_t rows = static_cast<int64_t>(llvm::alignTo(needed, layer.getMp()));
  if (rows == needed)
    return rows;
  layer.route.emitRemark() << "moe-pause-mp: expected rows of an expert divisible by " << layer.getMp()
                           << ", the members of '" << layer.mp.getName() << "', but got " << needed
                           << "; the buffer is padded to " << rows;
  layer.route.setChunked(1, rows);
  return rows;
}

/// Replaces the auxiliary loss, a mean over groups: each member has that of its own groups.
void LayerRewriter::replaceAux(RouteOp route) {
  Value aux = route.getAux();
  if (layer.mp && getTensorType(route.getLogits()) != getTensorType(layer.route.getLogits())) {
    Value share =
        builder.create<ScaleOp>(loc, aux, builder.getF64FloatAttr(1.0 / static_cast<double>(layer.mp.getSize())));
    aux = builder.create<AllReduceOp>(loc, share.getType(), share, Value(), layer.mp);
  }
  layer.route.getAux().replaceAllUsesWith(aux);
}

//===----------------------------------------------------------------------===//
// To the experts and back
//===----------------------------------------------------------------------===//

Value LayerRewriter::dispatch(Value tokens, RouteOp route, int64_t rows) {
  RankedTensorType type = layer.dispatch.getResult().getType();
  return builder.create<DispatchOp>(loc, withDim(type, layer.isDropless() ? 0 : 1, rows), tokens, route.getSlots(),
                                    layer.getDispatchWeights(route));
}

/// Builds dump, EP&ESP-AlltoAll, expert shards, EP&ESP-AlltoAll and local sum.
Value LayerRewriter::runExperts(Rows share) {
  if (layer.isDropless())
    return runExpertsRagged(share);
  if (!layer.fused)
    return cloneExperts(share.rows, {});
  Value there = builder.create<AllToAllOp>(loc, dump(share.rows, 0, layer.getEp()), layer.fused, 0, 1);
  Value back = builder.create<AllToAllOp>(loc, cloneExperts(there, {}), layer.fused, 1, 0);
  return reduce(back, 0, layer.getEp());
}

Value LayerRewriter::runExpertsRagged(Rows share) {
  if (!layer.fused)
    return cloneExperts(share.rows, share.counts);
  Value atExperts = builder.create<AllToAllOp>(loc, dump(share.counts, 1, layer.getEp()), layer.fused, 1, 0);
  Value rows = dump(share.rows, 0, 1);
  RankedTensorType sent = getTensorType(rows);
  Value there =
      builder.create<AllToAllVOp>(loc, withDim(sent, 0, getReservedRows(getTensorType(share.rows).getDimSize(0))), rows,
                                  share.counts, atExperts, layer.fused, Direction::to_experts, layer.getEsp());
  Value back = builder.create<AllToAllVOp>(loc, sent, cloneExperts(there, atExperts), share.counts, atExperts,
                                           layer.fused, Direction::from_experts, layer.getEsp());
  return reduce(back, 0, 1);
}

/// Number of rows to reserve at the experts. If the members of mp send to one set of experts, these receive each token
/// once and not from each member, so it is the baseline's room over mp. For a smaller set it is the most rows that its
/// members send.
int64_t LayerRewriter::getReservedRows(int64_t sentRows) {
  int64_t most = layer.fused.getSize() * sentRows;
  int64_t baseline = getTensorType(layer.experts.front()->getOperand(0)).getDimSize(0);
  bool inside = layer.fused.getSize() % layer.getMp() == 0;
  return inside ? std::min<int64_t>(most, llvm::divideCeil(baseline, layer.getMp())) : most;
}

Value LayerRewriter::combine(Value rows, RouteOp route, Value tokens) {
  return builder.create<CombineOp>(loc, tokens.getType(), rows, route.getSlots(), layer.getCombineWeights(route));
}

void LayerRewriter::rewriteToS1() {
  Value tokens = slice(layer.tokens, 0);
  RouteOp route = routeShare(tokens);
  int64_t choices = route.getExperts().getType().getNumElements();
  int64_t rows = layer.isDropless() ? choices : route.getGroups() * route.getCapacity();
  Value back = runExperts({dispatch(tokens, route, rows), route.getCounts()});
  Value output = gather(combine(back, route, tokens), 0);
  replaceAux(route);
  layer.replaceWith(output);
}

void LayerRewriter::rewriteToS2() {
  RouteOp route = layer.route;
  int64_t choices = route.getExperts().getType().getNumElements();
  int64_t dim = layer.isDropless() ? 0 : 1;
  int64_t rows = layer.isDropless() ? static_cast<int64_t>(llvm::alignTo(choices, layer.getMp())) : padExpertRows();
  Value counts = route.getCounts();
  if (layer.isDropless() && layer.mp)
    counts = builder.create<SliceCountsOp>(loc, counts, layer.mp, rows);
  Value back = runExperts({slice(dispatch(layer.tokens, route, rows), dim), counts});
  layer.replaceWith(combine(gather(back, dim), route, layer.tokens));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct MoePauseMp : moe::impl::MoePauseMpBase<MoePauseMp> {
  using Base::Base;

  void runOnOperation() override {
    for (auto dispatch : llvm::to_vector(getOperation().getOps<DispatchOp>())) {
      FailureOr<SpmdAnalysis> states = SpmdAnalysis::compute(getOperation());
      if (failed(states))
        return signalPassFailure();
      rewrite(dispatch, *states);
    }
    if (failed(insertToVarying(getOperation())))
      signalPassFailure();
  }

  void rewrite(DispatchOp dispatch, const SpmdAnalysis &states) {
    auto leave = [&](StringRef reason) { leaveLayer(dispatch, "moe-pause-mp", reason); };
    auto chosen = llvm::dyn_cast_or_null<StringAttr>(dispatch->removeAttr(kPauseMpAttrName));
    std::string reason;
    FailureOr<BaselineLayer> layer = BaselineLayer::match(dispatch, states, reason);
    if (failed(layer))
      return leave(reason);
    if (schedule == PauseMpSchedule::Chosen && !chosen)
      return leave("expected '" + kPauseMpAttrName.str() + "' on its dispatch for schedule=chosen");
    bool useS1 = schedule == PauseMpSchedule::Chosen ? chosen == "s1" : schedule == PauseMpSchedule::S1;
    if (std::string obstacle = layer->getShareObstacle(); useS1 && !obstacle.empty())
      return leave(obstacle);
    if (ParallelAttr parallel = getParallel(getOperation()); parallel.getMp() == 1 && parallel.getEsp() == 1)
      return leave("with mp = 1 and esp = 1, S1 and S2 are the baseline");
    LayerRewriter rewriter(*layer);
    if (useS1)
      rewriter.rewriteToS1();
    else
      rewriter.rewriteToS2();
  }
};
} // namespace
