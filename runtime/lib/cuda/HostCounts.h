//===- HostCounts.h - counts that the host has read -----------------------===//
#ifndef MOERT_CUDA_HOSTCOUNTS_H
#define MOERT_CUDA_HOSTCOUNTS_H

#include "core/Call.h"
#include "cuda/Cuda.h"

#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace moert::cuda {

/// What a rank's calls read of its device memory on the host: counts, and which experts are shadows. Reading waits for
/// the device, so that what was read is kept until a call writes that memory: of a layer's counts only the first reader
/// waits. Values that an earlier step has read are copied right behind the call that writes them, on a stream of their
/// own: so the first reader waits for that call alone, and not for others before it on its stream. Calls must come in
/// an order in which each comes after those that it depends on.
class HostCounts {
public:
  using Values = std::shared_ptr<const std::vector<int32_t>>;

  /// The values of `view`, as they are when all that is enqueued on `stream` is done.
  Status read(cudaStream_t stream, const View &view, Values &values);
  /// Before a call is enqueued on `stream`: forgets the values of what it writes.
  Status note(const Call &call, cudaStream_t stream);
  /// After it is enqueued on `stream`: begins to copy what it writes, where a reader will come.
  Status noteEnqueued(const Call &call, cudaStream_t stream);
  /// What comes on `stream` comes after the copies that are under way.
  Status joinTo(cudaStream_t stream);
  /// Nothing is known any more. What the step before has enqueued comes before what the next one will.
  void clear();
  /// How often `read` waited since the last `clear`.
  int64_t waits() const { return waited; }

private:
  /// Pinned memory, and when it is filled.
  struct Page {
    PinnedMemory memory;
    int64_t bytes = 0;
    Event filled;
  };
  struct Copy {
    const char *begin, *end;
    Values values;
    Page *page; ///< where the values are on their way to, while `values` is null
  };
  using Range = std::pair<const char *, const char *>;

  Status startCopy(const Range &range, cudaStream_t stream);
  Status finishCopy(Copy &copy);

  std::mutex mutex; ///< of what follows
  std::vector<Copy> copies;
  std::set<Range> readers; ///< what steps have read
  Stream aside;            ///< on which values are copied early
  std::deque<Page> pages;
  size_t usedPages = 0; ///< in this step
  int64_t waited = 0;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_HOSTCOUNTS_H
