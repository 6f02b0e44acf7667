//===- SpmdAxes.h - the atomic rank axes and sets of them -------*- C++ -*-===//
//
// Group boundaries form a chain of divisors, so every group is a union of the axes between neighbouring boundaries. A
// value is described by the set of axes over which it varies. At most log2(world) axes exist: nothing grows with the
// ranks.
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

  /// The axes that make up `group`; fails where its boundaries are not boundaries of this world.
  FailureOr<AxisSet> getAxes(GroupAttr group) const;
  /// The fewest axes that together hold the axes of any such group.
  AxisSet getCovering(GroupAttr group) const;
  /// The axes over which a tensor of that layout varies; fails on an unknown group name.
  FailureOr<AxisSet> getAxes(LayoutAttr layout) const;
  /// The fewest groups whose union is `set`, under the names of `#moe.parallel` where they have one.
  SmallVector<GroupAttr> getGroups(AxisSet set) const;
  /// `set` for error messages: names of groups, or "none".
  std::string describe(AxisSet set) const;

private:
  struct Axis {
    int64_t stride, size;
  };
  ParallelAttr parallel;
  SmallVector<Axis> axes;
};

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_SPMDAXES_H
