//===- ShadowExperts.cpp - moe-shadow-experts -----------------------------===//
#include "ExpertPath.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/Transforms/LeftLayers.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOESHADOWEXPERTS
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// The exchange of the rows to the experts, or null.
static AllToAllVOp findExchange(const ExpertPath &path) {
  for (Operation *op : path.ops)
    if (auto exchange = dyn_cast<AllToAllVOp>(op); exchange && exchange.getDirection() == Direction::to_experts)
      return exchange;
  return {};
}

/// Bound of the rows for one worker's experts that are no shadows, as a fraction 1 / result of the rows for all
/// workers. Each worker has `experts` experts. `shadows` times the heaviest expert of the worker with most rows has
/// become a shadow.
///
/// If C rows are left, the last of n experts that a worker gave away had rows / n or more of a worker with C rows or
/// more. A worker that gives away r of e experts has C e / (e - r + 1) rows before, and the one that is left with C has
/// C e / (e - r). The result is the least sum of these, over C.
static double getWorstShare(int64_t experts, int64_t shadows) {
  auto e = static_cast<double>(experts);
  // least[r] is the number of rows, over C, of workers that together give away r experts.
  SmallVector<double> least(shadows + 1, 0);
  for (int64_t r = 1; r <= shadows; ++r) {
    least[r] = std::numeric_limits<double>::infinity();
    for (int64_t one = 1; one <= std::min(r, experts); ++one)
      least[r] = std::min(least[r], least[r - one] + e / (e - static_cast<double>(one) + 1));
  }
  double best = std::numeric_limits<double>::infinity();
  for (int64_t r = 0; r <= std::min(shadows, experts - 1); ++r)
    best = std::min(best, least[shadows - r] + e / (e - static_cast<double>(r)));
  return best;
}

/// Parameters that the ops on the path take besides the rows and their counts, each once.
static SmallVector<Value> getExpertValues(ExpertPath path) {
  llvm::SetVector<Value> values;
  llvm::DenseSet<Operation *> onPath(path.ops.begin(), path.ops.end());
  onPath.insert(path.dispatch.getOperation());
  for (Operation *op : path.ops)
    for (Value operand : op->getOperands())
      if (isa<FloatType>(getTensorType(operand).getElementType()) && !onPath.contains(operand.getDefiningOp()))
        values.insert(operand);
  return values.takeVector();
}

namespace {
/// Rewrites one layer.
class ShadowedLayer {
public:
  ShadowedLayer(ExpertPath path, AllToAllVOp exchange, ParallelAttr parallel, const MoeShadowExpertsOptions &options);

  void rewrite();

private:
  Value choose();
  void setTimes(ChooseShadowsOp choose);
  void shrinkReservation();
  Value buildShadows(DivideChoicesOp divide, Value shadows);

  ExpertPath path;
  AllToAllVOp exchange;
  ParallelAttr parallel;
  const MoeShadowExpertsOptions &options;
  ClusterRates rates;
  int64_t places;
  Location loc;
  OpBuilder builder;
  /// Rows that a rank exchanges for each row that it counts. It is less than one if the rank shares them with others.
  double share;
};
} // namespace

ShadowedLayer::ShadowedLayer(ExpertPath path, AllToAllVOp exchange, ParallelAttr parallel,
                             const MoeShadowExpertsOptions &options)
    : path(path), exchange(exchange), parallel(parallel), options(options), rates(getClusterRates(path.dispatch)),
      loc(path.dispatch.getLoc()), builder(path.dispatch) {
  // Casts of the counts may stand before the dispatch.
  builder.setInsertionPointAfter(path.slots);
  int64_t experts = getTensorType(path.slots.getCounts()).getDimSize(1);
  places = std::min<int64_t>(experts, options.max ? static_cast<int64_t>(options.max) : llvm::divideCeil(experts, 4));
  int64_t blocks = getTensorType(exchange.getBlockCounts()).getDimSize(0) * exchange.getCopies();
  share = static_cast<double>(exchange.getRows().getType().getDimSize(0)) / static_cast<double>(blocks) /
          static_cast<double>(path.dispatch.getResult().getType().getDimSize(0));
}

/// Sets the seconds of one counted row and of one expert.
void ShadowedLayer::setTimes(ChooseShadowsOp choose) {
  double flops = 0, expertBytes = 0;
  for (Operation *op : path.ops) {
    auto priced = dyn_cast<MoeCostOpInterface>(op);
    if (!priced)
      continue;
    if (OpCost cost = priced.getOpCost(); cost.resource == Resource::Matrix && cost.raggedRows > 0)
      flops += cost.flops / static_cast<double>(cost.raggedRows);
  }
  int64_t localExperts = getTensorType(exchange.getExpertCounts()).getDimSize(1);
  for (Value value : getExpertValues(path))
    expertBytes += static_cast<double>(getByteSize(value.getType())) / static_cast<double>(localExperts);
  RankedTensorType rows = exchange.getRows().getType();
  double rowBytes = static_cast<double>(getByteSize(rows)) / static_cast<double>(rows.getDimSize(0));
  auto over = [&](double amount, double rate) { return builder.getF64FloatAttr(rate > 0 ? amount / rate : 0); };
  choose.setRowComputeAttr(over(share * flops, rates.expertFlops));
  choose.setRowSendAttr(over(share * rowBytes, rates.expertBytes));
  choose.setRowLocalAttr(over(share * rowBytes, rates.linkBytes));
  // All ranks that hold a part of the worker's experts send and receive the row.
  choose.setRowNodeAttr(over(share * rowBytes * static_cast<double>(parallel.getEsp()), rates.nodeLinkBytes));
  choose.setExpertAttr(over(expertBytes, rates.broadcastBytes));
  choose.setStartAttr(builder.getF64FloatAttr(rates.expertStart));
}

Value ShadowedLayer::choose() {
  Value counts = builder.create<AllGatherOp>(loc, path.slots.getCounts(), parallel.getGroup("ep_esp"), 0);
  int64_t ep = parallel.getEp(), nodeWorkers = std::max<int64_t>(1, rates.nodeRanks / parallel.getEsp());
  if (ep % nodeWorkers != 0)
    nodeWorkers = 1;
  auto number = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
  // It is unknown before which part of the sorted rows a rank sends.
  int64_t room = share < 1 ? 0 : exchange.getResult().getType().getDimSize(0);
  auto zero = builder.getF64FloatAttr(0);
  auto op = builder.create<ChooseShadowsOp>(loc, path.slots.getCounts().getType(), counts,
                                            ShadowPolicyAttr::get(builder.getContext(), options.policy), number(ep),
                                            number(nodeWorkers), number(places), number(room), number(options.phases),
                                            zero, zero, zero, zero, zero, zero);
  setTimes(op);
  return op;
}

/// Factor on the mean number of rows for which there is always room. With less, memory would choose shadows where time
/// does not.
static constexpr double kLeastRoom = 4;

/// Shrinks the room to the rows that remain after the heaviest experts became shadows, for any routing.
void ShadowedLayer::shrinkReservation() {
  RankedTensorType type = exchange.getResult().getType();
  int64_t experts = getTensorType(exchange.getExpertCounts()).getDimSize(1), before = type.getDimSize(0);
  int64_t members = parallel.getEp() * parallel.getEsp();
  auto total = static_cast<double>(path.dispatch.getResult().getType().getDimSize(0) * members);
  double least = kLeastRoom * total / static_cast<double>(parallel.getEp());
  auto after = std::min(before, static_cast<int64_t>(std::max(least, total / getWorstShare(experts, places))));
  llvm::DenseSet<Value> resized;
  for (Operation *op : path.ops) {
    bool isNext = llvm::any_of(op->getOperands(), [&](Value operand) { return resized.contains(operand); });
    if (op != exchange && (!isNext || isa<AllToAllVOp>(op)))
      continue;
    Value result = op->getResult(0);
    result.setType(type.clone({after, getTensorType(result).getDimSize(1)}));
    resized.insert(result);
  }
}

/// Builds the experts' results for the shadows' rows, by tokens.
Value ShadowedLayer::buildShadows(DivideChoicesOp divide, Value shadows) {
  builder.setInsertionPointAfter(path.combine);
  IRMapping mapping;
  for (Value value : getExpertValues(path))
    mapping.map(value, builder.create<BroadcastExpertsOp>(loc, value, shadows, places, parallel.getGroup("ep")));
  mapping.map(divide.getCounts(), divide.getShadowCounts());
  RankedTensorType rows = path.dispatch.getResult().getType();
  Value dispatched = builder.create<DispatchOp>(loc, rows, path.dispatch.getTokens(), divide.getShadowSlots(),
                                                path.dispatch.getWeights());
  mapping.map(path.dispatch.getResult(), dispatched);
  ShadowScope scope{parallel.getGroup("ep"), parallel.getGroup("esp")};
  for (Operation *op : path.ops)
    cast<MoeChunkableOpInterface>(op).buildOnShadows(builder, mapping, scope);
  return builder.create<CombineOp>(loc, path.combine.getResult().getType(), mapping.lookup(path.combine.getRows()),
                                   divide.getShadowSlots(), path.combine.getWeights());
}

void ShadowedLayer::rewrite() {
  if (options.shrink && share == 1)
    shrinkReservation();
  auto route = cast<RouteOp>(path.slots);
  Value shadows = choose();
  auto divide = builder.create<DivideChoicesOp>(loc, route.getExperts(), shadows, places);
  for (Operation *op : path.ops)
    op->replaceUsesOfWith(route.getCounts(), divide.getCounts());
  path.dispatch.getSlotsMutable().assign(divide.getSlots());
  path.combine.getSlotsMutable().assign(divide.getSlots());
  Value ofShadows = buildShadows(divide, shadows);
  auto sum = builder.create<AddOp>(loc, path.combine.getResult(), ofShadows);
  path.combine.getResult().replaceAllUsesExcept(sum, sum);
}

namespace {
struct MoeShadowExperts : moe::impl::MoeShadowExpertsBase<MoeShadowExperts> {
  using Base::Base;

  void runOnOperation() override {
    ParallelAttr parallel = getParallel(getOperation());
    if (!parallel)
      return signalPassFailure();
    MoeShadowExpertsOptions options{max, policy, phases, shrink};
    if (options.max < 0 || options.phases < 1) {
      getOperation().emitError() << "expected max of at least 0 and phases of at least 1 but got " << options.max
                                 << " and " << options.phases;
      return signalPassFailure();
    }
    if (parallel.getEp() == 1) {
      getOperation().emitRemark() << "moe-shadow-experts: every rank has all experts (ep = 1), so none can be a shadow";
      return;
    }
    for (DispatchOp dispatch : ExpertPath::getDispatches(getOperation()))
      rewrite(dispatch, parallel, options);
    if (failed(insertToVarying(getOperation())))
      signalPassFailure();
  }

  void rewrite(DispatchOp dispatch, ParallelAttr parallel, const MoeShadowExpertsOptions &options) {
    auto leave = [&](const Twine &reason) { leaveLayer(dispatch, "moe-shadow-experts", reason); };
    std::string reason;
    FailureOr<ExpertPath> path = ExpertPath::find(dispatch, reason);
    if (failed(path))
      return leave(reason);
    if (!isa<RouteOp>(path->slots) || path->slots.getChunks() != 1)
      return leave("it already has shadows or chunks");
    AllToAllVOp exchange = findExchange(*path);
    if (!path->slots.isDropless() || !exchange)
      return leave("shadows save exchanged rows only in a dropless layer");
    if (!llvm::all_of(path->ops, [](Operation *op) { return isa<MoeChunkableOpInterface>(op); }))
      return leave("an op between its dispatch and its combine cannot be computed for shadows");
    ShadowedLayer(*path, exchange, parallel, options).rewrite();
  }
};
} // namespace
