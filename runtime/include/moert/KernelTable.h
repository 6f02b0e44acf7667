//===- KernelTable.h - the calls of moert.h as data -----------------------===//
//
// The runtime dispatches and checks calls with this table. The compiler checks the calls that it emits.
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

/// Ranks that take part in a call: one, all members of a group, or two of them.
enum class CallType : uint8_t { Compute, Collective, PointToPoint };

/// Type of an operand. Real: the call's floating type. Acc: f32 if Real has 16 bits, else Real. Wide: as Acc, or Real.
/// Gradient: Real, or 16 bits if Real is f32. Float: any floating type.
enum class OperandType : uint8_t { Real, Acc, Wide, Gradient, Float, I32, Any };

/// Largest number of dimension names in a call.
inline constexpr int kMostDimensionNames = 12;

/// A row of kernels.def. The C function takes the operands in this order, inputs first, then `ints` integers, `reals`
/// real numbers and the group, if it has one.
struct KernelInfo {
  struct Shape {
    int8_t rank;    ///< number of named dimensions
    bool hasMore;   ///< whether other dimensions precede them
    int8_t dims[4]; ///< number of each dimension's name in the call, or -1 for 1
  };
  struct Operand {
    const char *name;
    OperandType type;
    int8_t typeOf; ///< operand that has the same type, or -1
    bool isOptional, isOutput;
    unsigned aliases; ///< bit i: may share the memory of operand i, which has the same type
    uint8_t shapeCount;
    /// The second shape applies if operand `whenThere` is present, or if flag `whenSet` is set (an index into the flags
    /// on which shapes depend). If both are -1, it applies to values of its rank.
    Shape shapes[2];
    int8_t whenThere, whenSet;
  };
  const char *name; ///< name of the C function without moert_
  CallType type;
  bool hasGroup;
  bool adds;     ///< whether the output is a sum of values of its type
  bool mayRound; ///< whether a cast may round the outputs: parameters, or gradients of values that were cast
  int8_t ragged; ///< operand that holds the number of used rows, or -1
  uint8_t ints, reals, operandCount;
  Operand operands[12];
  const char *dimensions[kMostDimensionNames]; ///< by number
};

inline constexpr KernelInfo kKernels[] = {
#define MOERT_TABLE
#include "moert/kernels.inc"
};

/// Finds a call by name; null if there is none.
constexpr const KernelInfo *findKernel(std::string_view name) {
  for (const KernelInfo &kernel : kKernels)
    if (kernel.name == name)
      return &kernel;
  return nullptr;
}

} // namespace moert

#endif // MOERT_KERNELTABLE_H
