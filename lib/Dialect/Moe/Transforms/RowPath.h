//===- RowPath.h - how a dropless layer moves its rows ----------*- C++ -*-===//
//
// Divides the ops of an ExpertPath by their tasks, if rows go to the experts and back in one exchange each, and copies
// the ops for other rows.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_ROWPATH_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_ROWPATH_H

#include "ExpertPath.h"

#include "mlir/IR/IRMapping.h"

#include <functional>

namespace mlir::moe {

struct RowPath {
  Value ownCounts; ///< counts of the rows that leave
  int64_t numExperts = 0;
  AllToAllVOp exchange; ///< to the experts
  /// Ops on counts, ops that move rows to the experts, the experts, and ops that move rows back, in program order.
  SmallVector<Operation *> onCounts, there, experts, back;

  /// Returns none if another op works on the rows.
  static std::optional<RowPath> find(ExpertPath &path);
  /// Whether the ops that move rows can be done for such a chunk.
  bool canChunk(RowChunk chunk) const;
  /// Whether ranks have whole experts. Ops on rows between an exchange and experts divide these into slices.
  bool hasWholeExperts() const;
};

/// Copies the ops that move rows, for rows that go to `holders` holders of experts. Each holder is like one expert.
class RowCarrier {
public:
  /// Room for rows that arrive, if each member sends `sent` rows of `tokens` tokens.
  using GetRoom = std::function<int64_t(int64_t sent, int64_t tokens)>;

  /// Expects a `group` of the exchanges, whose members include the holders. A rank sends the rows of `tokens` tokens,
  /// and `chunk` gives the number of these for each choice.
  RowCarrier(const RowPath &path, OpBuilder &builder, GroupAttr group, int64_t holders, RowChunk chunk, int64_t tokens,
             GetRoom getRoom)
      : path(path), builder(builder), group(group), holders(holders), chunk(chunk), tokens(tokens),
        getRoom(std::move(getRoom)) {}

  /// Moves the counts, which come before the rows. `counts` [1, holders] count rows that leave. Returns those that
  /// arrive.
  Value carryCounts(Value counts);
  /// Moves rows of any type and number of columns.
  Value carryThere(Value rows) { return carry(path.there, rows); }
  Value carryBack(Value rows) { return carry(path.back, rows); }

private:
  Value carry(ArrayRef<Operation *> ops, Value rows);
  Operation *move(Operation *op, RankedTensorType rows);

  const RowPath &path;
  OpBuilder &builder;
  GroupAttr group;
  int64_t holders;
  RowChunk chunk;
  int64_t tokens;
  GetRoom getRoom;
  IRMapping mapping;
};

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_TRANSFORMS_ROWPATH_H
