//===- Faults.h - errors that only the device's data show -----------------===//
//
// Faults that only kernels can find: a count, slot or index that is out of range. The kernel goes on without it and
// notes the first such fault in a cell. The host reads the cell after the step.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_FAULTS_H
#define MOERT_CUDA_FAULTS_H

#include "core/Call.h"
#include "cuda/Cuda.h"

namespace moert::cuda {

/// Kinds of faults. The comments list the values of `raise`, in their order.
enum class FaultKind : int32_t {
  None,
  CountNegative,
  CountsOverflow, ///< used rows, rows in total
  SlotRange,      ///< used rows, the slot
  SlotTwice,      ///< the row
  PassRange,      ///< passes, the number of later passes and this one
  LocalOverflow,  ///< rows of the member's experts, the member, room
  SentOverflow,   ///< rows that are sent, room
  IndexWide,      ///< the index, its place
  StepNegative,   ///< the step
  IdRange,        ///< ids in the table, the id, its place
  LabelRange,     ///< labels in the table, the label, its place
  ExpertRange,    ///< number of experts, the expert
  ForcedRange,    ///< number of experts, the expert
  ForcedTwice,    ///< the token, the expert
  ShadowCount,    ///< the count
  ShadowValue,    ///< the expert, its value
  ShadowRoom,     ///< places, shadows
  ShadowMemory,
  BlockCountNegative,  ///< the count, the member
  ExpertCountNegative, ///< the count, the member
  BlockOverflow,       ///< the block, its rows, room, the member
  ArrivedOverflow,     ///< rows for the member's experts, the member, room
  CountsDisagree,      ///< the member with block_counts, the member with expert_counts
};

struct Fault {
  int32_t kind = 0; ///< a FaultKind. The thread that sets it first writes the values.
  int32_t kernel = 0;
  int32_t op = 0;
  int64_t values[4] = {0, 0, 0, 0};
};

/// Returns the error with the same text as the host's kernels and exchanges, or success for FaultKind::None.
Status faultStatus(const Fault &fault);

/// Cell in which a kernel notes its faults, and what the fault names.
struct FaultSite {
  Fault *cell = nullptr;
  int32_t kernel = 0; ///< Kind
  int32_t op = 0;

  Fault fault(FaultKind kind, int64_t a = 0, int64_t b = 0, int64_t c = 0, int64_t d = 0) const {
    return {static_cast<int32_t>(kind), kernel, op, {a, b, c, d}};
  }
};

/// The fault cell of one device.
class Faults {
public:
  static Status create(Faults &faults);

  FaultSite site(Kind kernel, int32_t op) const { return {cell(), static_cast<int32_t>(kernel), op}; }
  /// Takes the first fault since the last call, and its op. No kernel that may raise a fault may run meanwhile.
  Status take(int32_t &op);
  /// Whether there is a fault to take. Kernels may still run.
  bool isRaised() const { return const_cast<const volatile Fault *>(cell())->kind != 0; }

private:
  Fault *cell() const { return static_cast<Fault *>(memory.get()); }

  PinnedMemory memory;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_FAULTS_H
