//===- Loopback.cpp - all ranks of a plan on one GPU ----------------------===//
//
// Runs all ranks on one GPU, to check CUDA plans. As on the host, the executor brings the members of a collective
// together. The collective runs on the stream of its first member. This stream waits for the others' streams, and they
// wait for it.
//
//===----------------------------------------------------------------------===//

#include "core/ExecutorCommunicator.h"
#include "cuda/Backends.h"
#include "cuda/CudaDevice.h"
#include "cuda/LocalExchange.h"

#include <mutex>
#include <numeric>

namespace moert::cuda {
namespace {

class LoopbackClient final : public Executor::Client {
public:
  LoopbackClient(int64_t world, const std::vector<Group> &groups, Lanes &lanes)
      : groups(groups), lanes(lanes), signals(static_cast<size_t>(world)) {}

  void beginThread() override { static_cast<void>(cudaSetDevice(lanes.device().device)); }
  Status execute(const Executor::Place &place, const Call &call) override {
    return lanes.run(lanes.at(place.rank, place.stream), call);
  }
  int phases(const Call &) const override { return 0; }
  Status pull(const Executor::Gathering &gathering, int64_t member, int phase) override;
  Status record(const Executor::Place &place, int64_t signal) override {
    return recordEvent(eventOf(place.rank, signal), lanes.at(place.rank, place.stream).context.stream);
  }
  Status wait(const Executor::Place &place, int64_t signal) override {
    return awaitEvent(lanes.at(place.rank, place.stream).context.stream, eventOf(place.rank, signal));
  }
  int64_t rows(const Call &) const override { return -1; }
  Status readTimes(const Executor::Place &place, const Call &call, int64_t &times) override {
    HostCounts::Values values;
    MOERT_RETURN_IF_ERROR(lanes.at(place.rank, place.stream).context.readCounts(call.repetition.times, values));
    times = values->front();
    return {};
  }

private:
  Event &eventOf(int64_t rank, int64_t signal) {
    std::lock_guard lock(mutex);
    std::deque<Event> &events = signals[static_cast<size_t>(rank)];
    while (static_cast<int64_t>(events.size()) <= signal)
      events.emplace_back();
    return events[static_cast<size_t>(signal)];
  }

  const std::vector<Group> &groups;
  Lanes &lanes;
  std::mutex mutex;
  std::vector<std::deque<Event>> signals; ///< by rank, then by number
};

Status LoopbackClient::pull(const Executor::Gathering &gathering, int64_t, int) {
  std::vector<Lane *> on;
  for (size_t i = 0; i < gathering.places.size(); ++i)
    on.push_back(&lanes.at(gathering.places[i].rank, gathering.places[i].stream));
  cudaStream_t first = on[0]->context.stream;
  CallNames::Range named = lanes.range(*on[0], gathering.calls[0]->op);
  for (Lane *lane : on)
    MOERT_RETURN_IF_ERROR(follow(first, lane->context.stream));
  for (size_t i = 0; i < on.size(); ++i)
    MOERT_RETURN_IF_ERROR(lanes.begin(*on[i], *gathering.calls[i]));
  const Group &group = groups[static_cast<size_t>(gathering.calls[0]->group)];
  MOERT_RETURN_IF_ERROR(runLocally({lanes, on, gathering.calls, gathering.received, group, gathering.instance}));
  for (size_t i = 0; i < on.size(); ++i) {
    MOERT_RETURN_IF_ERROR(follow(on[i]->context.stream, first));
    MOERT_RETURN_IF_ERROR(lanes.end(*on[i], *gathering.calls[i], gathering.received[i]));
  }
  return {};
}

class LoopbackDevice final : public CudaDevice {
public:
  LoopbackDevice(std::span<const Program> programs, const std::vector<Group> &groups, std::vector<int64_t> ranks,
                 const BackendOptions &options, std::unique_ptr<Lanes> owned)
      : CudaDevice(std::move(owned), ranks), client(static_cast<int64_t>(ranks.size()), groups, *lanes),
        executor(programs, groups, static_cast<int64_t>(ranks.size()), ranks, client, {options.workers, false}) {}

  Status launch(int64_t rank, int64_t stream, const Call &call) override {
    executor.submit(rank, stream, call);
    return {};
  }
  Status record(int64_t rank, int64_t event, int64_t stream) override { return executor.record(rank, event, stream); }
  Status wait(int64_t rank, int64_t event, int64_t stream) override { return executor.wait(rank, event, stream); }
  Status runStep(const std::function<Status(int64_t)> &issue, double timeout) override;
  bool isStuck() const override { return executor.isStuck(); }

  LoopbackClient client;
  Executor executor;
};

Status LoopbackDevice::runStep(const std::function<Status(int64_t)> &issue, double timeout) {
  MOERT_RETURN_IF_ERROR(check(cudaSetDevice(lanes->device().device), "cannot use the device"));
  MOERT_RETURN_IF_ERROR(lanes->beginStep());
  Status status = executor.run(issue, timeout);
  // Launched kernels go on after a failed step. A fault that they found explains more than its consequences.
  Status done = check(cudaDeviceSynchronize(), "the device failed");
  Status fault = done.ok() ? lanes->endStep() : done;
  return fault.ok() ? status : fault;
}

} // namespace

Status createLoopback(std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
                      const BackendOptions &options, Backend &backend) {
  if (options.emulate)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "only backend 'host' emulates links");
  useAllQueues();
  std::vector<int64_t> ranks(static_cast<size_t>(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  MOERT_RETURN_IF_ERROR(noteMemoryAtFirst());
  auto lanes = std::make_unique<Lanes>();
  // Many streams share the device. Large workspaces for each of them would take most of its memory.
  DeviceOptions device = deviceOptions(options);
  device.productBytes = int64_t(4) << 20;
  MOERT_RETURN_IF_ERROR(Lanes::create(programs, groups, ranks, world, device, *lanes));
  auto made = std::make_unique<LoopbackDevice>(programs, groups, std::move(ranks), options, std::move(lanes));
  backend.communicator = std::make_unique<ExecutorCommunicator>(made->executor, groups, options.verify);
  backend.device = std::move(made);
  return {};
}

} // namespace moert::cuda
