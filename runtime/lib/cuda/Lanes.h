//===- Lanes.h - the streams of ranks on one device -----------------------===//
#ifndef MOERT_CUDA_LANES_H
#define MOERT_CUDA_LANES_H

#include "core/Device.h"
#include "cuda/CallNames.h"
#include "cuda/RaggedGroups.h"

#include <deque>
#include <span>

namespace moert::cuda {

/// A stream of a rank, and when its calls ran. Used by one thread at a time.
class Lane {
public:
  int32_t place = 0; ///< of its rank among those of this process
  StreamContext context;
  std::vector<OpTime> times; ///< of the last step that was timed

private:
  friend class Lanes;

  struct Timed {
    int32_t op;
    int64_t received;
    Event begin, end;
  };

  Stream stream;
  std::vector<Timed> timed; ///< of all steps: events are used again
  size_t used = 0;          ///< of timed, in this step
};

/// All streams of the ranks of this process.
class Lanes {
public:
  static Status create(std::span<const Program> programs, const std::vector<Group> &groups,
                       const std::vector<int64_t> &ranks, int64_t world, const DeviceOptions &options, Lanes &lanes);

  /// Memory that calls would ask for in the first step, where a stream may wait for another rank.
  Status reserve();

  DeviceContext &device() { return context; }
  Lane &at(int64_t rank, int64_t stream) { return all[first[static_cast<size_t>(rank)] + static_cast<size_t>(stream)]; }
  std::deque<Lane> &lanes() { return all; }

  /// For as long as a call of this lane is enqueued.
  CallNames::Range range(const Lane &lane, int32_t op) const;
  /// Where a call of this lane runs.
  Target target(Lane &lane, const Call &call);
  /// Enqueues a kernel.
  Status run(Lane &lane, const Call &call);
  /// Around what a call enqueues: notes when that ran, and what of the counts that the host knows it may change.
  /// `received` says the bytes that a collective got, or -1.
  Status begin(Lane &lane, const Call &call);
  Status end(Lane &lane, const Call &call, int64_t received = -1);

  Status beginStep();
  /// The step begins when all that is on the caller's `stream` is done, and the host does not wait.
  Status beginStepAfter(cudaStream_t stream);
  /// What comes on the caller's `stream` comes after all that the step has enqueued.
  Status joinTo(cudaStream_t stream);
  /// When nothing runs any more: the first fault of the step's kernels, and its times.
  Status endStep();
  /// The faults of a step name its op and rank.
  Status takeFault();

  /// Whether what is enqueued becomes a graph, so that no call may wait.
  void setCapturing(bool isCapturing);

  bool isTimed = true;

private:
  void forgetStep();

  DeviceContext context;
  std::span<const Program> programs;
  std::vector<int64_t> local; ///< ranks of this process
  std::vector<size_t> first;  ///< of a rank's lanes in all
  std::deque<Lane> all;
  std::deque<HostCounts> counts; ///< by place
  std::deque<RoutingTables> tables;
  std::deque<RaggedGroups> groups;
  CallNames names;
  Stream clock; ///< on which steps begin
  Event stepBegin;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_LANES_H
