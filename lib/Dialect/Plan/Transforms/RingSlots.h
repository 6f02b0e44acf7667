//===- RingSlots.h - slots for values that outlive iterations --*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_PLAN_TRANSFORMS_RINGSLOTS_H
#define MOE_LIB_DIALECT_PLAN_TRANSFORMS_RINGSLOTS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mlir::plan {

/// Use of a value of an iteration, in numbers of launches, both included.
struct SlotUse {
  unsigned value;    ///< number among the values of an iteration
  int64_t iteration; ///< counted from any iteration of the loop
  size_t first, last;
};

/// Launches of an iteration of the steady state.
struct SlotPeriod {
  size_t begin, length;

  bool contains(size_t launch) const { return launch >= begin && launch - begin < length; }
};

/// Slots of values: in iteration i a value has slot (first[value] + i) mod depth.
struct RingSlots {
  std::vector<int64_t> first;
  int64_t depth = 1;

  int64_t get(unsigned value, int64_t iteration) const { return ((first[value] + iteration) % depth + depth) % depth; }
};

/// Tells of two uses, by their places in a list, whether the launch that makes the second may overwrite the first, of
/// which it is the last user.
using MayTakeOver = llvm::function_ref<bool(size_t, size_t)>;

/// Chooses few slots for values 0 to `values` - 1, such that none is written while another one of its slot is in use.
/// It is the allocation of rotating registers for pipelined loops (B. R. Rau, M. Lee, P. P. Tirumalai, M. S.
/// Schlansker, "Register Allocation for Software Pipelined Loops", PLDI 1992). `uses` shows all pairs that are in use
/// at once, with the difference of their iterations. There is at least one value, and each has a use.
RingSlots chooseSlots(unsigned values, llvm::ArrayRef<SlotUse> uses, const SlotPeriod &period, MayTakeOver mayTakeOver);

/// A slot that is free during the last of `uses`, or none.
std::optional<int64_t> findFreeSlot(const RingSlots &slots, llvm::ArrayRef<SlotUse> uses, MayTakeOver mayTakeOver);

} // namespace mlir::plan

#endif // MOE_LIB_DIALECT_PLAN_TRANSFORMS_RINGSLOTS_H
