//===- Copies.h - bytes that collectives move on one device ---------------===//
#ifndef MOERT_CUDA_COPIES_H
#define MOERT_CUDA_COPIES_H

#include "core/Exchange.h"
#include "cuda/Context.h"

#include <deque>

namespace moert::cuda {

/// Enqueues a copy on `stream`, unless there are no bytes or both addresses are the same.
Status copyBytes(cudaStream_t stream, void *to, const void *from, int64_t bytes);
Status clearBytes(cudaStream_t stream, void *to, int64_t bytes);

/// Fills the parts of the member's result that no other member sends.
Status fillUnsent(cudaStream_t stream, const Call &call, int64_t size, int64_t member);

/// Values of the device that the host must know before it can go on. This object owns the copies.
class HostValues {
public:
  /// Waits for the value and makes `view` refer to the copy.
  Status fetch(const StreamContext &stream, View &view);
  /// Fetches the operands that a communicator must read.
  Status fetchOperands(const StreamContext &stream, Call &call);
  bool empty() const { return counts.empty(); }

private:
  std::deque<std::vector<char>> values;
  std::vector<HostCounts::Values> counts;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_COPIES_H
