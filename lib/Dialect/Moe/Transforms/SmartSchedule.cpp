//===- SmartSchedule.cpp - moe-smart-schedule -----------------------------===//
#include "ExpertPath.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

#include <numeric>

namespace mlir::moe {
#define GEN_PASS_DEF_MOESMARTSCHEDULE
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Rows that go to the experts, are computed there, and return.
struct Round {
  AllToAllVOp to, from;
  SmallVector<Operation *> experts;

  static FailureOr<Round> find(AllToAllVOp to, std::string &reason);
  /// Counts of the rows at the experts, in all states in which they are used.
  SmallVector<Value> getExpertCounts();
};
} // namespace

FailureOr<Round> Round::find(AllToAllVOp to, std::string &reason) {
  Round round;
  round.to = to;
  llvm::DenseSet<Value> reached = {to.getResult()};
  for (Operation *op = to->getNextNode(); op && !round.from; op = op->getNextNode()) {
    if (llvm::none_of(op->getOperands(), [&](Value operand) { return reached.contains(operand); }))
      continue;
    auto exchange = dyn_cast<AllToAllVOp>(op);
    if (exchange && exchange.getDirection() == Direction::from_experts && exchange.getGroup() == to.getGroup()) {
      round.from = exchange;
    } else if (isa<MoeChunkableOpInterface>(op)) {
      round.experts.push_back(op);
      reached.insert(op->result_begin(), op->result_end());
    } else {
      reason = ("'" + op->getName().getStringRef() + "' cannot be computed for a part of its rows").str();
      return failure();
    }
  }
  auto isInside = [&](Operation *user) { return user == round.from || llvm::is_contained(round.experts, user); };
  for (Value value : reached)
    if (!round.from || !llvm::all_of(value.getUsers(), isInside)) {
      reason = "not all results of the experts return in one exchange over the same group";
      return failure();
    }
  return round;
}

SmallVector<Value> Round::getExpertCounts() {
  llvm::SetVector<Value> counts;
  auto add = [&](Operation *op) {
    for (Value operand : op->getOperands())
      if (skipToVarying(operand) == skipToVarying(to.getExpertCounts()))
        counts.insert(operand);
  };
  add(to);
  llvm::for_each(experts, add);
  add(from);
  return counts.takeVector();
}

/// Dispatch of the rows that `exchange` sends, directly or through ops that move or repeat them, or null.
static DispatchOp findDispatch(AllToAllVOp exchange) {
  Operation *op = exchange.getRows().getDefiningOp();
  while (op && !isa<DispatchOp>(op) && op->getNumOperands() > 0)
    op = op->getOperand(0).getDefiningOp();
  return dyn_cast_or_null<DispatchOp>(op);
}

/// Number of members that have the same tokens and send parts of the same rows.
static int64_t countSharers(AllToAllVOp exchange, const SpmdAnalysis &states) {
  DispatchOp dispatch = findDispatch(exchange);
  if (!dispatch)
    return 1;
  const SpmdAxes &axes = states.getAxes();
  int64_t different = 1;
  for (GroupAttr group : axes.getGroups(*axes.getAxes(exchange.getGroup()) & states.getState(dispatch.getSlots())))
    different *= group.getSize();
  return exchange.getGroup().getSize() / different;
}

/// Number of neighbours in a block. A block has `ranks` ranks, or as few more as divide the group, whole experts, and
/// all members that share tokens: otherwise the rows of a token could all be in one phase.
static int64_t getBlockMembers(AllToAllVOp exchange, int64_t sharers, int64_t ranks) {
  int64_t size = exchange.getGroup().getSize(), step = std::lcm(exchange.getCopies(), sharers);
  for (int64_t members = step; members < size; members += step)
    if (size % members == 0 && members * exchange.getGroup().getStride() >= ranks)
      return members;
  return size;
}

/// Share of the blocks, each of `blockRanks` ranks, that lie in another node than the block with which they exchange in
/// a phase.
static double getCrossing(int64_t phase, int64_t phases, int64_t blockRanks, int64_t nodeRanks) {
  int64_t crossing = 0;
  for (int64_t block = 0; block < phases; ++block)
    crossing += block * blockRanks / nodeRanks != (block + phase) % phases * blockRanks / nodeRanks;
  return static_cast<double>(crossing) / static_cast<double>(phases);
}

static SmallVector<int64_t> getOrder(SmartOrder order, int64_t phases, int64_t blockRanks, int64_t nodeRanks) {
  SmallVector<int64_t> sequence = llvm::to_vector(llvm::seq<int64_t>(0, phases));
  if (order == SmartOrder::Topology)
    llvm::stable_sort(MutableArrayRef(sequence).drop_front(), [&](int64_t a, int64_t b) {
      return getCrossing(a, phases, blockRanks, nodeRanks) > getCrossing(b, phases, blockRanks, nodeRanks);
    });
  return sequence;
}

/// Chunks are divided further.
static ChunkAttr getChunk(AllToAllVOp exchange, int64_t index, int64_t phases) {
  auto chunk = exchange->getAttrOfType<ChunkAttr>(kChunkAttrName);
  return ChunkAttr::get(exchange.getContext(), (chunk ? chunk.getIndex() * phases : 0) + index,
                        (chunk ? chunk.getChunks() : 1) * phases);
}

/// One phase of `exchange`, its operands replaced.
static AllToAllVOp buildPhase(OpBuilder &builder, AllToAllVOp exchange, const IRMapping &mapping, Value addend,
                              int64_t phase, int64_t phases) {
  IRMapping operands = mapping;
  auto op = cast<AllToAllVOp>(builder.clone(*exchange, operands));
  op.setPhase(phase);
  op.setPhases(phases);
  if (addend)
    op.getAddendMutable().assign(addend);
  return op;
}

static void rewrite(Round round, ArrayRef<int64_t> order, RowChunk chunk) {
  OpBuilder builder(round.from);
  auto phases = static_cast<int64_t>(order.size());
  RankedTensorType rows = round.to.getResult().getType();
  Value returned;
  for (auto [index, phase] : llvm::enumerate(order)) {
    SmallVector<Operation *> ops;
    IRMapping mapping;
    for (Value counts : round.getExpertCounts())
      mapping.map(counts, builder.create<PhaseOp>(round.to.getLoc(), counts, round.to.getGroup(), phase, phases));
    auto to = buildPhase(builder, round.to, mapping, /*addend=*/{}, phase, phases);
    to.getResult().setType(rows.clone({chunk.part, rows.getDimSize(1)}));
    mapping.map(round.to.getResult(), to.getResult());
    ops.push_back(to);
    for (Operation *op : round.experts)
      ops.push_back(cast<MoeChunkableOpInterface>(op).buildOnChunk(builder, mapping, chunk));
    ops.push_back(buildPhase(builder, round.from, mapping, returned, phase, phases));
    returned = ops.back()->getResult(0);
    for (Operation *op : ops)
      op->setAttr(kChunkAttrName, getChunk(round.to, static_cast<int64_t>(index), phases));
  }
  round.from.getResult().replaceAllUsesWith(returned);
  round.from.erase();
  for (Operation *op : llvm::reverse(round.experts))
    op->erase();
  round.to.erase();
}

int64_t mlir::moe::getSmartGroupSize(int64_t ranks, int64_t nodeRanks) {
  constexpr int64_t most = 4;
  return ranks > nodeRanks ? nodeRanks : llvm::divideCeil(ranks, most);
}

namespace {
struct MoeSmartSchedule : moe::impl::MoeSmartScheduleBase<MoeSmartSchedule> {
  using Base::Base;

  void runOnOperation() override {
    if (groupSize < 0) {
      getOperation().emitError() << "expected group-size of at least 0 but got " << groupSize.getValue();
      return signalPassFailure();
    }
    // Each exchange moves together with its exchange back.
    SmallVector<AllToAllVOp> exchanges;
    for (auto exchange : getOperation().getOps<AllToAllVOp>())
      if (exchange.getDirection() == Direction::to_experts && exchange.getPhases() == 1)
        exchanges.push_back(exchange);
    FailureOr<SpmdAnalysis> states = SpmdAnalysis::compute(getOperation());
    if (failed(states))
      return signalPassFailure();
    SmallVector<int64_t> sharers;
    for (AllToAllVOp exchange : exchanges)
      sharers.push_back(countSharers(exchange, *states));
    bool any = false;
    for (auto [exchange, its] : llvm::zip_equal(exchanges, sharers))
      any |= rewrite(exchange, its);
    if (!any)
      getOperation().emitRemark()
          << "moe-smart-schedule: no ragged exchange of this program can be divided; layers with "
             "a capacity have no ragged exchange, and a single group has no other groups to exchange with";
  }

  bool rewrite(AllToAllVOp exchange, int64_t sharers) {
    GroupAttr group = exchange.getGroup();
    int64_t nodeRanks = getClusterRates(exchange).nodeRanks;
    int64_t ranks = groupSize > 0 ? static_cast<int64_t>(groupSize)
                                  : getSmartGroupSize(group.getSize() * group.getStride(), nodeRanks);
    int64_t members = getBlockMembers(exchange, sharers, ranks), phases = group.getSize() / members;
    if (phases == 1)
      return false;
    auto leave = [&](const Twine &reason) {
      exchange.emitWarning() << "moe-smart-schedule leaves this exchange as it is: " << reason;
      return false;
    };
    std::string reason;
    FailureOr<Round> round = Round::find(exchange, reason);
    if (failed(round))
      return leave(reason);
    int64_t whole = exchange.getResult().getType().getDimSize(0);
    RowChunk chunk{static_cast<int64_t>(llvm::divideCeil(whole, phases)), whole};
    for (Operation *op : round->experts)
      if (!cast<MoeChunkableOpInterface>(op).canChunk(chunk))
        return leave("'" + op->getName().getStringRef() + "' cannot be computed for " + Twine(chunk.part) + " of its " +
                     Twine(chunk.whole) + " rows");
    ::rewrite(*round, getOrder(order, phases, members * group.getStride(), nodeRanks), chunk);
    return true;
  }
};
} // namespace
