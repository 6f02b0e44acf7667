//===- Placement.h - what a varying value is to its whole -------*- C++ -*-===//
//
// SPMD states tell whether a value varies over an axis of ranks. Placements tell how: as equal copies, as shards of a
// dimension, or as the terms of a sum. Sharding systems know the same three (PyTorch's DTensor: Replicate, Shard,
// Partial). Here a value that every rank may use without a sum of its gradient is `replicated`, and one whose gradient
// must still be added up is `copies`. The adjoint therefore swaps copies and terms, and keeps the other two.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_MOE_IR_PLACEMENT_H
#define MOE_DIALECT_MOE_IR_PLACEMENT_H

#include "mlir/IR/Operation.h"

#include "moe/Dialect/Moe/IR/SpmdAxes.h"

namespace mlir::moe {

/// How the members along one axis of ranks hold one value.
struct Placement {
  enum class Kind {
    Replicated, ///< the same value on all, and it counts once
    Copies,     ///< the same value on all, and each copy counts
    Shard,      ///< parts of dimension `dim`
    Partial,    ///< terms; the value is their sum
    Terms,      ///< each member has all terms of its part of dimension `dim`, side by side, and their sum is a shard
    Part,       ///< in a slice alone: a part of dimension `dim` of a value that all share
    Joined,     ///< in a gather alone: values side by side that are not known to be shards
    Unknown     ///< anything; nothing is concluded from it
  };
  /// Values of `dim` for a dimension of rows that is made of experts and their tokens: [R, M] sorted by expert, and
  /// slots that leave out the choices of other members' experts.
  static constexpr unsigned kExperts = 16, kTokens = 17;

  Kind kind = Kind::Replicated;
  unsigned dim = 0;

  static Placement shard(unsigned dim) { return {Kind::Shard, dim}; }
  bool is(Kind other) const { return kind == other; }
  /// Text for errors, such as "the same value on all members" or "parts of dimension 1".
  std::string describe() const;
  friend bool operator==(Placement a, Placement b) {
    bool hasDim = a.is(Kind::Shard) || a.is(Kind::Terms) || a.is(Kind::Part);
    return a.kind == b.kind && (!hasDim || a.dim == b.dim);
  }
};

/// One axis of ranks, and how the operands of an op are placed along it.
struct AxisPlacements {
  Operation *op;
  const SpmdAxes &axes;
  AxisSet axis;
  ArrayRef<Placement> operands;

  /// Infers the placements of a rank-local op's results from an index notation of it.
  ///
  /// `operands -> results`, both lists with commas, operands in their order. Each is the letters of its dimensions; `.`
  /// is a dimension that no rule follows, `(et)` one made of experts and their tokens, `(set)` that or tokens, `|e`
  /// experts that a value without such a dimension leaves out, `*` all dimensions as they are, and `_` an operand that
  /// tells nothing. Before an operand, `+` is a term of a sum, `!` an operand in which the op is not linear, `#` a
  /// factor whose terms side by side the op adds up, and nothing any other factor. A letter that no result has is
  /// summed over; a capital one must not be divided, since the op needs all of it at once. Behind a result, `~2` is the
  /// gradient of operand 2; `?` in its place tells nothing of it. A rule that begins with `@` depends on which rank
  /// computes. No rule: nothing is known of the results.
  ///
  /// Fails with an error where a sum is missing: partial sums in an op that is not linear in them, multiplied by each
  /// other, or added to whole values. Fails too where the rule is none of `op` (verifyIndexRule).
  LogicalResult inferByRule(StringRef rule, SmallVectorImpl<Placement> &results) const;

  /// Whether the members of `group` lie along the axis.
  bool isIn(GroupAttr group) const;
  /// Whether blocks of `count` neighbours, into which the members of `group` are divided, lie along the axis. Fails if
  /// a block is no group of axes.
  FailureOr<bool> isInBlocksOf(int64_t count, GroupAttr group) const;
  /// Infers the one result of an exchange over `group`. Along other axes it keeps the placement that all values share.
  /// Along the group's axes it becomes the result of `exchange` for the first value.
  LogicalResult infer(GroupAttr group, ArrayRef<Placement> values, SmallVectorImpl<Placement> &results,
                      function_ref<FailureOr<Placement>(Placement)> exchange) const;
  /// Returns `result`. Fails if an operand of a sum is known not to be terms of a sum.
  FailureOr<Placement> ifTerms(Placement operand, Placement result) const;
  /// Returns `result`. Fails if terms of a sum are taken for a whole value.
  FailureOr<Placement> ifWhole(Placement operand, Placement result) const;
};

/// Fails with an error if `rule` does not fit the operands, results or dimensions of `op`.
LogicalResult verifyIndexRule(Operation *op, StringRef rule);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_PLACEMENT_H
