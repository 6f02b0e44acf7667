//===- RowPath.cpp - how a dropless layer moves its rows ------------------===//
#include "RowPath.h"

using namespace mlir;
using namespace mlir::moe;

std::optional<RowPath> RowPath::find(ExpertPath &path) {
  RowPath found;
  found.ownCounts = path.slots.getCounts();
  found.numExperts = getTensorType(found.ownCounts).getDimSize(1);
  llvm::DenseSet<Value> rows = {path.dispatch.getResult()}, results;
  int64_t exchanges = 0;
  for (Operation *op : path.ops) {
    Value first = op->getOperand(0);
    if (!isa<MoeChunkableOpInterface>(op) || op->getNumResults() != 1)
      return std::nullopt;
    if (!rows.contains(first)) {
      found.onCounts.push_back(op);
      continue;
    }
    rows.insert(op->getResult(0));
    auto all = dyn_cast<AllToAllVOp>(op);
    if (all && (all.getPhases() > 1 || ++exchanges > 2))
      return std::nullopt;
    if (all && all.getDirection() == Direction::to_experts)
      found.exchange = all;
    bool isBehind = results.contains(first);
    if (isExpert(op) || isBehind)
      results.insert(op->getResult(0));
    if (isExpert(op) && !found.back.empty())
      return std::nullopt;
    (isExpert(op) ? found.experts : isBehind ? found.back : found.there).push_back(op);
  }
  bool isWhole = found.exchange && exchanges == 2 && !found.experts.empty() &&
                 llvm::is_contained(found.there, found.exchange.getOperation());
  return isWhole ? std::optional(found) : std::nullopt;
}

bool RowPath::canChunk(RowChunk chunk) const {
  auto can = [&](Operation *op) { return cast<MoeChunkableOpInterface>(op).canChunk(chunk); };
  return llvm::all_of(onCounts, can) && llvm::all_of(there, can) && llvm::all_of(back, can);
}

bool RowPath::hasWholeExperts() const {
  AllToAllVOp first = exchange;
  return first.getCopies() == 1 && there.back() == first.getOperation() && isa<AllToAllVOp>(back.front());
}

/// Builds `op` for other rows, with the columns and the element type of `rows`.
Operation *RowCarrier::move(Operation *op, RankedTensorType rows) {
  Operation *moved = cast<MoeChunkableOpInterface>(op).buildOnChunk(builder, mapping, chunk);
  int64_t before = getTensorType(op->getOperand(0)).getDimSize(0),
          after = getTensorType(op->getResult(0)).getDimSize(0);
  int64_t count = rows.getDimSize(0) * after / before;
  if (auto all = dyn_cast<AllToAllVOp>(moved)) {
    all.setGroupAttr(group);
    // Each block that a rank gathered has the tokens of one rank.
    int64_t blocks = all.getBlockCounts().getType().getDimSize(0);
    int64_t sent = rows.getDimSize(0) / all.getCopies();
    count = op == path.exchange ? getRoom(sent, tokens * blocks) : chunk.of(after);
  }
  moved->getResult(0).setType(rows.clone({count, rows.getDimSize(1)}));
  return moved;
}

Value RowCarrier::carry(ArrayRef<Operation *> ops, Value rows) {
  mapping.map(ops.front()->getOperand(0), rows);
  for (Operation *op : ops)
    rows = move(op, getTensorType(rows))->getResult(0);
  return rows;
}

Value RowCarrier::carryCounts(Value counts) {
  AllToAllVOp exchange = path.exchange;
  int64_t size = exchange.getGroup().getSize();
  mapping.map(path.ownCounts, counts);
  for (Operation *op : path.onCounts) {
    // Casts are inserted anew.
    if (isa<ToVaryingOp>(op)) {
      mapping.map(op->getResult(0), mapping.lookup(op->getOperand(0)));
      continue;
    }
    Operation *moved = cast<MoeChunkableOpInterface>(op).buildOnChunk(builder, mapping, chunk);
    RankedTensorType type = getTensorType(op->getResult(0));
    int64_t rows = type.getDimSize(0), columns = type.getDimSize(1) * holders / path.numExperts;
    if (auto all = dyn_cast<AllToAllOp>(moved)) {
      all.setGroupAttr(group);
      rows = rows / size * group.getSize();
      columns = 1;
    }
    moved->getResult(0).setType(type.clone({rows, columns}));
  }
  return mapping.lookup(exchange.getExpertCounts());
}
