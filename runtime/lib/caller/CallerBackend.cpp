//===- CallerBackend.cpp - the host device, and a caller's communicator ---===//
//
// Runs one rank in this process. Kernels, streams and events are the host's. A collective over several ranks is a call
// of the caller's functions, which wait. So collectives run one after another, in the order in which the program issues
// them. All ranks of a program issue theirs in one order, so members do not wait for each other in a cycle.
//
//===----------------------------------------------------------------------===//

#include "caller/CallerCollective.h"
#include "core/ExecutorCommunicator.h"
#include "core/Module.h"
#include "host/HostBackend.h"

#include <algorithm>
#include <deque>

namespace moert::caller {
namespace {

class CallerClient final : public host::HostClient {
public:
  CallerClient(std::span<const Program> programs, const std::vector<Group> &groups, const moert_communicator &table)
      : HostClient(groups), table(table), groups(groups), program(programs[programIndex(programs, table.rank)]),
        collectives(this->table, groups), thread([this] { work(); }) {}
  /// Stops the thread after the running collective.
  void stop() {
    {
      std::lock_guard lock(mutex);
      isStopping = true;
    }
    changed.notify_all();
    thread.join();
  }
  /// Waits until no function of the caller runs any more.
  void settle() {
    std::unique_lock lock(mutex);
    turns.clear();
    changed.wait(lock, [this] { return !isRunning; });
  }

  bool isRemote(const Call &call) const override { return groups[static_cast<size_t>(call.group)].size > 1; }

  /// Notes that a collective is issued on a stream. Its turn comes after those issued before.
  void note(int64_t stream) {
    std::lock_guard lock(mutex);
    turns.push_back(stream);
  }
  void start(int64_t, int64_t stream, const Call &call) override {
    std::lock_guard lock(mutex);
    arrived[stream] = &call;
    changed.notify_all();
  }
  void skip(int64_t stream, const Call &) override {
    std::lock_guard lock(mutex);
    // Earlier collectives on the stream have had their turns.
    if (auto turn = std::find(turns.begin(), turns.end(), stream); turn != turns.end())
      turns.erase(turn);
    changed.notify_all();
  }
  Executor *executor = nullptr;

private:
  bool isReady() const { return !turns.empty() && arrived.count(turns.front()) > 0; }
  void work();
  void run(int64_t stream, const Call &call);

  const moert_communicator table;
  const std::vector<Group> &groups;
  const Program &program;
  CallerCollectives collectives;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<int64_t> turns;               ///< streams, in the order of their collectives
  std::map<int64_t, const Call *> arrived; ///< calls at the heads of streams
  bool isRunning = false;
  bool isStopping = false;
  std::thread thread;
};

void CallerClient::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return isStopping || isReady(); });
    if (isStopping)
      return;
    int64_t stream = turns.front();
    const Call &call = *arrived.extract(stream).mapped();
    turns.pop_front();
    isRunning = true;
    lock.unlock();
    run(stream, call);
    lock.lock();
    isRunning = false;
    changed.notify_all();
  }
}

void CallerClient::run(int64_t stream, const Call &call) {
  int64_t received = 0;
  Status status = collectives.run(call, received);
  if (status.ok())
    executor->complete(table.rank, stream, received);
  else
    executor->fail(
        Status::error(status.code, "rank ", table.rank, ", ", callName(program, call), ": ", status.message));
}

/// Notes each collective at the client in the order of the program.
class CallerCommunicator final : public ExecutorCommunicator {
public:
  CallerCommunicator(Executor &executor, CallerClient &client, const std::vector<Group> &groups, bool verify)
      : ExecutorCommunicator(executor, groups, verify), client(client) {}

private:
  void submit(int64_t rank, int64_t stream, const Call &call) override {
    if (client.isRemote(call))
      client.note(stream);
    ExecutorCommunicator::submit(rank, stream, call);
  }

  CallerClient &client;
};

class CallerDevice final : public host::HostDevice {
public:
  CallerDevice(std::unique_ptr<CallerClient> client, std::unique_ptr<Executor> executor)
      : HostDevice(*executor), client(std::move(client)), executor(std::move(executor)) {}

  ~CallerDevice() override { client->stop(); }

  Status checkKernel(Kind kind) const override {
    if (!isPointToPoint(kind))
      return {};
    return Status::error(MOERT_ERROR_UNSUPPORTED, "backend 'caller' runs no pipelines: it has no messages between two "
                                                  "ranks");
  }
  /// Runs a step unless one has failed: other ranks may have gone on, and collectives would no longer match.
  Status runStep(const std::function<Status(int64_t)> &issue, double timeout) override {
    if (!failure.ok())
      return Status::error(failure.code, "an earlier step failed: ", failure.message);
    failure = executor->run(issue, timeout);
    if (!failure.ok())
      client->settle();
    return failure;
  }

private:
  std::unique_ptr<CallerClient> client;
  std::unique_ptr<Executor> executor;
  Status failure;
};

Status create(const std::string &, std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
              const BackendOptions &options, Backend &backend) {
  const moert_communicator &table = *options.communicator;
  if (table.ranks != world || table.rank < 0 || table.rank >= world)
    return invalid("the plan has ", world, " ranks, but the communicator has rank ", table.rank, " of ", table.ranks);
  if (options.emulate)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "only backend 'host' emulates links");
  auto client = std::make_unique<CallerClient>(programs, groups, table);
  auto executor = std::make_unique<Executor>(programs, groups, world, std::vector<int64_t>{table.rank}, *client,
                                             Executor::Options{std::max<int64_t>(options.workers, 1), false});
  client->executor = executor.get();
  backend.communicator = std::make_unique<CallerCommunicator>(*executor, *client, groups, options.verify);
  backend.device = std::make_unique<CallerDevice>(std::move(client), std::move(executor));
  return {};
}

const BackendRegistration registration("caller", create);

} // namespace
} // namespace moert::caller
