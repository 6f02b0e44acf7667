//===- Direct.cpp - one process a GPU and a rank --------------------------===//
//
// Launches calls as the program issues them. NCCL runs collectives over several ranks. A thread watches each step: if a
// process died, failed or takes too long, the thread aborts NCCL's communicators, so that no rank waits for ever.
//
// The second run of a step is captured as a CUDA graph if the host need not read values of the device. Later steps
// launch the graph.
//
//===----------------------------------------------------------------------===//

#include "core/ProcessPlace.h"
#include "cuda/Backends.h"
#include "cuda/RankDevice.h"
#include "net/Star.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <unistd.h>

namespace moert::cuda {
namespace {

using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Interval at which the thread checks a step.
constexpr std::chrono::milliseconds kLook(5);

using Seconds = std::chrono::duration<double>;
/// Time for which the start of NCCL, and a step with the end of its communicators, may go on after a failure.
constexpr Seconds kStuckStart(5), kStuckStep(30);

/// The time of a step, which tests make shorter.
Seconds stuckStep() {
  const char *given = std::getenv("MOERT_TEST_STUCK_STEP");
  return given ? Seconds(std::atof(given)) : kStuckStep;
}

/// Ends the process together with the others. The launcher would wait for a process that is left behind.
void endTogether(net::Star *star) {
  if (Status status = star->finish(); !status.ok()) {
    if (!star->isFailureKnown())
      std::cerr << "moert: error: rank " + std::to_string(star->index()) + " cannot end: " + status.message + "\n";
    std::cout.flush();
    std::fflush(nullptr);
    ::_exit(1);
  }
  delete star;
}

/// Makes CUDA load all kernels when it starts, unless the user chose otherwise. By default, each kernel is loaded
/// before its first launch, which may have to wait for all streams ("Lazy Loading", CUDA Programming Guide). This
/// deadlocks if a stream waits in a transfer for a rank that in turn waits for the launch.
void loadKernelsFirst() { ::setenv("CUDA_MODULE_LOADING", "EAGER", 0); }

/// Joins the processes that a launcher started, once.
Status joinProcesses(double timeout, ProcessPlace &place, std::shared_ptr<net::Star> &processes) {
  static std::shared_ptr<net::Star> only;
  static std::mutex mutex;
  MOERT_RETURN_IF_ERROR(readProcessPlace(ownEnvironment, place));
  MOERT_RETURN_IF_ERROR(readMeeting(ownEnvironment, place));
  std::lock_guard lock(mutex);
  if (place.size > 1 && !only) {
    loadKernelsFirst();
    std::unique_ptr<net::Star> star;
    net::Star::Options options;
    options.index = place.rank;
    options.count = place.size;
    options.place = place.endpoint;
    options.secret = place.secret;
    if (timeout > 0)
      options.timeout = timeout;
    options.patience = timeout;
    if (place.rank == 0 && place.isOpen())
      std::cerr << "moert: warning: ranks of several machines join at port " + std::to_string(place.endpoint.port) +
                       " without a secret, so that anyone who reaches the port can take the place of a rank; set "
                       "MOERT_SECRET or "
                       "MOERT_SECRET_FILE for all ranks\n";
    MOERT_RETURN_IF_ERROR(net::Star::join(options, net::Socket(), star));
    only = std::shared_ptr<net::Star>(star.release(), endTogether);
  }
  if (only)
    only->setPatience(timeout);
  processes = only;
  return {};
}

class DirectDevice final : public RankDevice, public Processes::Listener {
public:
  DirectDevice(std::span<const Program> programs, const std::vector<Group> &groups, int64_t rank,
               const BackendOptions &options, std::unique_ptr<Lanes> owned, std::shared_ptr<net::Star> processes);
  ~DirectDevice() override;

  Status connect(std::span<const Program> programs, const BackendOptions &options);

  Status runStep(const std::function<Status(int64_t)> &issue, double timeout) override;
  /// Turns graphs off: each step of a graph would do what the captured step did.
  void lookIntoSteps() override { cannotCapture = true; }
  Status deviceSeconds(double &seconds) override;
  int64_t graphSteps() const override { return replays; }

  void failed(const Status &) override { abort(); }
  Whereabouts whereabouts() override;

protected:
  Status allocateMemory(int64_t bytes, const std::string &what, void *&data) override;

private:
  Status connectRanks(std::span<const Program> programs, const BackendOptions &options);
  bool readsSizes(const Program &program) const;
  Status runEager(const std::function<Status(int64_t)> &issue);
  Status capture(const std::function<Status(int64_t)> &issue);
  Status captureTogether(const std::function<Status(int64_t)> &issue);
  Status replay() {
    MOERT_RETURN_IF_ERROR(lanes->beginStep());
    MOERT_RETURN_IF_ERROR(mark(stepBegin));
    MOERT_RETURN_IF_ERROR(
        check(cudaGraphLaunch(graph.get(), lanes->lanes()[0].context.stream), "cannot launch a step"));
    ++replays;
    MOERT_RETURN_IF_ERROR(mark(stepEnd));
    hasTime = true;
    MOERT_RETURN_IF_ERROR(drain());
    return lanes->takeFault();
  }
  Status drain() {
    for (Lane &lane : lanes->lanes())
      MOERT_RETURN_IF_ERROR(check(cudaStreamSynchronize(lane.context.stream), "the device failed"));
    return {};
  }
  /// Records one of the events that time a step, on the stream of the first lane.
  Status mark(const Event &event) {
    return check(cudaEventRecord(event.get(), lanes->lanes()[0].context.stream), "cannot record an event");
  }
  std::vector<Wait> waitsAtEnd();
  Status conclude(Status status);
  /// Begins to watch a step, or the start of NCCL.
  void beginWork(double seconds, bool connects);
  void endWork();
  void checkStuck();
  /// Makes CUDA use the rank's device on this thread. It would otherwise make a context on its first device.
  void useDevice() const { static_cast<void>(cudaSetDevice(lanes->device().device)); }
  void look();
  void abort();

  const bool wantsGraph;
  std::shared_ptr<net::Star> processes; ///< null if the rank is alone

  std::mutex mutex; ///< guards the members below, which other threads read
  bool inStep = false, isConnecting = false;
  net::Clock::time_point deadline = net::Clock::time_point::max();
  double timeout = 0;
  bool aborted = false, stopping = false;
  bool isAborting = false; ///< `aborter` has not ended
  net::Clock::time_point abortedAt;
  std::vector<Wait> abortedWaits;
  GraphExec graph; ///< belongs to the running step, if there is one
  std::condition_variable changed;
  std::thread looker, aborter;

  bool cannotCapture = false;
  int64_t steps = 0, replays = 0;

  Event stepBegin, stepEnd; ///< around the calls of a step
  bool hasTime = false;     ///< whether a step has recorded them
};

DirectDevice::DirectDevice(std::span<const Program> programs, const std::vector<Group> &groups, int64_t rank,
                           const BackendOptions &options, std::unique_ptr<Lanes> owned,
                           std::shared_ptr<net::Star> processes)
    : RankDevice(programs, groups, rank, std::move(owned)), wantsGraph(options.graphs),
      processes(std::move(processes)) {
  if (this->processes) {
    this->processes->listen(this);
    looker = std::thread([this] { look(); });
  }
}

DirectDevice::~DirectDevice() {
  if (!processes)
    return;
  processes->listen(nullptr);
  GraphExec last;
  {
    std::lock_guard lock(mutex);
    stopping = true;
    last = std::move(graph);
  }
  // The communicators end after the graph.
  last.reset();
  changed.notify_all();
  looker.join();
  if (aborter.joinable())
    aborter.join();
}

Status DirectDevice::connect(std::span<const Program> programs, const BackendOptions &options) {
  for (Event *event : {&stepBegin, &stepEnd})
    MOERT_RETURN_IF_ERROR(createEvent(true, *event));
  if (processes)
    MOERT_RETURN_IF_ERROR(connectRanks(programs, options));
  if (wantsGraph && !std::ranges::any_of(programs, [&](const Program &program) { return readsSizes(program); }))
    lanes->prepareForGraph();
  return {};
}

/// Whether the host must read the sizes of an exchange. No step of the plan becomes a graph then.
bool DirectDevice::readsSizes(const Program &program) const {
  return std::ranges::any_of(program.ops, [&](const Op &op) {
    if (op.group < 0 || groups[static_cast<size_t>(op.group)].size == 1)
      return false;
#if MOERT_HAS_NCCL
    if (op.name == kindName(Kind::AllToAllV))
      return !nccl->hasPeers(op.group);
#endif
    return op.name == kindName(Kind::BroadcastExperts) || op.name == kindName(Kind::ReduceExperts);
  });
}

Status DirectDevice::connectRanks([[maybe_unused]] std::span<const Program> programs,
                                  [[maybe_unused]] const BackendOptions &options) {
#if MOERT_HAS_NCCL
  Nccl::Uses uses{programs, groups, {}};
  if (options.listChannels)
    MOERT_RETURN_IF_ERROR(options.listChannels(uses.channels));
  beginWork(options.timeout, true);
  std::unique_ptr<Nccl> made;
  Status status = Nccl::create(uses, *lanes, *processes, made);
  endWork();
  Status failure = processes->failure();
  if (status.ok() && failure.ok()) {
    std::lock_guard lock(mutex);
    nccl = std::move(made);
  }
  return failure.ok() ? status : failure;
#else
  return Status::error(MOERT_ERROR_UNSUPPORTED, "backend 'cuda' is built without NCCL, which several ranks need");
#endif
}

/// Allocates memory of plans, in which collectives work directly.
Status DirectDevice::allocateMemory(int64_t bytes, const std::string &what, void *&data) {
#if MOERT_HAS_NCCL
  if (nccl)
    return nccl->allocate(bytes, what, data);
#endif
  return CudaDevice::allocateMemory(bytes, what, data);
}

// --- Steps ---------------------------------------------------------------------

Status DirectDevice::runEager(const std::function<Status(int64_t)> &issue) {
  MOERT_RETURN_IF_ERROR(lanes->beginStep());
  MOERT_RETURN_IF_ERROR(mark(stepBegin));
  Status status = issueAll(issue);
  for (Lane &lane : lanes->lanes())
    if (status.ok())
      status = follow(lanes->lanes()[0].context.stream, lane.context.stream);
  if (status.ok())
    status = mark(stepEnd);
  hasTime |= status.ok();
  Status drained = drain();
  Status ended = drained.ok() ? lanes->endStep() : drained;
  if (status.ok())
    status = ended;
#if MOERT_HAS_NCCL
  if (status.ok() && nccl)
    status = nccl->shareBuffers(*lanes);
#endif
  return status;
}

Status DirectDevice::deviceSeconds(double &seconds) {
  float milliseconds = 0;
  if (hasTime)
    MOERT_RETURN_IF_ERROR(
        check(cudaEventElapsedTime(&milliseconds, stepBegin.get(), stepEnd.get()), "cannot read the time of a step"));
  seconds = milliseconds / 1e3;
  return {};
}

/// Captures what the program issues as a graph that begins on the stream of the first lane. Makes no graph if a call
/// needs the host.
Status DirectDevice::capture(const std::function<Status(int64_t)> &issue) {
  // Tables of the step before, and the events around them, are not part of the graph.
  MOERT_RETURN_IF_ERROR(lanes->beginStep());
  cudaStream_t first = lanes->lanes()[0].context.stream;
  MOERT_RETURN_IF_ERROR(
      check(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal), "cannot capture a step"));
  lanes->setCapturing(true);
  Status status;
  for (Lane &lane : lanes->lanes())
    if (status.ok())
      status = follow(lane.context.stream, first);
  if (status.ok())
    status = issueAll(issue);
  Status joined = lanes->joinTo(first);
  lanes->setCapturing(false);
  Graph captured;
  Status ended = check(cudaStreamEndCapture(first, OutHandle(captured)), "cannot capture a step");
  if (status.ok())
    status = joined.ok() ? ended : joined;
  if (!status.ok())
    return status;
  return check(cudaGraphInstantiate(OutHandle(graph), captured.get(), 0), "cannot make a graph of a step");
}

/// Captures a graph on all processes that meet over NCCL, or on none. Process 0 reports the reason for none. An error
/// of the step itself is returned.
Status DirectDevice::captureTogether(const std::function<Status(int64_t)> &issue) {
  const Status captured = capture(issue);
  Status agreed = captured;
  if (processes) {
    // checkAgree puts the rank in front of the message again.
    const std::string me = "rank " + std::to_string(rank) + ": ";
    if (agreed.message.starts_with(me))
      agreed.message.erase(0, me.size());
    agreed = checkAgree(*processes, "", agreed);
    MOERT_RETURN_IF_ERROR(processes->failure());
  }
  cannotCapture = !agreed.ok();
  if (!cannotCapture)
    return {};
  graph.reset();
  for (const Status &status : {captured, agreed})
    if (!status.ok() && status.code != MOERT_ERROR_UNSUPPORTED)
      return status;
  if (rank == 0)
    std::cerr << "moert: note: the calls of a step are launched one by one, and not as a CUDA graph: " +
                     agreed.message + "\n";
  return {};
}

void DirectDevice::beginWork(double seconds, bool connects) {
  std::lock_guard lock(mutex);
  inStep = true;
  isConnecting = connects;
  timeout = seconds;
  deadline = seconds > 0 ? net::Clock::now() +
                               std::chrono::duration_cast<net::Clock::duration>(std::chrono::duration<double>(seconds))
                         : net::Clock::time_point::max();
}

/// Ends the work. After an abort, NCCL waits until the graph is gone.
void DirectDevice::endWork() {
  GraphExec useless;
  std::lock_guard lock(mutex);
  inStep = isConnecting = false;
  if (aborted)
    useless = std::move(graph);
}

Status DirectDevice::runStep(const std::function<Status(int64_t)> &issue, double seconds) {
  MOERT_RETURN_IF_ERROR(check(cudaSetDevice(lanes->device().device), "cannot use the device"));
  if (processes)
    MOERT_RETURN_IF_ERROR(processes->failure());
  beginWork(seconds, false);
  // The first step lets all workspaces grow to their final size, because memory cannot be allocated during a capture.
  bool mayCapture = wantsGraph && !lanes->isTimed && steps++ > 0 && !cannotCapture;
  Status status;
  if (mayCapture && !graph)
    status = captureTogether(issue);
  if (status.ok())
    status = mayCapture && !cannotCapture ? replay() : runEager(issue);
  endWork();
  return conclude(std::move(status));
}

/// Waits that the step was in. After an abort no wait remains.
std::vector<Wait> DirectDevice::waitsAtEnd() {
  {
    std::lock_guard lock(mutex);
    if (aborted)
      return abortedWaits;
  }
  return whereabouts().waits;
}

/// Ends a step on all processes if it failed on one.
Status DirectDevice::conclude(Status status) {
  if (!processes)
    return status;
  Status failure = processes->failure();
  if (!failure.ok()) {
    for (const Wait &wait : waitsAtEnd())
      if (failure.message.find(wait.what) == std::string::npos)
        failure.message += "\n  rank " + std::to_string(rank) + " waited in " + wait.what;
    return failure;
  }
  if (!status.ok())
    processes->fail(status);
  return status;
}

// --- Looking after steps ---------------------------------------------------------

void DirectDevice::look() {
  useDevice();
  std::unique_lock lock(mutex);
  while (!stopping || isAborting) {
    changed.wait_for(lock, kLook);
    checkStuck();
    if (!inStep || aborted)
      continue;
    bool late = net::Clock::now() > deadline;
    std::string reason = "rank " + std::to_string(rank) + ": the time-out of " + std::to_string(timeout) + " s passed";
    lock.unlock();
    Status failure;
#if MOERT_HAS_NCCL
    if (nccl)
      failure = nccl->failure();
#endif
    // All processes get the error in both cases.
    if (late)
      static_cast<void>(processes->explain(reason));
    else if (!failure.ok())
      processes->fail(failure);
    if (late || !failure.ok())
      abort();
    lock.lock();
  }
}

/// Ends the process if it is stuck after a failure. In its start NCCL waits without end for a rank that will not come,
/// and only the end of the process ends that wait. The same holds for a step that an abort does not end, and for an
/// abort that does not end.
void DirectDevice::checkStuck() {
  if (!aborted || (!inStep && !isAborting))
    return;
  if (net::Clock::now() < abortedAt + (isConnecting ? kStuckStart : stuckStep()))
    return;
  const char *why = isConnecting ? "NCCL cannot connect the ranks"
                    : inStep     ? "its step does not end after a failure"
                                 : "NCCL does not end its communicators after a failure";
  std::cerr << "moert: error: rank " + std::to_string(rank) + " ends, because " + why + ": " +
                   processes->failure().message + "\n";
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(1);
}

/// Ends all waits for other ranks. NCCL frees a communicator only after all graphs that captured it (ncclCommAbort of
/// 2.28 waits for them). A separate thread waits for that, so that the running step can leave its own wait and drop the
/// graph. A graph that does not run is dropped here.
void DirectDevice::abort() {
  std::vector<Wait> waits = whereabouts().waits;
  GraphExec useless;
  std::lock_guard lock(mutex);
  if (aborted || stopping)
    return;
  aborted = true;
  abortedAt = net::Clock::now();
  abortedWaits = std::move(waits);
  if (!inStep)
    useless = std::move(graph);
#if MOERT_HAS_NCCL
  if (!nccl)
    return;
  isAborting = true;
  aborter = std::thread([this] {
    useDevice();
    nccl->abort();
    std::lock_guard lock(mutex);
    isAborting = false;
  });
#endif
}

Whereabouts DirectDevice::whereabouts() {
  useDevice();
  const std::string me = "rank " + std::to_string(rank);
  Whereabouts result{false, pendingWaits(), isIssuing() ? me + ": its program issues its calls" : ""};
  std::lock_guard lock(mutex);
  result.inStep = inStep;
  if (isConnecting)
    result.running = me + ": NCCL connects the ranks";
  return result;
}

} // namespace

/// Error of two ranks on one device.
constexpr const char *kShareDevice =
    "use the same GPU, but each needs one of its own; let each process see all GPUs of its machine, or a GPU that no "
    "other process uses (srun --gpus-per-task=1), or run all ranks on one GPU by backend cuda-loopback";

/// Chooses the process's device and its UUID, and checks that the processes suit the plan. A launcher shows a process
/// all devices of its machine, or only some.
static Status chooseDevice(const ProcessPlace &place, int64_t world, int &device, std::string &uuid) {
  int devices = 0;
  MOERT_RETURN_IF_ERROR(check(cudaGetDeviceCount(&devices), "cannot use a CUDA device"));
  if (place.size != world)
    return invalid("the plan has ", world, " ranks, but there are ", place.size, " processes (by ", place.source,
                   "); start them by torchrun, srun or mpirun, or all ranks on one GPU by cuda-loopback");
  device = static_cast<int>(place.localRank % devices);
  cudaDeviceProp properties;
  MOERT_RETURN_IF_ERROR(check(cudaGetDeviceProperties(&properties, device), "cannot read the device's properties"));
  uuid.assign(properties.uuid.bytes, sizeof(properties.uuid.bytes));
  // Tests of NCCL on a machine with one GPU.
  if (std::getenv("MOERT_TEST_SHARE_GPU"))
    uuid += " of rank " + std::to_string(place.rank);
  return {};
}

/// Prepares the process's streams on its device.
static Status prepare(std::span<const Program> programs, const std::vector<Group> &groups, const ProcessPlace &place,
                      int device, const BackendOptions &options, std::unique_ptr<Lanes> &lanes) {
  MOERT_RETURN_IF_ERROR(check(cudaSetDevice(device), "cannot use the device"));
  MOERT_RETURN_IF_ERROR(noteMemoryAtFirst());
#if MOERT_HAS_NCCL
  if (place.size > 1)
    MOERT_RETURN_IF_ERROR(loadNccl());
#endif
  lanes = std::make_unique<Lanes>();
  MOERT_RETURN_IF_ERROR(Lanes::create(programs, groups, {place.rank}, place.size, deviceOptions(options), *lanes));
  return lanes->reserve();
}

Status createDirect(std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
                    const BackendOptions &options, Backend &backend) {
  if (options.emulate)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "only backend 'host' emulates links");
  useAllQueues();
  ProcessPlace place;
  std::shared_ptr<net::Star> processes;
  MOERT_RETURN_IF_ERROR(joinProcesses(options.timeout, place, processes));
  int gpu = 0;
  std::string uuid;
  Status ready = chooseDevice(place, world, gpu, uuid);
  if (processes)
    MOERT_RETURN_IF_ERROR(checkDistinct(*processes, uuid, kShareDevice));
  std::unique_ptr<Lanes> lanes;
  if (ready.ok())
    ready = prepare(programs, groups, place, gpu, options, lanes);
  // All processes wait here until all are ready. They would otherwise wait in NCCL for a process that has failed.
  if (processes)
    MOERT_RETURN_IF_ERROR(checkAgree(*processes, options.identity, ready));
  MOERT_RETURN_IF_ERROR(ready);
  auto device = std::make_unique<DirectDevice>(programs, groups, place.rank, options, std::move(lanes), processes);
  MOERT_RETURN_IF_ERROR(device->connect(programs, options));
  backend.processes = processes;
  backend.communicator = std::make_unique<RankCommunicator>(*device, groups, options.verify);
  backend.device = std::move(device);
  return {};
}

} // namespace moert::cuda
