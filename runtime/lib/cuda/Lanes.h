//===- Lanes.h - the streams of ranks on one device -----------------------===//
#ifndef MOERT_CUDA_LANES_H
#define MOERT_CUDA_LANES_H

#include "core/Device.h"
#include "cuda/CallNames.h"
#include "cuda/RaggedGroups.h"

#include <deque>
#include <span>

namespace moert::cuda {

/// A stream of a rank, and the times of its calls. Used by one thread at a time.
struct Lane {
  struct Timed {
    int32_t op;
    int64_t received;
    Event begin, end;
  };

  int32_t place = 0; ///< place of its rank among those of this process
  StreamContext context;
  std::vector<OpTime> times; ///< times of the last step that was timed
  Stream stream;
  std::vector<Timed> timed; ///< events of all steps, which are used again
  size_t used = 0;          ///< entries of `timed` that this step uses
};

/// All streams of the ranks of this process.
class Lanes {
public:
  static Status create(std::span<const Program> programs, const std::vector<Group> &groups,
                       const std::vector<int64_t> &ranks, int64_t world, const DeviceOptions &options, Lanes &lanes);

  /// Reserves the memory that calls would ask for in the first step, in which a stream may wait for another rank.
  Status reserve();

  DeviceContext &device() { return context; }
  Lane &at(int64_t rank, int64_t stream) { return all[first[static_cast<size_t>(rank)] + static_cast<size_t>(stream)]; }
  std::deque<Lane> &lanes() { return all; }

  /// Opens a named range while a call of this lane is enqueued.
  CallNames::Range range(const Lane &lane, int32_t op) const;
  Target target(Lane &lane, const Call &call);
  /// Enqueues a kernel.
  Status run(Lane &lane, const Call &call);
  /// Begin and end the enqueueing of a call. They note its time, and the counts on the host that it may change.
  /// `received` is the number of bytes that a collective got, or -1.
  Status begin(Lane &lane, const Call &call);
  Status end(Lane &lane, const Call &call, int64_t received = -1);

  Status beginStep();
  /// Begins the step after the work on the caller's `stream`. The host does not wait.
  Status beginStepAfter(cudaStream_t stream);
  /// Makes later work on the caller's `stream` wait for all work of the step.
  Status joinTo(cudaStream_t stream);
  /// Ends the step when nothing runs any more: returns the first fault of its kernels, and reads the times.
  Status endStep();
  /// Takes the fault of a step, with its op and rank.
  Status takeFault();

  /// Says whether a graph is captured, so that no call may wait.
  void setCapturing(bool isCapturing);
  /// Makes all calls choose their methods as in a capture, so that a graph computes what the first step did.
  void prepareForGraph();

  bool isTimed = true;

private:
  Status forgetStep();

  DeviceContext context;
  std::span<const Program> programs;
  std::vector<int64_t> local; ///< ranks of this process
  std::vector<size_t> first;  ///< first lane of each rank
  std::deque<Lane> all;
  std::deque<HostCounts> counts; ///< counts by the place of the rank
  std::deque<RoutingTables> tables;
  std::deque<RaggedGroups> groups;
  CallNames names;
  Stream clock; ///< stream on which steps begin
  Event stepBegin;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_LANES_H
