//===- Copies.h - work of collectives on one device -----------------------===//
#ifndef MOERT_CUDA_COPIES_H
#define MOERT_CUDA_COPIES_H

#include "core/Exchange.h"
#include "cuda/Context.h"

#include <deque>
#include <span>

namespace moert::cuda {

/// Fills the parts of the member's result that no other member sends.
Status fillUnsent(cudaStream_t stream, const Call &call, int64_t size, int64_t member);

/// Largest number of sources of sumSources.
constexpr size_t kMostSources = 64;

/// Enqueues out[i] = sources[0][i] + sources[1][i] + .. for `count` elements of `dtype`, in that order. 16-bit types
/// are summed in f32. `out` may be one of the sources.
Status sumSources(const Target &target, std::span<const void *const> sources, void *out, int64_t count, int32_t dtype);

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
