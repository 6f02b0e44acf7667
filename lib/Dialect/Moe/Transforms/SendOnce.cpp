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
/// Rewrites one layer.
class SentLayer {
public:
  /// Fails with what is in the way, a phrase, in `reason`.
  static FailureOr<SentLayer> match(DispatchOp dispatch, std::string &reason);
  void rewrite();

private:
  explicit SentLayer(ExpertWay way) : way(std::move(way)), loc(this->way.dispatch.getLoc()) {}
  bool divideWay();
  RowChunk getChunk();
  int64_t getRoom();
  Value carryThere(OpBuilder &builder, IRMapping &mapping, Value payload);
  void carryCounts(OpBuilder &builder, IRMapping &mapping, Value counts);
  Value carryBack(OpBuilder &builder, IRMapping &mapping, Value partial);
  Operation *move(OpBuilder &builder, IRMapping &mapping, Operation *op, RankedTensorType rows);

  ExpertWay way;
  Location loc;
  RouteOp route;
  AllToAllVOp exchange; ///< to the experts
  /// Of the ops on the way, those on counts, those that move rows there, the experts, and those that move rows back.
  SmallVector<Operation *> onCounts, there, experts, back;
};
} // namespace

static bool isExpert(Operation *op) { return isa<GroupedMatmulOp, BiasAddOp, ActivationOp>(op); }

/// Whether rows go to one exchange, to experts, and back by another one, and nothing else is done to them.
bool SentLayer::divideWay() {
  llvm::DenseSet<Value> rows = {way.dispatch.getResult()}, results;
  unsigned exchanges = 0;
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

/// The rows that a rank sends, of those for each choice. A token has no more rows than ranks hold experts.
RowChunk SentLayer::getChunk() {
  RankedTensorType slots = way.dispatch.getSlots().getType();
  int64_t holders = exchange.getGroup().getSize() / static_cast<int64_t>(exchange.getCopies());
  return {slots.getDimSize(0) * std::min(slots.getDimSize(1), holders), slots.getDimSize(0) * slots.getDimSize(1)};
}

/// For rows that arrive: no more than experts have room for choices, and than a member sends of each of the tokens that
/// it has or gathered.
int64_t SentLayer::getRoom() {
  int64_t sent = getChunk().of(exchange.getBlockSideType().getDimSize(0) / static_cast<int64_t>(exchange.getCopies()));
  int64_t tokens = way.dispatch.getSlots().getType().getDimSize(0) * getType(exchange.getBlockCounts()).getDimSize(0);
  return std::min(getType(exchange.getResult()).getDimSize(0), exchange.getGroup().getSize() * std::min(sent, tokens));
}

FailureOr<SentLayer> SentLayer::match(DispatchOp dispatch, std::string &reason) {
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
  else if (llvm::any_of(way->ops, [&](Operation *op) {
             return !isExpert(op) && !cast<MoeChunkableOpInterface>(op).canChunk(layer.getChunk());
           }))
    reason = "its rows cannot be divided as they are";
  if (!reason.empty())
    return failure();
  return layer;
}

/// `op` for other rows: as many columns of as many bits as `rows` has.
Operation *SentLayer::move(OpBuilder &builder, IRMapping &mapping, Operation *op, RankedTensorType rows) {
  Operation *moved = cast<MoeChunkableOpInterface>(op).buildOnChunk(builder, mapping, getChunk());
  int64_t before = getType(op->getOperand(0)).getDimSize(0), after = getType(op->getResult(0)).getDimSize(0);
  int64_t count = rows.getDimSize(0) * after / before;
  if (auto all = dyn_cast<AllToAllVOp>(op))
    count = all == exchange ? getRoom() : getChunk().of(after);
  moved->getResult(0).setType(withShape(rows, {count, rows.getDimSize(1)}));
  return moved;
}

Value SentLayer::carryThere(OpBuilder &builder, IRMapping &mapping, Value payload) {
  mapping.map(way.dispatch.getResult(), payload);
  for (Operation *op : there)
    payload = move(builder, mapping, op, getType(payload))->getResult(0);
  return payload;
}

/// Counts of holders, each of whom is one expert. Casts are inserted anew.
void SentLayer::carryCounts(OpBuilder &builder, IRMapping &mapping, Value counts) {
  int64_t own = getType(exchange.getExpertCounts()).getDimSize(1);
  mapping.map(way.slots.getCounts(), counts);
  for (Operation *op : onCounts) {
    if (isa<ToVaryingOp>(op)) {
      mapping.map(op->getResult(0), mapping.lookup(op->getOperand(0)));
      continue;
    }
    Operation *moved = cast<MoeChunkableOpInterface>(op).buildOnChunk(builder, mapping, getChunk());
    RankedTensorType type = getType(op->getResult(0));
    moved->getResult(0).setType(withShape(type, {type.getDimSize(0), type.getDimSize(1) / own}));
  }
}

Value SentLayer::carryBack(OpBuilder &builder, IRMapping &mapping, Value partial) {
  mapping.map(experts.back()->getResult(0), partial);
  for (Operation *op : back)
    partial = move(builder, mapping, op, getType(partial))->getResult(0);
  return partial;
}

void SentLayer::rewrite() {
  OpBuilder builder(way.combine);
  GroupAttr group = exchange.getGroup();
  int64_t copies = exchange.getCopies(), own = getType(exchange.getExpertCounts()).getDimSize(1);
  int64_t holders = group.getSize() / copies, rows = getChunk().part;
  auto self = GroupAttr::get(builder.getContext(), "self", 1, 1);
  // Where members send the same rows as rows of their own, the slots are cast.
  auto sent = builder.create<MergeChoicesOp>(loc, route.getExperts(), way.dispatch.getSlots(), /*used=*/Value(), self,
                                             holders * own, /*copies=*/1, holders, rows);
  Value weights = way.combine.getWeights() ? way.combine.getWeights() : way.dispatch.getWeights();
  auto dispatch = [&](Value tokens, Value slots, int64_t count, Value its) -> Value {
    RankedTensorType type = getType(tokens);
    return builder.create<DispatchOp>(loc, withShape(type, {count, type.getDimSize(1)}), tokens, slots, its);
  };
  IRMapping mapping;
  carryCounts(builder, mapping, sent.getCounts());
  Value arrived = carryThere(builder, mapping, dispatch(way.dispatch.getTokens(), sent.getSlots(), rows, Value()));
  Value choices = carryThere(builder, mapping, sent.getSent());
  Value arrivedWeights = carryThere(builder, mapping, dispatch(weights, sent.getSlots(), rows, Value()));

  // What the experts take: their counts are the same ones as those of the exchange, in whatever state.
  Value used;
  for (Value operand : experts.front()->getOperands())
    if (getType(operand).getElementType().isInteger())
      used = mapping.lookup(operand);
  int64_t room = getType(experts.front()->getOperand(0)).getDimSize(0);
  auto divided = builder.create<MergeChoicesOp>(loc, choices, Value(), used, group, holders * own, copies, own, room);
  Value result = dispatch(arrived, divided.getSlots(), room, way.dispatch.getWeights() ? arrivedWeights : Value());
  for (Operation *op : experts) {
    IRMapping inner;
    inner.map(op->getOperand(0), result);
    for (Value operand : op->getOperands().drop_front())
      if (getType(operand).getElementType().isInteger())
        inner.map(operand, divided.getCounts());
    result = builder.clone(*op, inner)->getResult(0);
  }
  RankedTensorType type = getType(result);
  Value partial =
      builder.create<CombineOp>(loc, withShape(type, {getType(arrived).getDimSize(0), type.getDimSize(1)}), result,
                                divided.getSlots(), way.combine.getWeights() ? arrivedWeights : Value());
  Value returned = carryBack(builder, mapping, partial);
  Value output = builder.create<CombineOp>(loc, way.combine.getResult().getType(), returned, sent.getSlots(), Value());
  way.combine.getResult().replaceAllUsesWith(output);
  way.combine.erase();
  for (Operation *op : llvm::reverse(way.ops))
    op->erase();
  way.dispatch.erase();
}

namespace {
struct MoeSendOnce : moe::impl::MoeSendOnceBase<MoeSendOnce> {
  using Base::Base;

  void runOnOperation() override {
    for (DispatchOp dispatch : ExpertWay::getDispatches(getOperation())) {
      std::string reason;
      FailureOr<SentLayer> layer = SentLayer::match(dispatch, reason);
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
