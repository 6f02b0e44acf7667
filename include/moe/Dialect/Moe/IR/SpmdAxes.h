//===- SpmdAxes.h - the atomic rank axes and sets of them -------*- C++ -*-===//
//
// Group boundaries form a chain of divisors, so every group is a union of the axes between neighbouring boundaries. A
// value is described by the set of axes over which it varies. There are at most log2(world) axes, so no cost grows with
// the ranks.
//
// The boundaries are those of #moe.parallel and of all groups that a program uses (refine). So a program may divide a
// group at the end of a node. Sets of axes belong to one SpmdAxes. Layouts name groups and mean the same for all.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_MOE_IR_SPMDAXES_H
#define MOE_DIALECT_MOE_IR_SPMDAXES_H

#include "moe/Dialect/Moe/IR/MoeAttrs.h"

namespace mlir::moe {

/// A set of rank axes.
struct AxisSet {
  uint64_t bits = 0;

  bool empty() const { return bits == 0; }
  bool contains(AxisSet other) const { return (other.bits & ~bits) == 0; }
  friend AxisSet operator|(AxisSet a, AxisSet b) { return {a.bits | b.bits}; }
  friend AxisSet operator&(AxisSet a, AxisSet b) { return {a.bits & b.bits}; }
  /// The axes of `a` that are not in `b`.
  friend AxisSet operator-(AxisSet a, AxisSet b) { return {a.bits & ~b.bits}; }
  bool operator==(const AxisSet &) const = default;
};

/// The union of `sets`.
inline AxisSet unite(ArrayRef<AxisSet> sets) {
  AxisSet all;
  for (AxisSet set : sets)
    all = all | set;
  return all;
}

/// The atomic axes of a world, smallest stride first.
class SpmdAxes {
public:
  explicit SpmdAxes(ParallelAttr parallel);

  /// Divides axes at the boundaries of `group`. Fails without a change if no axes could make up both it and the groups
  /// so far.
  LogicalResult refine(GroupAttr group);

  /// The axes that make up `group`. Fails if its boundaries are not boundaries of the axes.
  FailureOr<AxisSet> getAxes(GroupAttr group) const;
  /// The axes of the group of `op`. The error on a failure names the boundaries.
  FailureOr<AxisSet> getAxes(Operation *op, GroupAttr group) const;
  /// The fewest axes that together contain the axes of any such group.
  AxisSet getCovering(GroupAttr group) const;
  /// The axes over which a tensor of that layout varies. Fails on an unknown group name.
  FailureOr<AxisSet> getAxes(LayoutAttr layout) const;
  /// Each axis as a set of its own.
  SmallVector<AxisSet> getEach() const;
  /// The fewest groups whose union is `set`. They have the names of `#moe.parallel` or of refine(), if there are any.
  SmallVector<GroupAttr> getGroups(AxisSet set) const;
  /// Text of `set` for error messages: names of groups, or "none".
  std::string describe(AxisSet set) const;

private:
  size_t getNumAxes() const { return boundaries.size() - 1; }

  ParallelAttr parallel;
  /// Boundaries of the axes: axis i is between boundaries i and i + 1.
  SmallVector<int64_t> boundaries = {1};
  /// Groups with a name, the best name first.
  SmallVector<GroupAttr> named;
};

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_SPMDAXES_H
