//===- SendOnce.cpp - moe-send-once ---------------------------------------===//
//
// Rows go to holders of experts, not to experts: the ops that move them are copied, for one expert on each rank. What
// arrives is dispatched once more, among the rank's own experts. Only the forward is written: all ops have adjoints.
//
//===----------------------------------------------------------------------===//
#include "ExpertWay.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

#include "moe/Dialect/Moe/Transforms/LeftLayers.h"
#include "moe/Dialect/Moe/Transforms/SchedulePasses.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOESENDONCE
#include "moe/Dialect/Moe/Transforms/SchedulePasses.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

static RankedTensorType getType(Value value) { return cast<RankedTensorType>(value.getType()); }
static RankedTensorType withShape(RankedTensorType type, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, type.getElementType());
}

namespace {
/// Holders of experts, to each of whom a rank sends a token once: nodes, or ranks.
struct Level {
  GroupAttr group; ///< its members are the holders, or hold an expert together
  GroupAttr outer; ///< the member's place in it says among whose experts
  int64_t holders;
};

/// Tokens in rows, with their choices and weights. All rows are used where `used` is null.
struct Rows {
  Value tokens, choices, weights, used;
};

/// Rewrites one layer.
class SentLayer {
public:
  /// Fails with what is in the way, a phrase, in `reason`. Nodes of no ranks: tokens go straight to ranks.
  static FailureOr<SentLayer> match(DispatchOp dispatch, int64_t nodeRanks, std::string &reason);
  void rewrite();

private:
  explicit SentLayer(ExpertWay way)
      : way(std::move(way)), loc(this->way.dispatch.getLoc()), builder(this->way.combine) {}
  bool divideWay();
  std::string setLevels(int64_t nodeRanks);
  RowChunk getChunk();
  int64_t getRoom(const Level &level, int64_t sent, int64_t tokens);
  Operation *move(Operation *op, RankedTensorType rows);
  void carryCounts(Value counts);
  Value carryThere(Value payload);
  Value carryBack(Value partial);
  MergeChoicesOp merge(const Level &level, const Rows &rows);
  Rows send(const Level &level, const Rows &rows, MergeChoicesOp merged);
  Value returnRows(const Level &level, Value partial, MergeChoicesOp merged, const Rows &rows);
  Value dispatch(Value tokens, Value slots, int64_t count, Value weights = Value());
  Value compute(const Rows &rows);

  ExpertWay way;
  Location loc;
  OpBuilder builder;
  IRMapping mapping;
  RouteOp route;
  AllToAllVOp exchange; ///< to the experts
  SmallVector<Level, 2> levels;
  /// Of the ops on the way, those on counts, those that move rows there, the experts, and those that move rows back.
  SmallVector<Operation *> onCounts, there, experts, back;
};
} // namespace

static bool isExpert(Operation *op) { return isa<GroupedMatmulOp, BiasAddOp, ActivationOp>(op); }

/// Whether rows go to one exchange, to experts, and back by another one, and nothing else is done to them.
bool SentLayer::divideWay() {
  llvm::DenseSet<Value> rows = {way.dispatch.getResult()}, results;
  int64_t exchanges = 0;
  for (Operation *op : way.ops) {
    Value first = op->getOperand(0);
    if (!isa<MoeChunkableOpInterface>(op) || op->getNumResults() != 1)
      return false;
    if (!rows.contains(first)) {
      onCounts.push_back(op);
      continue;
    }
    rows.insert(op->getResult(0));
    auto all = dyn_cast<AllToAllVOp>(op);
    if (all && (all.getPhases() > 1 || ++exchanges > 2))
      return false;
    if (all && all.getDirection() == Direction::to_experts)
      exchange = all;
    bool isBehind = results.contains(first);
    if (isExpert(op) || isBehind)
      results.insert(op->getResult(0));
    if (isExpert(op) && !back.empty())
      return false;
    (isExpert(op) ? experts : isBehind ? back : there).push_back(op);
  }
  return exchange && exchanges == 2 && !experts.empty() && llvm::is_contained(there, exchange.getOperation());
}

/// Sets the levels, or says what is in the way.
std::string SentLayer::setLevels(int64_t nodeRanks) {
  MLIRContext *context = loc.getContext();
  GroupAttr group = exchange.getGroup();
  int64_t copies = exchange.getCopies(), size = group.getSize(), inner = nodeRanks / group.getStride();
  auto self = GroupAttr::get(context, "self", 1, 1);
  if (size == copies)
    return "every rank has all experts";
  levels = {{group, self, size / copies}};
  if (nodeRanks == 0)
    return "";
  if (inner < 2 || inner >= size || size % inner != 0)
    return "the ranks of its exchange are not several nodes of several ranks each";
  // What is done to rows between an exchange and the experts cuts experts into slices.
  if (copies > 1 || there.back() != exchange || !isa<AllToAllVOp>(back.front()))
    return "its experts are cut into slices";
  auto nodes = GroupAttr::get(context, group.getName().str() + "_nodes", size / inner, group.getStride() * inner);
  auto node = GroupAttr::get(context, group.getName().str() + "_node", inner, group.getStride());
  levels = {{nodes, self, size / inner}, {node, nodes, inner}};
  return "";
}

/// The rows that a rank sends, of those for each choice. A token has no more rows than there are holders.
RowChunk SentLayer::getChunk() {
  RankedTensorType slots = way.dispatch.getSlots().getType();
  int64_t tokens = slots.getDimSize(0), choices = slots.getDimSize(1);
  return {tokens * std::min(choices, levels.front().holders), tokens * choices};
}

/// For rows that arrive, where a member sends `sent` rows of `tokens` tokens. At ranks, each of them has a choice of
/// the experts, and these have room for no more choices.
int64_t SentLayer::getRoom(const Level &level, int64_t sent, int64_t tokens) {
  int64_t room = level.group.getSize() * std::min(sent, tokens);
  return &level == &levels.back() ? std::min(room, getType(exchange.getResult()).getDimSize(0)) : room;
}

FailureOr<SentLayer> SentLayer::match(DispatchOp dispatch, int64_t nodeRanks, std::string &reason) {
  FailureOr<ExpertWay> way = ExpertWay::find(dispatch, reason);
  if (failed(way))
    return failure();
  SentLayer layer(*way);
  layer.route = dyn_cast<RouteOp>(way->slots.getOperation());
  if (!layer.route || way->slots.getChunks() != 1)
    reason = "it already has shadows or chunks";
  else if (!way->slots.isDropless())
    reason = "rows of a layer with a capacity are not repeated";
  else if (!layer.divideWay())
    reason = "its rows do not go to its experts and back in one exchange each";
  else
    reason = layer.setLevels(nodeRanks);
  if (reason.empty() && llvm::any_of(way->ops, [&](Operation *op) {
        return !isExpert(op) && !cast<MoeChunkableOpInterface>(op).canChunk(layer.getChunk());
      }))
    reason = "its rows cannot be divided as they are";
  if (!reason.empty())
    return failure();
  return layer;
}

/// `op` for other rows: as many columns of as many bits as `rows` has. Exchanges are those of the first level.
Operation *SentLayer::move(Operation *op, RankedTensorType rows) {
  Operation *moved = cast<MoeChunkableOpInterface>(op).buildOnChunk(builder, mapping, getChunk());
  int64_t before = getType(op->getOperand(0)).getDimSize(0), after = getType(op->getResult(0)).getDimSize(0);
  int64_t count = rows.getDimSize(0) * after / before;
  if (auto all = dyn_cast<AllToAllVOp>(moved)) {
    all.setGroupAttr(levels.front().group);
    // Blocks that a rank gathered are of as many tokens each as it has.
    int64_t tokens = way.dispatch.getSlots().getType().getDimSize(0) * all.getBlockCounts().getType().getDimSize(0);
    int64_t sent = rows.getDimSize(0) / static_cast<int64_t>(all.getCopies());
    count = op == exchange ? getRoom(levels.front(), sent, tokens) : getChunk().of(after);
  }
  moved->getResult(0).setType(withShape(rows, {count, rows.getDimSize(1)}));
  return moved;
}

/// Counts of holders, each of whom is one expert. Casts are inserted anew.
void SentLayer::carryCounts(Value counts) {
  const Level &level = levels.front();
  int64_t size = exchange.getGroup().getSize(), experts = getType(way.slots.getCounts()).getDimSize(1);
  mapping.map(way.slots.getCounts(), counts);
  for (Operation *op : onCounts) {
    if (isa<ToVaryingOp>(op)) {
      mapping.map(op->getResult(0), mapping.lookup(op->getOperand(0)));
      continue;
    }
    Operation *moved = cast<MoeChunkableOpInterface>(op).buildOnChunk(builder, mapping, getChunk());
    RankedTensorType type = getType(op->getResult(0));
    int64_t rows = type.getDimSize(0), columns = type.getDimSize(1) * level.holders / experts;
    if (auto all = dyn_cast<AllToAllOp>(moved)) {
      all.setGroupAttr(level.group);
      rows = rows / size * level.group.getSize();
      columns = 1;
    }
    moved->getResult(0).setType(withShape(type, {rows, columns}));
  }
}

Value SentLayer::carryThere(Value payload) {
  mapping.map(way.dispatch.getResult(), payload);
  for (Operation *op : there)
    payload = move(op, getType(payload))->getResult(0);
  return payload;
}

Value SentLayer::carryBack(Value partial) {
  mapping.map(experts.back()->getResult(0), partial);
  for (Operation *op : back)
    partial = move(op, getType(partial))->getResult(0);
  return partial;
}

Value SentLayer::dispatch(Value tokens, Value slots, int64_t count, Value weights) {
  RankedTensorType type = getType(tokens);
  return builder.create<DispatchOp>(loc, withShape(type, {count, type.getDimSize(1)}), tokens, slots, weights);
}

MergeChoicesOp SentLayer::merge(const Level &level, const Rows &rows) {
  RankedTensorType choices = getType(rows.choices);
  int64_t experts = getType(way.slots.getCounts()).getDimSize(1);
  // Where members send the same rows as rows of their own, the slots are cast.
  Value dropped = rows.used ? Value() : Value(way.dispatch.getSlots());
  return builder.create<MergeChoicesOp>(loc, rows.choices, dropped, rows.used, level.outer, experts, /*copies=*/1,
                                        level.holders,
                                        choices.getDimSize(0) * std::min(choices.getDimSize(1), level.holders));
}

/// What arrives of rows that go once to each holder.
Rows SentLayer::send(const Level &level, const Rows &rows, MergeChoicesOp merged) {
  int64_t count = getType(merged.getSent()).getDimSize(0);
  Value tokens = dispatch(rows.tokens, merged.getSlots(), count);
  Value weights = dispatch(rows.weights, merged.getSlots(), count);
  if (&level == &levels.front()) {
    carryCounts(merged.getCounts());
    return {carryThere(tokens), carryThere(merged.getSent()), carryThere(weights),
            mapping.lookup(exchange.getExpertCounts())};
  }
  Value used = builder.create<AllToAllOp>(loc, withShape(getType(merged.getCounts()), {level.holders, 1}),
                                          merged.getCounts(), level.group,
                                          /*split_dim=*/1, /*concat_dim=*/0);
  int64_t room = getRoom(level, count, getType(rows.choices).getDimSize(0));
  auto exchanged = [&](Value payload) -> Value {
    RankedTensorType type = withShape(getType(payload), {room, getType(payload).getDimSize(1)});
    return builder.create<AllToAllVOp>(loc, type, payload, merged.getCounts(), used, level.group, Direction::to_experts,
                                       /*copies=*/1);
  };
  return {exchanged(tokens), exchanged(merged.getSent()), exchanged(weights), used};
}

/// The sums of the rows that come back of `rows`.
Value SentLayer::returnRows(const Level &level, Value partial, MergeChoicesOp merged, const Rows &rows) {
  if (&level == &levels.front()) {
    partial = carryBack(partial);
  } else {
    RankedTensorType type = getType(partial);
    type = withShape(type, {getType(merged.getSent()).getDimSize(0), type.getDimSize(1)});
    auto counts = mapping.lookup(merged.getCounts());
    partial = builder.create<AllToAllVOp>(loc, type, partial, merged.getCounts(), counts, level.group,
                                          Direction::from_experts, /*copies=*/1);
  }
  RankedTensorType type = getType(partial);
  return builder.create<CombineOp>(loc, withShape(type, {getType(rows.choices).getDimSize(0), type.getDimSize(1)}),
                                   partial, merged.getSlots(), Value());
}

/// What a rank's experts make of rows, a sum for each of them.
Value SentLayer::compute(const Rows &rows) {
  int64_t copies = exchange.getCopies(), own = getType(exchange.getExpertCounts()).getDimSize(1);
  int64_t all = getType(way.slots.getCounts()).getDimSize(1),
          room = getType(experts.front()->getOperand(0)).getDimSize(0);
  auto divided = builder.create<MergeChoicesOp>(loc, rows.choices, Value(), rows.used, exchange.getGroup(), all, copies,
                                                own, room);
  Value result = dispatch(rows.tokens, divided.getSlots(), room, way.dispatch.getWeights() ? rows.weights : Value());
  for (Operation *op : experts) {
    IRMapping inner;
    inner.map(op->getOperand(0), result);
    for (Value operand : op->getOperands().drop_front())
      if (getType(operand).getElementType().isInteger())
        inner.map(operand, divided.getCounts());
    result = builder.clone(*op, inner)->getResult(0);
  }
  RankedTensorType type = getType(result);
  return builder.create<CombineOp>(loc, withShape(type, {getType(rows.tokens).getDimSize(0), type.getDimSize(1)}),
                                   result, divided.getSlots(), way.combine.getWeights() ? rows.weights : Value());
}

void SentLayer::rewrite() {
  Value weights = way.combine.getWeights() ? way.combine.getWeights() : way.dispatch.getWeights();
  SmallVector<Rows> rows = {{way.dispatch.getTokens(), route.getExperts(), weights, Value()}};
  SmallVector<MergeChoicesOp> merged;
  for (const Level &level : levels) {
    merged.push_back(merge(level, rows.back()));
    rows.push_back(send(level, rows.back(), merged.back()));
    mapping.map(merged.back().getCounts(), rows.back().used);
  }
  Value result = compute(rows.pop_back_val());
  for (const Level &level : llvm::reverse(levels))
    result = returnRows(level, result, merged.pop_back_val(), rows.pop_back_val());
  way.combine.getResult().replaceAllUsesWith(result);
  way.combine.erase();
  for (Operation *op : llvm::reverse(way.ops))
    op->erase();
  way.dispatch.erase();
}

namespace {
struct MoeSendOnce : moe::impl::MoeSendOnceBase<MoeSendOnce> {
  using Base::Base;

  void runOnOperation() override {
    if (nodeRanks < 0) {
      getOperation().emitError() << "expected node-ranks of at least 0 but got " << nodeRanks.getValue();
      return signalPassFailure();
    }
    for (DispatchOp dispatch : ExpertWay::getDispatches(getOperation())) {
      std::string reason;
      FailureOr<SentLayer> layer = SentLayer::match(dispatch, nodeRanks, reason);
      if (failed(layer))
        leaveLayer(dispatch, "moe-send-once", reason);
      else
        layer->rewrite();
    }
    if (failed(insertToVarying(getOperation())))
      signalPassFailure();
  }
};
} // namespace
