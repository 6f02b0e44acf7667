//===- SendOnce.cpp - moe-send-once ---------------------------------------===//
//
// Rows go to holders of experts and not to experts. The ops that move rows are copied, for one expert on each rank.
// Rows that arrive are dispatched once more, among the rank's own experts. Chunks are equal parts of the tokens, each
// with a path of its own. Only the forward is written, since all ops have adjoints.
//
//===----------------------------------------------------------------------===//
#include "RowPath.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/Transforms/BaselineLayer.h"
#include "moe/Dialect/Moe/Transforms/LeftLayers.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOESENDONCE
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Holders of experts, nodes or ranks. A rank sends a token once to each.
struct Level {
  GroupAttr group; ///< members are the holders, or hold an expert together
  GroupAttr outer; ///< the member's place in it defines among which experts
  int64_t holders;
};

/// Tokens in rows, with their choices and weights. Choices whose `slots` are dropped do not count. Null `slots` means
/// that no choice is dropped, and null `used` that all rows are used.
struct Rows {
  Value tokens, choices, weights, slots, used;
};

/// Rewrites one layer.
class SentLayer {
public:
  /// Fails with the obstacle (a phrase) in `reason`. With 0 ranks in a node, tokens go straight to ranks.
  static FailureOr<SentLayer> match(DispatchOp dispatch, int64_t nodeRanks, int64_t chunks, std::string &reason);
  void rewrite();

private:
  SentLayer(ExpertPath path, int64_t chunks)
      : path(std::move(path)), chunks(chunks), loc(this->path.dispatch.getLoc()), builder(this->path.combine) {}
  std::string setLevels(int64_t nodeRanks);
  int64_t getTokens() { return path.dispatch.getTokens().getType().getDimSize(0) / chunks; }
  RowChunk getChunk();
  int64_t getExpertRoom();
  int64_t getRoom(const Level &level, int64_t sent, int64_t tokens);
  MergeChoicesOp merge(const Level &level, const Rows &rows);
  Rows send(const Level &level, const Rows &rows, MergeChoicesOp merged);
  Value returnRows(const Level &level, Value partial, MergeChoicesOp merged, const Rows &rows, Value arrived);
  Value dispatch(Value tokens, MergeChoicesOp merged, Value weights = Value());
  Value combine(Value rows, MergeChoicesOp merged, int64_t tokens, Value weights = Value());
  Value compute(const Rows &rows);
  Value rewrite(const Rows &tokens);
  SmallVector<Rows> divide(const Rows &rows);

  ExpertPath path;
  int64_t chunks;
  Location loc;
  OpBuilder builder;
  RouteOp route;
  RowPath moves;
  SmallVector<Level, 2> levels;
  std::optional<RowCarrier> carrier; ///< the carrier of the first level
};
} // namespace

/// Sets the levels. Returns the obstacle, or an empty text.
std::string SentLayer::setLevels(int64_t nodeRanks) {
  GroupAttr group = moves.exchange.getGroup();
  int64_t copies = moves.exchange.getCopies(), size = group.getSize();
  auto self = GroupAttr::get(loc.getContext(), "self", 1, 1);
  if (size == copies)
    return "every rank has all experts";
  levels = {{group, self, size / copies}};
  // Each rank is a node of its own, or all are in one node.
  if (nodeRanks <= group.getStride() || group.isInsideNode(nodeRanks, /*world=*/0))
    return "";
  auto divided = group.divideByNode(nodeRanks);
  if (!divided)
    return "the ranks of its exchange are not several nodes of several ranks each";
  if (!moves.hasWholeExperts())
    return "its experts are cut into slices";
  auto [nodes, node] = *divided;
  levels = {{nodes, self, nodes.getSize()}, {node, nodes, node.getSize()}};
  return "";
}

/// Rows that a rank sends, as a part of those for each choice. A token has at most one row for each holder.
RowChunk SentLayer::getChunk() {
  RankedTensorType slots = path.dispatch.getSlots().getType();
  int64_t choices = slots.getDimSize(1);
  return {getTokens() * std::min(choices, levels.front().holders), slots.getNumElements()};
}

/// Room of the experts for choices.
int64_t SentLayer::getExpertRoom() {
  return llvm::divideCeil(getTensorType(moves.experts.front()->getOperand(0)).getDimSize(0), chunks);
}

/// Room for rows that arrive, if a member sends `sent` rows of `tokens` tokens. Each row that arrives at a rank has a
/// choice of its experts.
int64_t SentLayer::getRoom(const Level &level, int64_t sent, int64_t tokens) {
  int64_t room = level.group.getSize() * std::min(sent, tokens);
  return &level == &levels.back() ? std::min(room, getExpertRoom()) : room;
}

FailureOr<SentLayer> SentLayer::match(DispatchOp dispatch, int64_t nodeRanks, int64_t chunks, std::string &reason) {
  FailureOr<ExpertPath> path = ExpertPath::find(dispatch, reason);
  if (failed(path))
    return failure();
  int64_t tokens = dispatch.getTokens().getType().getDimSize(0);
  SentLayer layer(*path, chunks);
  layer.route = dyn_cast<RouteOp>(path->slots.getOperation());
  if (!layer.route || path->slots.getChunks() != 1)
    reason = "it already has shadows or chunks";
  else if (!path->slots.isDropless())
    reason = "rows of a layer with a capacity are not repeated";
  else if (tokens % chunks != 0)
    reason = "the " + std::to_string(tokens) + " tokens of a rank are not divisible into " + std::to_string(chunks) +
             " chunks";
  std::optional<RowPath> moves = RowPath::find(*path);
  if (reason.empty() && !moves)
    reason = "its rows do not go to its experts and back in one exchange each";
  if (!reason.empty())
    return failure();
  layer.moves = *moves;
  reason = layer.setLevels(nodeRanks);
  if (reason.empty() && !moves->canChunk(layer.getChunk()))
    reason = "its rows cannot be divided as they are";
  if (!reason.empty())
    return failure();
  return layer;
}

Value SentLayer::dispatch(Value tokens, MergeChoicesOp merged, Value weights) {
  RankedTensorType type =
      getTensorType(tokens).clone({getTensorType(merged.getSent()).getDimSize(0), getTensorType(tokens).getDimSize(1)});
  return builder.create<DispatchOp>(loc, type, tokens, merged.getSlots(), weights, merged.getCounts());
}
Value SentLayer::combine(Value rows, MergeChoicesOp merged, int64_t tokens, Value weights) {
  RankedTensorType type = getTensorType(rows).clone({tokens, getTensorType(rows).getDimSize(1)});
  return builder.create<CombineOp>(loc, type, rows, merged.getSlots(), weights, merged.getCounts());
}

MergeChoicesOp SentLayer::merge(const Level &level, const Rows &rows) {
  RankedTensorType choices = getTensorType(rows.choices);
  int64_t most = choices.getDimSize(0) * std::min(choices.getDimSize(1), level.holders);
  return builder.create<MergeChoicesOp>(loc, rows.choices, rows.slots, rows.used, level.outer, moves.numExperts,
                                        /*copies=*/1, level.holders, most);
}

/// Sends rows once to each holder, and returns the rows that arrive.
Rows SentLayer::send(const Level &level, const Rows &rows, MergeChoicesOp merged) {
  int64_t count = getTensorType(merged.getSent()).getDimSize(0);
  Value tokens = dispatch(rows.tokens, merged), weights = dispatch(rows.weights, merged);
  if (&level == &levels.front()) {
    Value arrived = carrier->carryCounts(merged.getCounts());
    return {carrier->carryThere(tokens), carrier->carryThere(merged.getSent()), carrier->carryThere(weights), Value(),
            arrived};
  }
  Value used = builder.create<AllToAllOp>(loc, getTensorType(merged.getCounts()).clone({level.holders, 1}),
                                          merged.getCounts(), level.group,
                                          /*split_dim=*/1, /*concat_dim=*/0);
  int64_t room = getRoom(level, count, getTensorType(rows.choices).getDimSize(0));
  auto exchanged = [&](Value payload) -> Value {
    RankedTensorType type = getTensorType(payload).clone({room, getTensorType(payload).getDimSize(1)});
    return builder.create<AllToAllVOp>(loc, type, payload, merged.getCounts(), used, level.group, Direction::to_experts,
                                       /*copies=*/1);
  };
  return {exchanged(tokens), exchanged(merged.getSent()), exchanged(weights), Value(), used};
}

/// Sums of the rows that return for `rows`, of which other members have `arrived`.
Value SentLayer::returnRows(const Level &level, Value partial, MergeChoicesOp merged, const Rows &rows, Value arrived) {
  if (&level == &levels.front()) {
    partial = carrier->carryBack(partial);
  } else {
    RankedTensorType type = getTensorType(partial);
    type = type.clone({getTensorType(merged.getSent()).getDimSize(0), type.getDimSize(1)});
    partial = builder.create<AllToAllVOp>(loc, type, partial, merged.getCounts(), arrived, level.group,
                                          Direction::from_experts, /*copies=*/1);
  }
  return combine(partial, merged, getTensorType(rows.choices).getDimSize(0));
}

/// Results of a rank's experts for rows, a sum for each row.
Value SentLayer::compute(const Rows &rows) {
  AllToAllVOp exchange = moves.exchange;
  int64_t copies = exchange.getCopies(), own = getTensorType(exchange.getExpertCounts()).getDimSize(1);
  auto divided = builder.create<MergeChoicesOp>(loc, rows.choices, Value(), rows.used, exchange.getGroup(),
                                                moves.numExperts, copies, own, getExpertRoom());
  Value result = dispatch(rows.tokens, divided, path.dispatch.getWeights() ? rows.weights : Value());
  for (Operation *op : moves.experts)
    result = cloneOnRows(builder, op, result, divided.getCounts());
  return combine(result, divided, getTensorType(rows.tokens).getDimSize(0),
                 path.combine.getWeights() ? rows.weights : Value());
}

/// Results of the layer for some of its tokens.
Value SentLayer::rewrite(const Rows &tokens) {
  const Level &first = levels.front();
  carrier.emplace(moves, builder, first.group, first.holders, getChunk(), getTokens(),
                  [&](int64_t sent, int64_t tokens) { return getRoom(first, sent, tokens); });
  SmallVector<Rows> rows = {tokens};
  SmallVector<MergeChoicesOp> merged;
  for (const Level &level : levels) {
    merged.push_back(merge(level, rows.back()));
    rows.push_back(send(level, rows.back(), merged.back()));
  }
  Value result = compute(rows.back());
  for (const Level &level : llvm::reverse(levels)) {
    Value arrived = rows.pop_back_val().used;
    result = returnRows(level, result, merged.pop_back_val(), rows.back(), arrived);
  }
  return result;
}

/// Divides the tokens into chunks.
SmallVector<Rows> SentLayer::divide(const Rows &rows) {
  if (chunks == 1)
    return {rows};
  SmallVector<Rows> parts(chunks);
  for (Value Rows::*field : {&Rows::tokens, &Rows::choices, &Rows::weights, &Rows::slots}) {
    auto split = builder.create<SplitOp>(loc, rows.*field, chunks);
    for (auto [part, value] : llvm::zip_equal(parts, split.getParts()))
      part.*field = value;
  }
  return parts;
}

void SentLayer::rewrite() {
  Value weights = path.combine.getWeights() ? path.combine.getWeights() : path.dispatch.getWeights();
  // The slots are cast if members send the same rows as rows of their own.
  Rows all = {path.dispatch.getTokens(), route.getExperts(), weights, path.dispatch.getSlots(), Value()};
  SmallVector<Value> results;
  for (auto [index, tokens] : llvm::enumerate(divide(all))) {
    Operation *before = path.combine->getPrevNode();
    results.push_back(rewrite(tokens));
    for (Operation *op = before->getNextNode(); chunks > 1 && op != path.combine; op = op->getNextNode())
      op->setAttr(kChunkAttrName, ChunkAttr::get(op->getContext(), static_cast<int64_t>(index), chunks));
  }
  path.combine.getResult().replaceAllUsesWith(chunks == 1 ? results.front() : builder.create<ConcatOp>(loc, results));
  path.combine.erase();
  for (Operation *op : llvm::reverse(path.ops))
    op->erase();
  path.dispatch.erase();
  // Passes of the layer serve these rows of each chunk.
  if (chunks > 1)
    route.setChunked(chunks, getTensorType(route.getSlots()).getNumElements() / chunks);
}

namespace {
struct MoeSendOnce : moe::impl::MoeSendOnceBase<MoeSendOnce> {
  using Base::Base;

  void runOnOperation() override {
    if (nodeRanks < 0 || chunks < 1) {
      getOperation().emitError() << "expected node-ranks of at least 0 and at least one chunk but got "
                                 << nodeRanks.getValue() << " and " << chunks.getValue();
      return signalPassFailure();
    }
    for (DispatchOp dispatch : ExpertPath::getDispatches(getOperation())) {
      std::string reason;
      FailureOr<SentLayer> layer = SentLayer::match(dispatch, nodeRanks, chunks, reason);
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
