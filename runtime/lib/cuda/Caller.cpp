//===- Caller.cpp - a rank among the work of a caller on a GPU ------------===//
//
// Backend of one rank in a caller's process. A step is enqueued after the work on the caller's stream, and later work
// on that stream comes after the step. The host waits for neither. Collectives use the caller's communicators. No
// thread watches the step: if a rank is gone, the wait for the step's end reports it, and the caller aborts its
// communicators.
//
//===----------------------------------------------------------------------===//

#include "cuda/Backends.h"
#include "cuda/RankDevice.h"
#include "moert/world.h"

#include <thread>

namespace moert::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// Interval at which the host checks whether a step has ended.
constexpr std::chrono::microseconds kPollInterval(50);

class CallerDevice final : public RankDevice {
public:
  CallerDevice(std::span<const Program> programs, const std::vector<Group> &groups, const moert_cuda_caller &table,
               std::unique_ptr<Lanes> owned)
      : RankDevice(programs, groups, table.rank, std::move(owned)), table(table) {}

  Status connect();

  Status checkKernel(Kind kind) const override;
  Status runStep(const std::function<Status(int64_t)> &issue, double timeout) override;
  Status finishStep() override;
  /// True after a failure until the caller aborts its communicators.
  bool isStuck() const override { return isUnderWay && isPending(done); }
  Status write(void *to, const void *from, int64_t bytes) override;

private:
  Status askCommunicator(const Group &group, void *&comm) const;
  Status checkReady(cudaStream_t stream) const;
  Status earlierFailure();
  Status enqueue(const std::function<Status(int64_t)> &issue, cudaStream_t stream);
  Status awaitEnd();
  Status transferFailure();

  const moert_cuda_caller table;
  Event done;              ///< recorded after the last step
  bool isUnderWay = false; ///< the last step's end has not been seen
  double timeout = 0;      ///< seconds that the last step may take, 0 for any
  Status failure;          ///< the first failure, after which ranks may have enqueued different collectives
};

// --- Communicators -------------------------------------------------------------

#if MOERT_HAS_NCCL
Status CallerDevice::askCommunicator(const Group &group, void *&comm) const {
  std::vector<int64_t> ranks;
  for (int64_t member = 0; member < group.size; ++member)
    ranks.push_back(group.rankOf(group.instanceOf(rank), member));
  const moert_members members{group.name.c_str(), ranks.data(), group.size, group.memberOf(rank)};
  comm = table.communicator(table.context, &members);
  if (comm)
    return {};
  const char *text = table.last_error ? table.last_error(table.context) : nullptr;
  return invalid("expected a communicator of the caller for group '", group.name, "' but got none",
                 (text ? std::string(": ") + text : ""));
}

static Status checkCommunicator(const Group &group, int64_t rank, ncclComm_t comm) {
  int size = 0, member = 0;
  MOERT_RETURN_IF_ERROR(check(ncclCommCount(comm, &size), "ncclCommCount", comm));
  MOERT_RETURN_IF_ERROR(check(ncclCommUserRank(comm, &member), "ncclCommUserRank", comm));
  if (size == group.size && member == group.memberOf(rank))
    return {};
  return invalid("group '", group.name, "': expected a communicator in which rank ", rank, " is member ",
                 group.memberOf(rank), " of ", group.size, " but it is ", member, " of ", size);
}
#endif

Status CallerDevice::connect() {
#if MOERT_HAS_NCCL
  std::vector<ncclComm_t> comms(groups.size());
  int64_t count = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].size == 1)
      continue;
    MOERT_RETURN_IF_ERROR(loadNccl());
    void *comm = nullptr;
    MOERT_RETURN_IF_ERROR(askCommunicator(groups[i], comm));
    comms[i] = static_cast<ncclComm_t>(comm);
    MOERT_RETURN_IF_ERROR(checkCommunicator(groups[i], rank, comms[i]));
    ++count;
  }
  // Nccl.cpp sets the order where the runtime makes communicators. A caller's NCCL has already read its settings.
  if (count > 1)
    MOERT_RETURN_IF_ERROR(checkOrder());
  nccl = Nccl::borrow(rank, std::move(comms));
  return {};
#else
  const bool isAlone = std::all_of(groups.begin(), groups.end(), [](const Group &group) { return group.size == 1; });
  return isAlone
             ? Status{}
             : Status::error(MOERT_ERROR_UNSUPPORTED, "backend 'cuda' is built without NCCL, which several ranks need");
#endif
}

Status CallerDevice::checkKernel(Kind kind) const {
  if (isPointToPoint(kind))
    return Status::error(MOERT_ERROR_UNSUPPORTED, "backend 'cuda' runs no pipelines with a caller's communicators: it "
                                                  "has none for messages between two ranks");
  return CudaDevice::checkKernel(kind);
}

Status CallerDevice::transferFailure() {
#if MOERT_HAS_NCCL
  if (nccl)
    return nccl->failure();
#endif
  return {};
}

// --- Steps ---------------------------------------------------------------------

Status CallerDevice::checkReady(cudaStream_t stream) const {
  int device = 0;
  MOERT_RETURN_IF_ERROR(check(cudaGetDevice(&device), "cannot use the device"));
  if (device != lanes->device().device)
    return invalid("expected device ", lanes->device().device, " to be current, where the world was made, but it is ",
                   device);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  MOERT_RETURN_IF_ERROR(check(cudaStreamIsCapturing(stream, &capture), "cannot use the caller's stream"));
  if (capture == cudaStreamCaptureStatusNone)
    return {};
  return Status::error(MOERT_ERROR_UNSUPPORTED,
                       "the caller's stream is captured, but a step cannot become a part of a CUDA graph");
}

/// Failure of an earlier step, as far as it is known without a wait.
Status CallerDevice::earlierFailure() {
  if (failure.ok() && isUnderWay)
    failure = transferFailure();
  if (failure.ok() && lanes->device().faults.isRaised())
    return finishStep();
  return failure;
}

/// Enqueues a step. The caller's next work comes after all that was enqueued, even if the rest of the step fails.
Status CallerDevice::enqueue(const std::function<Status(int64_t)> &issue, cudaStream_t stream) {
  if (!done)
    MOERT_RETURN_IF_ERROR(createEvent(false, done));
  else // Steps share memory, so a new stream of the caller waits for the last step.
    MOERT_RETURN_IF_ERROR(check(cudaStreamWaitEvent(stream, done.get()), "cannot wait for the step before"));
  MOERT_RETURN_IF_ERROR(lanes->beginStepAfter(stream));
  isUnderWay = true;
  const Status issued = issueAll(issue);
  Status joined = lanes->joinTo(stream);
  if (joined.ok())
    joined = check(cudaEventRecord(done.get(), stream), "cannot record an event on the caller's stream");
  return issued.ok() ? joined : issued;
}

Status CallerDevice::runStep(const std::function<Status(int64_t)> &issue, double seconds) {
  if (Status earlier = earlierFailure(); !earlier.ok())
    return Status::error(earlier.code, "an earlier step failed: ", earlier.message);
  auto *stream = static_cast<cudaStream_t>(table.stream(table.context));
  MOERT_RETURN_IF_ERROR(checkReady(stream));
  timeout = seconds;
  return failure = enqueue(issue, stream);
}

/// Waits until the last step has ended or can no longer end.
Status CallerDevice::awaitEnd() {
  const Clock::time_point begin = Clock::now();
  while (true) {
    const cudaError_t error = cudaEventQuery(done.get());
    // Communicators are no longer asked: the caller may have aborted them, which also ends a step.
    if (error != cudaErrorNotReady)
      return check(error, "a step failed");
    // Clears the error that is none, so that the caller's next call does not find it.
    static_cast<void>(cudaGetLastError());
    MOERT_RETURN_IF_ERROR(transferFailure());
    if (timeout > 0 && std::chrono::duration<double>(Clock::now() - begin).count() > timeout) {
      std::string text = "rank " + std::to_string(rank) + ": the time-out of " + std::to_string(timeout) + " s passed";
      for (const Wait &wait : pendingWaits())
        text += "\n  rank " + std::to_string(rank) + " waits in " + wait.what;
      return Status::error(MOERT_ERROR_HANG, text);
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

Status CallerDevice::finishStep() {
  if (!failure.ok() || !isUnderWay)
    return failure;
  failure = awaitEnd();
  if (!failure.ok())
    return failure;
  isUnderWay = false;
  return failure = lanes->endStep();
}

/// The copy may still run on the default stream, which the step does not wait for.
Status CallerDevice::write(void *to, const void *from, int64_t bytes) {
  MOERT_RETURN_IF_ERROR(CudaDevice::write(to, from, bytes));
  return check(cudaStreamSynchronize(nullptr), "cannot wait for what was written");
}

} // namespace

Status createCaller(std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
                    const BackendOptions &options, Backend &backend) {
  const moert_cuda_caller &table = *options.cudaCaller;
  if (table.ranks != world || table.rank < 0 || table.rank >= world)
    return invalid("the plan has ", world, " ranks, but the caller has rank ", table.rank, " of ", table.ranks);
  if (options.emulate)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "only backend 'host' emulates links");
  MOERT_RETURN_IF_ERROR(noteMemoryAtFirst());
  auto lanes = std::make_unique<Lanes>();
  MOERT_RETURN_IF_ERROR(Lanes::create(programs, groups, {table.rank}, world, deviceOptions(options), *lanes));
  MOERT_RETURN_IF_ERROR(lanes->reserve());
  auto device = std::make_unique<CallerDevice>(programs, groups, table, std::move(lanes));
  MOERT_RETURN_IF_ERROR(device->connect());
  backend.communicator = std::make_unique<RankCommunicator>(*device, groups, options.verify);
  backend.device = std::move(device);
  return {};
}

} // namespace moert::cuda
