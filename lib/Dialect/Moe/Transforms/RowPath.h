//===- RowPath.h - how a dropless layer moves its rows ----------*- C++ -*-===//
//
// The ops of an ExpertPath by what they do, where rows go to the experts and back in one exchange each; and copies of
// them that move other rows.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_ROWPATH_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_ROWPATH_H

#include "ExpertPath.h"

#include "mlir/IR/IRMapping.h"

#include <functional>

namespace mlir::moe {

struct RowPath {
  Value ownCounts; ///< of the rows that leave
  int64_t numExperts = 0;
  AllToAllVOp exchange; ///< to the experts
  /// Those on counts, those that move rows there, the experts, and those that move rows back, in program order.
  SmallVector<Operation *> onCounts, there, experts, back;

  /// None where something else is done to rows.
  static std::optional<RowPath> find(ExpertPath &path);
  /// Whether the ops that move rows can be done for so many of them.
  bool canChunk(RowChunk chunk) const;
  /// Whether ranks have whole experts. What is done to rows between an exchange and experts cuts these into slices.
  bool hasWholeExperts() const;
};

/// Copies the ops that move rows, for rows that go to `holders` of experts, each of whom is like one expert.
class RowCarrier {
public:
  /// The room for rows that arrive, where each member sends `sent` rows of `tokens` tokens.
  using GetRoom = std::function<int64_t(int64_t sent, int64_t tokens)>;

  /// Exchanges are over `group`, among whose members the holders are. A rank sends the rows of `tokens` tokens, and
  /// `chunk` says how many of those for each choice.
  RowCarrier(const RowPath &path, OpBuilder &builder, GroupAttr group, int64_t holders, RowChunk chunk, int64_t tokens,
             GetRoom getRoom)
      : path(path), builder(builder), group(group), holders(holders), chunk(chunk), tokens(tokens),
        getRoom(std::move(getRoom)) {}

  /// Before the rows. `counts` [1, holders] are those that leave; returns those that arrive.
  Value carryCounts(Value counts);
  /// Rows of any type and number of columns.
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
