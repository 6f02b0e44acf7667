//===- RankDevice.h - one rank of this process on a GPU -------------------===//
#ifndef MOERT_CUDA_RANKDEVICE_H
#define MOERT_CUDA_RANKDEVICE_H

#include "cuda/Copies.h"
#include "cuda/CudaDevice.h"
#include "cuda/Overlaps.h"
#if MOERT_HAS_NCCL
#include "cuda/Nccl.h"
#include "cuda/NcclLibrary.h"
#endif

#include <map>
#include <mutex>

namespace moert::cuda {

/// Launches calls as the program issues them. NCCL runs collectives over several ranks.
class RankDevice : public CudaDevice {
public:
  Status launch(int64_t, int64_t stream, const Call &call) override {
    Lane &lane = laneOf(stream);
    lane.context.leftProcessors = overlaps.noteCall(call.op, stream) ? lanes->device().transferProcessors : 0;
    return lanes->run(lane, call);
  }
  /// Also finds the calls beside transfers that a step issues after them.
  Status prepare(const Call &call) override;
  void prepareRecord(int64_t event, int64_t stream) override { overlaps.record(event, stream); }
  void prepareWait(int64_t event, int64_t stream) override { overlaps.wait(event, stream); }
  Status record(int64_t rank, int64_t event, int64_t stream) override;
  Status wait(int64_t rank, int64_t event, int64_t stream) override;
  Status readTimes(int64_t rank, int64_t stream, const View &times, std::optional<int64_t> &count) override;
  /// Launches a collective that is checked.
  Status meet(int64_t stream, Call call);

protected:
  RankDevice(std::span<const Program> programs, const std::vector<Group> &groups, int64_t rank,
             std::unique_ptr<Lanes> owned);

  Lane &laneOf(int64_t stream) { return lanes->at(rank, stream); }
  /// Enqueues all calls of a step.
  Status issueAll(const std::function<Status(int64_t)> &issue);
  /// Collectives of the step that are not done, and whether its program still issues calls. Callable from any thread.
  std::vector<Wait> pendingWaits();
  bool isIssuing();

  const Program &program;
  const std::vector<Group> &groups;
  const int64_t rank;
#if MOERT_HAS_NCCL
  std::unique_ptr<Nccl> nccl; ///< null if the rank is alone
#endif

private:
  /// An event of the plan.
  struct Mark {
    Event event;
    bool isRecorded = false; ///< whether this step recorded it
  };
  /// A launched collective, and the event after it.
  struct Launched {
    Wait wait;
    Event done;
  };

  Status fetchValues(Lane &lane, Call &call, HostValues &values);
  Status noteLaunched(Lane &lane, const Call &call);
  Wait waitOf(const Call &call);

  std::vector<Mark> marks;
  Overlaps overlaps;
  std::mutex stepMutex; ///< guards the members below, which other threads read
  std::vector<Launched> launched;
  std::map<std::string, int64_t> issued; ///< number of collectives in the step, by their members
  size_t launchedCount = 0;
  bool issues = false;
};

/// Checks and launches the rank's collectives at once.
class RankCommunicator final : public Communicator {
public:
  RankCommunicator(RankDevice &device, const std::vector<Group> &groups, bool verify)
      : device(device), groups(groups), verify(verify) {}

  Status issue(int64_t rank, int64_t stream, Call call) override;

private:
  RankDevice &device;
  const std::vector<Group> &groups;
  const bool verify;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_RANKDEVICE_H
