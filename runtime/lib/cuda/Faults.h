//===- Faults.h - errors that only the device's data show -----------------===//
//
// A kernel that finds a count, slot or index out of range goes on without it and notes the first such fault in a cell
// that the host reads when the step has ended.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_FAULTS_H
#define MOERT_CUDA_FAULTS_H

#include "core/Call.h"
#include "cuda/Cuda.h"

namespace moert::cuda {

/// What was wrong; the values that go with it stand in the order of `raise`'s.
enum class FaultKind : int32_t {
  None,
  CountNegative,
  CountsOverflow, ///< rows that there are, rows in all
  SlotRange,      ///< rows that there are, the slot
  SlotTwice,      ///< the row
  PassRange,      ///< passes, the number of those that follow and this one
  LocalOverflow,  ///< rows of the member's experts, the member, room
  SentOverflow,   ///< rows that are sent, room
  IndexWide,      ///< the index, its place
  StepNegative,   ///< the step
  IdRange,        ///< ids that there are, the id, its place
  LabelRange,     ///< labels that there are, the label, its place
  ExpertRange,    ///< experts that there are, the expert
  ForcedRange,    ///< experts that there are, the expert
  ForcedTwice,    ///< the token, the expert
  ShadowCount,    ///< the count
  ShadowValue,    ///< the expert, its value
  ShadowRoom,     ///< places, shadows
  ShadowMemory,
};

struct Fault {
  int32_t kind = 0; ///< FaultKind; set first, by which the values are the writer's
  int32_t kernel = 0;
  int32_t op = 0;
  int64_t values[3] = {0, 0, 0};
};

/// The error as the host's kernels say it; none for FaultKind::None.
Status faultStatus(const Fault &fault);

/// Where a kernel notes its faults.
struct FaultSite {
  Fault *cell = nullptr;
  int32_t kernel = 0; ///< Kind
  int32_t op = 0;

  Fault fault(FaultKind kind, int64_t a = 0, int64_t b = 0, int64_t c = 0) const {
    return {static_cast<int32_t>(kind), kernel, op, {a, b, c}};
  }
};

/// The cell of one device.
class Faults {
public:
  static Status create(Faults &faults);

  FaultSite site(Kind kernel, int32_t op) const { return {cell(), static_cast<int32_t>(kernel), op}; }
  /// The first fault since the last call; `op` is whose it is. Nothing that may raise one runs meanwhile.
  Status take(int32_t &op);
  /// Whether there is a fault to take, while kernels may still run.
  bool isRaised() const { return const_cast<const volatile Fault *>(cell())->kind != 0; }

private:
  Fault *cell() const { return static_cast<Fault *>(memory.get()); }

  PinnedMemory memory;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_FAULTS_H
