//===- HostCounts.h - counts that the host has read -----------------------===//
#ifndef MOERT_CUDA_HOSTCOUNTS_H
#define MOERT_CUDA_HOSTCOUNTS_H

#include "core/Call.h"
#include "cuda/Workspace.h"

#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace moert::cuda {

/// Values of device memory that a rank's calls read on the host: counts, and which experts are shadows. Reading waits
/// for the device, so a value is kept until a call overwrites its memory. Only the first reader of a layer's counts
/// waits. If an earlier step has read a value, the value is copied as soon as the call that writes it has ended, on a
/// stream of its own. The first reader then waits for that call alone, and not for other calls on its stream. Calls
/// must come in an order that respects their dependences.
///
/// Pinned memory is allocated between steps only, because CUDA may wait for all streams then. If a step needs more than
/// there is, its last readers wait as in the first step.
class HostCounts {
public:
  using Values = std::shared_ptr<const std::vector<int32_t>>;

  /// Reads the values of `view`, as the work on `stream` leaves them.
  Status read(cudaStream_t stream, const View &view, Values &values);
  /// Forgets the values that a call writes. To be called before the call is enqueued on `stream`.
  Status note(const Call &call, cudaStream_t stream);
  /// Begins to copy the values that a call writes and a later call reads. To be called after the call is enqueued on
  /// `stream`.
  Status noteEnqueued(const Call &call, cudaStream_t stream);
  /// Makes later work on `stream` wait for the copies that are under way.
  Status joinTo(cudaStream_t stream);
  /// Forgets all values, and allocates what the previous step lacked. The work of the previous step must come before
  /// the work of the next one.
  Status beginStep();
  /// Number of waits of `read` since the last `beginStep`.
  int64_t waits() const { return waited; }

private:
  /// Place of a copy in pinned memory, and an event after the copy.
  struct Page {
    const char *data = nullptr;
    Event filled;
  };
  using Range = std::pair<const char *, const char *>;
  struct Copy {
    Range range;
    Values values;
    Page *page; ///< target of the copy under way, while `values` is null
  };

  Status startCopy(const Range &range, cudaStream_t stream);
  Status finishCopy(Copy &copy);

  std::mutex mutex; ///< guards the members below
  std::vector<Copy> copies;
  std::set<Range> readers; ///< ranges that steps have read
  Stream aside;            ///< stream of early copies, which alone writes to the pinned memory
  Staging pinned;
  char *memory = nullptr;
  int64_t room = 0;   ///< bytes of `memory`
  int64_t wanted = 0; ///< bytes that this step asked for
  std::deque<Page> pages;
  size_t usedPages = 0; ///< pages that this step uses
  int64_t waited = 0;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_HOSTCOUNTS_H
