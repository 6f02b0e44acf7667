//===- SpmdAxes.h - the atomic rank axes and sets of them -------*- C++ -*-===//
//
// Group boundaries form a chain of divisors, so every group is a union of the axes between neighbouring boundaries. A
// value is described by the set of axes over which it varies. At most log2(world) axes exist: nothing grows with the
// ranks.
//
// The boundaries are those of #moe.parallel and of all groups that a program uses (refine). So a program may divide a
// group at the end of a node. Sets of axes mean something for one SpmdAxes alone; layouts name groups and mean the same
// for all.
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
  friend bool operator==(AxisSet a, AxisSet b) { return a.bits == b.bits; }
  friend bool operator!=(AxisSet a, AxisSet b) { return a.bits != b.bits; }
};

/// The atomic axes of a world, smallest stride first.
class SpmdAxes {
public:
  explicit SpmdAxes(ParallelAttr parallel);

  /// Divides axes at the boundaries of `group`. Fails, and changes nothing, where no axes could make up both it and the
  /// groups so far.
  LogicalResult refine(GroupAttr group);

  /// The axes that make up `group`; fails where its boundaries are not boundaries of the axes.
  FailureOr<AxisSet> getAxes(GroupAttr group) const;
  /// The same for the group of `op`, with an error that names the boundaries.
  FailureOr<AxisSet> getAxes(Operation *op, GroupAttr group) const;
  /// The fewest axes that together hold the axes of any such group.
  AxisSet getCovering(GroupAttr group) const;
  /// The axes over which a tensor of that layout varies; fails on an unknown group name.
  FailureOr<AxisSet> getAxes(LayoutAttr layout) const;
  /// The axes one by one.
  SmallVector<AxisSet> getEach() const;
  /// The fewest groups whose union is `set`, under the names of `#moe.parallel` or else of refine() where they have
  /// one.
  SmallVector<GroupAttr> getGroups(AxisSet set) const;
  /// `set` for error messages: names of groups, or "none".
  std::string describe(AxisSet set) const;

private:
  size_t getNumAxes() const { return boundaries.size() - 1; }

  ParallelAttr parallel;
  /// Axis i is between boundaries i and i + 1.
  SmallVector<int64_t> boundaries = {1};
  /// Those with a name, best one first.
  SmallVector<GroupAttr> named;
};

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_SPMDAXES_H
