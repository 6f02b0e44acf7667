//===- KernelTable.h - the calls of moert.h as data -----------------------===//
//
// For the runtime, which dispatches and checks by it, and for compilers, which check what they emit.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_KERNELTABLE_H
#define MOERT_KERNELTABLE_H

#include <cstdint>
#include <string_view>

namespace moert {

/// The index of a call in kKernels.
enum class Kind : uint8_t {
#define MOERT_KIND(kind) kind,
#include "moert/kernels.inc"
};

/// Who meets in a call: nobody, all members of a group, or two of them.
enum class CallType : uint8_t { Compute, Collective, PointToPoint };

/// The call's floating type; that type, or f32 where it is of 16 bits (an accumulator); that type, or one of 16 bits
/// where it is f32; any floating type; i32; or any.
enum class OperandType : uint8_t { Real, Acc, Gradient, Float, I32, Any };

/// Of one call.
inline constexpr int kMostDimensionNames = 12;

/// A row of kernels.def. Operands stand in the order of the C function, inputs first; behind them it takes `ints`
/// integers, `reals` real numbers, and a group where it has one.
struct KernelInfo {
  struct Shape {
    int8_t rank;    ///< dimensions that are named
    bool hasMore;   ///< others stand before them
    int8_t dims[4]; ///< of each the number of its name in the call, or -1 for 1
  };
  struct Operand {
    const char *name;
    OperandType type;
    int8_t typeOf; ///< the operand of whose type it is, or -1
    bool isOptional, isOutput;
    unsigned aliases; ///< bit i: it may be in the memory of operand i, of whose type it is
    uint8_t shapeCount;
    /// The second holds where operand `whenThere` is there, or flag `whenSet` of those on which shapes depend is set;
    /// where both are -1, for values of its rank.
    Shape shapes[2];
    int8_t whenThere, whenSet;
  };
  const char *name; ///< of the C function without moert_
  CallType type;
  bool hasGroup;
  int8_t ragged; ///< the operand that says how many rows are used, or -1
  uint8_t ints, reals, operandCount;
  Operand operands[12];
  const char *dimensions[kMostDimensionNames]; ///< their names, by number
};

inline constexpr KernelInfo kKernels[] = {
#define MOERT_TABLE
#include "moert/kernels.inc"
};

/// The call of that name, or null.
constexpr const KernelInfo *findKernel(std::string_view name) {
  for (const KernelInfo &kernel : kKernels)
    if (kernel.name == name)
      return &kernel;
  return nullptr;
}

} // namespace moert

#endif // MOERT_KERNELTABLE_H
