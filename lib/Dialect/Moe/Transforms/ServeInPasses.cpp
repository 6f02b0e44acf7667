//===- ServeInPasses.cpp - moe-serve-in-passes ----------------------------===//
//
// A dropless layer with memory for fewer rows than may arrive serves them in passes. What differs from pass to pass is
// which choices are served: so a pass is a copy of the layer's own ops on other slots and counts, whatever the
// schedule. The program has one further pass, and moe-differentiate derives its backward as that of any other op. It
// stands before the first pass, so that in the backward the gradients of the first pass are there, and it adds to them
// in their place.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/SchedulePasses.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

#include "ExpertWay.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOESERVEINPASSES
#include "moe/Dialect/Moe/Transforms/SchedulePasses.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// A layer whose experts have room for fewer rows than may arrive.
struct BoundedLayer {
  RouteOp route;
  /// In program order, what depends on the slots or counts, but for casts of these, up to the combine, which is the
  /// last.
  SmallVector<Operation *> ops;
  /// The routing's slots and counts, and casts of them.
  SmallVector<Value> slots, counts;
  CombineOp combine;
  /// The tokens' dispatch, and the slots there or where the choices of own experts are selected.
  DispatchOp dispatch;
  Value routedSlots;
  int64_t rows = 0, workers = 1, phases = 1; ///< room of each of so many holders of experts, in each phase
  bool canOverflow = false;                  ///< more rows than that may arrive
  bool hasShadows = false;                   ///< of experts; who made them has told that there are no passes
  SmallVector<GroupAttr, 1> senders;         ///< those that send different rows to a worker

  /// Fails where the layer has room for all rows (`reason` is empty), and where it has to stay as it is.
  static FailureOr<BoundedLayer> match(RouteOp route, const SpmdAnalysis &states, std::string &reason);
  /// The most passes behind the first one.
  int64_t countFurtherPasses();

private:
  void findOps();
  bool findRoom(std::string &reason);
  void findSenders(const SpmdAnalysis &states);
};
} // namespace

static RankedTensorType getType(Value value) { return cast<RankedTensorType>(value.getType()); }

void BoundedLayer::findOps() {
  slots = {route.getSlots()};
  counts = {route.getCounts()};
  llvm::DenseSet<Value> reached = {route.getSlots(), route.getCounts()};
  for (Operation *op = route->getNextNode(); op; op = op->getNextNode()) {
    if (llvm::none_of(op->getOperands(), [&](Value operand) { return reached.contains(operand); }))
      continue;
    if (!isa<CombineOp>(op))
      reached.insert(op->result_begin(), op->result_end());
    auto cast = dyn_cast<ToVaryingOp>(op);
    if (cast && llvm::is_contained(slots, cast.getInput()))
      slots.push_back(cast.getResult());
    else if (cast && llvm::is_contained(counts, cast.getInput()))
      counts.push_back(cast.getResult());
    else
      ops.push_back(op);
  }
}

/// Whether the layer has one room, for exchanges to experts or for choices that stay on the rank, and no other form.
bool BoundedLayer::findRoom(std::string &reason) {
  int64_t experts = getType(route.getCounts()).getDimSize(1);
  auto note = [&](int64_t room, Value own) {
    if (rows > 0 && rows != room)
      reason = "its exchanges have room for different numbers of rows";
    rows = room;
    workers = experts / getType(own).getDimSize(1);
  };
  routedSlots = route.getSlots();
  for (Operation *op : ops) {
    if (auto exchange = dyn_cast<AllToAllVOp>(op)) {
      phases = exchange.getPhases();
      if (phases > 1 || exchange.getAddend())
        reason = "its rows are exchanged in phases";
      if (exchange.getDirection() != Direction::to_experts)
        continue;
      note(getType(exchange.getResult()).getDimSize(0), exchange.getExpertCounts());
      int64_t sent = exchange.getBlockSideType().getDimSize(0) / static_cast<int64_t>(exchange.getCopies());
      canOverflow |= exchange.getGroup().getSize() / phases * sent > rows;
    } else if (auto own = dyn_cast<LocalSlotsOp>(op)) {
      note(own.getRoom(), own.getCounts());
      canOverflow = true;
    } else if (auto other = dyn_cast<DispatchOp>(op); other && !dispatch) {
      dispatch = other;
      if (llvm::is_contained(slots, other.getSlots()))
        routedSlots = other.getSlots();
    } else if (auto last = dyn_cast<CombineOp>(op)) {
      if (combine)
        reason = "its rows are combined in several parts";
      combine = last;
    } else if (isa<ChooseShadowsOp, DivideChoicesOp>(op)) {
      hasShadows = true;
    }
  }
  if (static_cast<int64_t>(route.getChunks()) > 1)
    reason = "its rows are in chunks";
  return reason.empty() && rows > 0 && dispatch && combine && ops.back() == combine;
}

/// Members that have the same tokens send the same rows once, or as rows of their own: the slots' state says which.
void BoundedLayer::findSenders(const SpmdAnalysis &states) {
  AxisSet met;
  for (Operation *op : ops)
    if (auto kernel = dyn_cast<MoeKernelOpInterface>(op); kernel && isCollective(op))
      met = met | *states.getAxes().getAxes(kernel.getKernelGroup());
    else if (auto cast = dyn_cast<ToVaryingOp>(op); cast && isa<FloatType>(getType(cast.getInput()).getElementType()))
      met = met | *states.getAxes().getAxes(cast.getGroup());
  llvm::append_range(senders, states.getAxes().getGroups(met & states.getState(routedSlots)));
}

FailureOr<BoundedLayer> BoundedLayer::match(RouteOp route, const SpmdAnalysis &states, std::string &reason) {
  BoundedLayer layer;
  layer.route = route;
  if (!route.isDropless())
    return failure();
  layer.findOps();
  bool isSingle = layer.findRoom(reason);
  layer.findSenders(states);
  if (layer.hasShadows || !layer.canOverflow || layer.countFurtherPasses() < 1) {
    reason.clear();
    return failure();
  }
  if (isSingle && layer.senders.size() > 1)
    reason = "the ranks that send rows to its experts are no single group";
  if (!isSingle || !reason.empty())
    return failure();
  if (layer.senders.empty())
    layer.senders.push_back(GroupAttr::get(route.getContext(), "self", 1, 1));
  return layer;
}

int64_t BoundedLayer::countFurtherPasses() {
  int64_t tokens = getType(routedSlots).getDimSize(0), k = getType(routedSlots).getDimSize(1);
  int64_t own = getType(route->getResult(4)).getDimSize(1) / workers;
  int64_t most = tokens * std::min(k, own);
  for (GroupAttr group : senders)
    most *= group.getSize();
  int64_t room = rows * phases * static_cast<int64_t>(route.getChunks());
  return static_cast<int64_t>(llvm::divideCeil(most, room)) - 1;
}

/// Marks an op of the further pass. The backward computes it again.
static void mark(Operation *op, StringAttr pass) {
  op->setAttr(kPassAttrName, pass);
  Residual residual = isCollective(op) ? Residual::recommunicate : Residual::recompute;
  op->setAttr(kResidualAttrName, ResidualAttr::get(op->getContext(), residual));
}

/// Counts of a pass vary where its slots do: casts of what is made of them are inserted anew.
static void eraseCasts(BoundedLayer &layer) {
  llvm::erase_if(layer.ops, [](Operation *op) {
    auto cast = dyn_cast<ToVaryingOp>(op);
    if (!cast || !getType(cast.getInput()).getElementType().isInteger())
      return false;
    cast.getResult().replaceAllUsesWith(cast.getInput());
    cast.erase();
    return true;
  });
}

static void rewriteLayer(BoundedLayer &layer, StringAttr pass) {
  eraseCasts(layer);
  // Nothing else uses their results.
  for (Operation *op : ArrayRef(layer.ops).drop_back())
    op->moveBefore(layer.combine);
  OpBuilder builder(layer.ops.front());
  Location loc = layer.combine.getLoc();
  GroupAttr senders = layer.senders.front();
  Value gathered = layer.route.getCounts();
  if (senders.getSize() > 1)
    gathered = builder.create<AllGatherOp>(loc, gathered, senders, /*dim=*/0);
  auto createWindow = [&](Value before) {
    return builder.create<WindowOp>(loc, layer.routedSlots, gathered, before, senders, layer.workers, layer.rows);
  };
  WindowOp first = createWindow(Value()), further = createWindow(first.getLeft());
  IRMapping mapping;
  for (auto [values, window, own] : {std::tuple(ArrayRef(layer.slots), further.getSlots(), first.getSlots()),
                                     std::tuple(ArrayRef(layer.counts), further.getCounts(), first.getCounts())})
    for (Value value : values) {
      mapping.map(value, Value(window));
      value.replaceUsesWithIf(own, [&](OpOperand &use) { return llvm::is_contained(layer.ops, use.getOwner()); });
      mapping.map(Value(own), Value(window));
    }
  mark(further, pass);
  for (Operation *op : layer.ops)
    mark(builder.clone(*op, mapping), pass);
  Value output = layer.combine.getResult();
  builder.setInsertionPointAfter(layer.combine);
  auto sum = builder.create<AddOp>(loc, output, mapping.lookup(output));
  sum->setAttr(kPassAttrName, pass);
  for (Operation *built : {gathered.getDefiningOp(), first.getOperation(), further.getOperation(), sum.getOperation()})
    inheritUnit(layer.combine, built);
  output.replaceAllUsesExcept(sum, sum);
}

/// Casts of what a pass makes belong to it.
static void markCasts(func::FuncOp function) {
  for (auto cast : function.getOps<ToVaryingOp>())
    if (Operation *maker = cast.getInput().getDefiningOp(); maker && !cast->hasAttr(kPassAttrName))
      if (auto pass = maker->getAttrOfType<StringAttr>(kPassAttrName); pass && maker->hasAttr(kResidualAttrName))
        mark(cast, pass);
}

namespace {
struct MoeServeInPasses : moe::impl::MoeServeInPassesBase<MoeServeInPasses> {
  using Base::Base;

  void runOnOperation() override {
    int64_t number = 0;
    for (auto route : llvm::to_vector(getOperation().getOps<RouteOp>())) {
      FailureOr<SpmdAnalysis> states = SpmdAnalysis::compute(getOperation());
      if (failed(states))
        return signalPassFailure();
      std::string reason;
      FailureOr<BoundedLayer> layer = BoundedLayer::match(route, *states, reason);
      if (failed(layer) && !reason.empty())
        route.emitWarning() << "moe-serve-in-passes leaves this layer as it is: " << reason
                            << "; a step in which a rank gets more rows than --max-load has room for fails";
      if (failed(layer))
        continue;
      rewriteLayer(*layer, StringAttr::get(&getContext(), "pass" + Twine(number++)));
      if (failed(insertToVarying(getOperation())))
        return signalPassFailure();
      markCasts(getOperation());
    }
  }
};
} // namespace
