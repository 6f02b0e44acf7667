//===- HostCounts.h - counts that the host has read -----------------------===//
#ifndef MOERT_CUDA_HOSTCOUNTS_H
#define MOERT_CUDA_HOSTCOUNTS_H

#include "core/Call.h"
#include "cuda/Cuda.h"

#include <memory>
#include <mutex>
#include <vector>

namespace moert::cuda {

/// What a rank's calls read of its device memory on the host: counts, and which experts are shadows. Reading waits for
/// the device, so that what was read is kept until a call writes that memory: of a layer's counts only the first reader
/// waits. Calls must come in an order in which each comes after those that it
/// depends on.
class HostCounts {
public:
  using Values = std::shared_ptr<const std::vector<int32_t>>;

  /// The values of `view`, as they are when all that is enqueued on `stream` is done.
  Status read(cudaStream_t stream, const View &view, Values &values);
  /// Before a call is enqueued: forgets the values of what it writes.
  void note(const Call &call);
  /// Nothing is known any more.
  void clear();
  /// How often `read` waited since the last `clear`.
  int64_t waits() const { return waited; }

private:
  struct Copy {
    const char *begin, *end;
    Values values;
  };

  std::mutex mutex; ///< of what follows
  std::vector<Copy> copies;
  int64_t waited = 0;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_HOSTCOUNTS_H
