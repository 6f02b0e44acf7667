//===- ServeInPasses.cpp - moe-serve-in-passes ----------------------------===//
//
// A pass is a copy of the layer's own ops on other slots and counts. The further pass stands before the first one, so
// that in the backward the gradients of the first pass exist already, and it adds to them in place.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

#include "ExpertPath.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOESERVEINPASSES
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// A layer whose experts have room for fewer rows than may arrive.
struct BoundedLayer {
  /// Op that gives the choices of experts their rows and counts these.
  MoeSlotsOpInterface made;
  /// Ops that depend on the slots or counts, without casts of these, up to `last`, in program order.
  SmallVector<Operation *> ops;
  /// Slots and counts of `made`, and casts of them.
  SmallVector<Value> slots, counts;
  /// The combine, or the op that joins the combines of equal parts of the tokens.
  Operation *last = nullptr;
  /// Dispatch of the tokens, and the slots there or where the choices of the rank's own experts are selected.
  DispatchOp dispatch;
  Value routedSlots;
  WindowSizes sizes;
  bool canOverflow = false;          ///< whether more rows than that may arrive
  GroupAttr exchanging;              ///< null if no rows are exchanged
  SmallVector<GroupAttr, 1> senders; ///< groups of ranks that send different rows to a worker

  /// Fails if the layer has room for all rows (`reason` is empty), or if it has to stay as it is.
  static FailureOr<BoundedLayer> match(MoeSlotsOpInterface made, const SpmdAnalysis &states, std::string &reason);

private:
  void findOps();
  bool findRoom(std::string &reason);
  void findSenders(const SpmdAnalysis &states);
  bool haveSendersOnePhase();
};
} // namespace

/// Merged choices that arrived from other ranks, for rows that go once, or null for other slots.
static MergeChoicesOp getArrived(Value slots) {
  auto merge = skipToVarying(slots).getDefiningOp<MergeChoicesOp>();
  return merge && merge.getUsed() ? merge : MergeChoicesOp();
}

/// Whether an op adds up the experts' results for the tokens, all or a part of them.
static bool isCombine(Operation *op) {
  auto combine = dyn_cast<CombineOp>(op);
  return combine && !getArrived(combine.getSlots());
}

/// Whether an op gives the layer's result for all tokens.
static bool isLast(Operation *op) {
  auto isJoined = [](Operation *user) { return isa<ConcatOp>(user); };
  if (isa<ConcatOp>(op))
    return llvm::all_of(op->getOperands(),
                        [](Value part) { return part.getDefiningOp() && isCombine(part.getDefiningOp()); });
  return isCombine(op) && llvm::none_of(op->getUsers(), isJoined);
}

void BoundedLayer::findOps() {
  slots = {made.getSlots()};
  counts = {made.getCounts()};
  llvm::DenseSet<Value> reached = {made.getSlots(), made.getCounts()};
  for (Operation *op = made->getNextNode(); op; op = op->getNextNode()) {
    if (llvm::none_of(op->getOperands(), [&](Value operand) { return reached.contains(operand); }))
      continue;
    if (!isLast(op))
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

/// Whether the layer has rooms of one size, for exchanges to experts or for choices that stay on the rank, and no other
/// form.
bool BoundedLayer::findRoom(std::string &reason) {
  int64_t experts = getTensorType(made.getCounts()).getDimSize(1);
  auto note = [&](int64_t room, int64_t workers, int64_t phases) {
    WindowSizes found{workers, room, made.getChunks(), 0, phases};
    if (canOverflow && (sizes.rows != found.rows || sizes.workers != found.workers || sizes.phases != found.phases))
      reason = "its rooms have different numbers of rows";
    sizes = found;
    canOverflow = true;
  };
  auto getHolders = [](auto op) { return op.getGroup().getSize() / op.getCopies(); };
  // Rows that go once have the same room, or room for all.
  bool isOnce = llvm::any_of(ops, [](Operation *op) { return isa<MergeChoicesOp>(op); });
  MergeChoicesOp atExperts; // the last one
  routedSlots = made.getSlots();
  for (Operation *op : ops) {
    auto exchange = dyn_cast<AllToAllVOp>(op);
    if (exchange && exchange.getDirection() == Direction::to_experts && !isOnce) {
      note(getTensorType(exchange.getResult()).getDimSize(0), getHolders(exchange), exchange.getPhases());
      exchanging = exchange.getGroup();
    } else if (auto own = dyn_cast<LocalSlotsOp>(op)) {
      note(own.getRoom(), experts / getTensorType(own.getCounts()).getDimSize(1), /*phases=*/1);
    } else if (auto merge = dyn_cast<MergeChoicesOp>(op)) {
      atExperts = merge;
      if (!merge.getUsed())
        routedSlots = merge.getRoutedSlots();
    } else if (auto other = dyn_cast<DispatchOp>(op); other && !dispatch) {
      dispatch = other;
      if (llvm::is_contained(slots, other.getSlots()))
        routedSlots = other.getSlots();
    } else if (isLast(op)) {
      if (last)
        reason = "its rows are combined in several parts";
      last = op;
    }
  }
  if (atExperts)
    note(getTensorType(atExperts.getSent()).getDimSize(0), getHolders(atExperts), /*phases=*/1);
  if (!dispatch || !last)
    return false;
  int64_t rows =
      isOnce ? getTensorType(made.getSlots()).getNumElements() : getTensorType(dispatch.getResult()).getDimSize(0);
  sizes.chunkRows = sizes.chunks > 1 ? rows / sizes.chunks : 0;
  return reason.empty() && canOverflow && ops.back() == last;
}

/// Finds the senders. Members with the same tokens send the same rows once, or as rows of their own, which the slots'
/// state tells.
void BoundedLayer::findSenders(const SpmdAnalysis &states) {
  AxisSet met;
  for (Operation *op : ops)
    if (auto kernel = dyn_cast<MoeKernelOpInterface>(op); kernel && isCollective(op))
      met = met | *states.getAxes().getAxes(kernel.getKernelGroup());
    else if (auto cast = dyn_cast<ToVaryingOp>(op);
             cast && isa<FloatType>(getTensorType(cast.getInput()).getElementType()))
      met = met | *states.getAxes().getAxes(cast.getGroup());
  llvm::append_range(senders, states.getAxes().getGroups(met & states.getState(routedSlots)));
  if (senders.empty())
    senders.push_back(GroupAttr::get(made.getContext(), "self", 1, 1));
}

/// Whether ranks that have the same tokens are neighbours, and exchange in one phase.
bool BoundedLayer::haveSendersOnePhase() {
  GroupAttr group = senders.front();
  return sizes.phases == 1 || (group.getSize() % sizes.phases == 0 &&
                               group.getSize() * group.getStride() == exchanging.getSize() * exchanging.getStride());
}

/// Shadows leave casts of the slots that they replace.
static bool hasUses(Value slots) {
  return llvm::any_of(slots.getUsers(), [](Operation *user) {
    auto cast = dyn_cast<ToVaryingOp>(user);
    return !cast || hasUses(cast.getResult());
  });
}

FailureOr<BoundedLayer> BoundedLayer::match(MoeSlotsOpInterface made, const SpmdAnalysis &states, std::string &reason) {
  BoundedLayer layer;
  layer.made = made;
  if (!made.isDropless() || !hasUses(made.getSlots()))
    return failure();
  layer.findOps();
  bool isSingle = layer.findRoom(reason);
  if (!layer.canOverflow)
    return failure();
  layer.findSenders(states);
  int64_t members = 1;
  for (GroupAttr group : layer.senders)
    members *= group.getSize();
  RankedTensorType slots = getTensorType(made.getSlots());
  if (layer.sizes.countMostPasses(slots, members, getTensorType(made.getCounts()).getDimSize(1)) == 1) {
    reason.clear();
    return failure();
  }
  if (isSingle && layer.senders.size() > 1)
    reason = "the ranks that send rows to its experts are no single group";
  else if (isSingle && !layer.haveSendersOnePhase())
    reason = "ranks that have the same tokens send their rows in different phases";
  if (!isSingle || !reason.empty())
    return failure();
  return layer;
}

/// Marks an op of the further pass. The backward computes it again. Its values are in no ring, since those of the first
/// pass take turns there.
static void mark(Operation *op, StringAttr pass) {
  op->setAttr(kPassAttrName, pass);
  op->removeAttr(kRingAttrName);
  Residual residual = isCollective(op) ? Residual::recommunicate : Residual::recompute;
  op->setAttr(kResidualAttrName, ResidualAttr::get(op->getContext(), residual));
}

/// Erases casts of values made of a pass's counts, which vary where its slots do. They are inserted again later.
static void eraseCasts(BoundedLayer &layer) {
  llvm::erase_if(layer.ops, [](Operation *op) {
    auto cast = dyn_cast<ToVaryingOp>(op);
    if (!cast || !getTensorType(cast.getInput()).getElementType().isInteger())
      return false;
    cast.getResult().replaceAllUsesWith(cast.getInput());
    cast.erase();
    return true;
  });
}

static void servePass(BoundedLayer &layer, StringAttr pass) {
  eraseCasts(layer);
  // No other op uses their results.
  for (Operation *op : ArrayRef(layer.ops).drop_back())
    op->moveBefore(layer.last);
  OpBuilder builder(layer.ops.front());
  Location loc = layer.last->getLoc();
  GroupAttr senders = layer.senders.front();
  Value gathered = layer.made.getCounts();
  if (senders.getSize() > 1)
    gathered = builder.create<AllGatherOp>(loc, gathered, senders, /*dim=*/0);
  // Slots of a part of the tokens are made from those of all tokens.
  bool isWhole = skipToVarying(layer.routedSlots) == layer.made.getSlots();
  Value slots = isWhole ? layer.routedSlots : layer.made.getSlots();
  auto createWindow = [&](Value before) {
    return builder.create<WindowOp>(loc, slots, gathered, before, senders, layer.sizes);
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
  Value output = layer.last->getResult(0);
  builder.setInsertionPointAfter(layer.last);
  auto sum = builder.create<AddOp>(loc, output, mapping.lookup(output));
  sum->setAttr(kPassAttrName, pass);
  for (Operation *built : {gathered.getDefiningOp(), first.getOperation(), further.getOperation(), sum.getOperation()})
    inheritUnit(layer.last, built);
  output.replaceAllUsesExcept(sum, sum);
}

/// Marks casts of a pass's results as part of it.
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
    for (auto made : llvm::to_vector(getOperation().getOps<MoeSlotsOpInterface>())) {
      FailureOr<SpmdAnalysis> states = SpmdAnalysis::compute(getOperation());
      if (failed(states))
        return signalPassFailure();
      std::string reason;
      FailureOr<BoundedLayer> layer = BoundedLayer::match(made, *states, reason);
      if (failed(layer) && !reason.empty())
        made.emitWarning() << "moe-serve-in-passes leaves this layer as it is: " << reason
                           << "; a step in which a rank gets more rows than --max-load has room for fails";
      if (failed(layer))
        continue;
      servePass(*layer, StringAttr::get(&getContext(), "pass" + Twine(number++)));
      if (failed(insertToVarying(getOperation())))
        return signalPassFailure();
      markCasts(getOperation());
    }
  }
};
} // namespace
