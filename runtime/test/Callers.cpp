//===- Callers.cpp - backend "caller" for all ranks in one process --------===//
//
// Backend "callers" of the tests: each rank has a backend "caller" of its own, and their functions exchange through
// this process's memory. So the suite of collectives runs on it (MOERT_TEST_BACKEND=callers).
//
//===----------------------------------------------------------------------===//

#include "core/Module.h"
#include "moert/world.h"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

namespace moert::test {
namespace {

/// Where the members of one group meet, again and again.
struct Meeting {
  /// By member: what it sends, and where the part for each member begins.
  std::vector<const char *> sends;
  std::vector<std::vector<int64_t>> begins;
  int64_t arrived = 0, left = 0;
};

class Memory {
public:
  /// Copies what each member has for this one, of bytes[member] bytes, to `receive`. Waits for all.
  void exchange(const moert_members &members, const void *send, std::vector<int64_t> begins, char *receive,
                const std::vector<int64_t> &bytes) {
    std::unique_lock lock(mutex);
    Meeting &meeting = meetings[std::vector<int64_t>(members.ranks, members.ranks + members.count)];
    changed.wait(lock, [&] { return meeting.left == 0; });
    meeting.sends.resize(static_cast<size_t>(members.count));
    meeting.begins.resize(static_cast<size_t>(members.count));
    meeting.sends[static_cast<size_t>(members.member)] = static_cast<const char *>(send);
    meeting.begins[static_cast<size_t>(members.member)] = std::move(begins);
    if (++meeting.arrived == members.count)
      meeting.left = members.count;
    changed.notify_all();
    changed.wait(lock, [&] { return meeting.left > 0; });
    for (size_t member = 0; member < bytes.size(); ++member) {
      if (bytes[member] > 0)
        std::memcpy(receive, meeting.sends[member] + meeting.begins[member][static_cast<size_t>(members.member)],
                    static_cast<size_t>(bytes[member]));
      receive += bytes[member];
    }
    if (--meeting.arrived == 0)
      meeting.left = 0;
    changed.notify_all();
    // What was sent may go only when all have it.
    changed.wait(lock, [&] { return meeting.left == 0 || meeting.arrived == 0; });
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::vector<int64_t>, Meeting> meetings;
};

int32_t allToAll(void *context, const moert_members *members, const void *send, const int64_t *sent, void *receive,
                 const int64_t *received) {
  std::vector<int64_t> begins(static_cast<size_t>(members->count));
  std::exclusive_scan(sent, sent + members->count, begins.begin(), int64_t(0));
  static_cast<Memory *>(context)->exchange(*members, send, begins, static_cast<char *>(receive),
                                           {received, received + members->count});
  return 0;
}

int32_t allGather(void *context, const moert_members *members, const void *send, int64_t bytes, void *receive) {
  auto count = static_cast<size_t>(members->count);
  static_cast<Memory *>(context)->exchange(*members, send, std::vector<int64_t>(count), static_cast<char *>(receive),
                                           std::vector<int64_t>(count, bytes));
  return 0;
}

class Callers final : public Device {
public:
  Status add(std::span<const Program> programs, const std::vector<Group> &groups, int64_t rank, int64_t world,
             BackendOptions options) {
    const moert_communicator table = {
        sizeof table, MOERT_COMMUNICATOR_VERSION, &memory, rank, world, allToAll, allGather, nullptr};
    options.communicator = &table;
    all.push_back(rank);
    return createBackend("caller", programs, groups, world, options, backends.emplace_back());
  }

  Status checkAvailable(int64_t bytes, const std::string &what) override {
    return of(0).device->checkAvailable(bytes, what);
  }
  Status allocate(int64_t rank, int32_t space, int64_t bytes, const std::string &what, void *&data) override {
    return of(rank).device->allocate(rank, space, bytes, what, data);
  }
  Status write(void *to, const void *from, int64_t bytes) override { return of(0).device->write(to, from, bytes); }
  Status read(void *to, const void *from, int64_t bytes) override { return of(0).device->read(to, from, bytes); }
  const std::vector<int64_t> &ranks() const override { return all; }
  Status launch(int64_t rank, int64_t stream, const Call &call) override {
    return of(rank).device->launch(rank, stream, call);
  }
  Status record(int64_t rank, int64_t event, int64_t stream) override {
    return of(rank).device->record(rank, event, stream);
  }
  Status wait(int64_t rank, int64_t event, int64_t stream) override {
    return of(rank).device->wait(rank, event, stream);
  }
  Status runStep(const std::function<Status(int64_t)> &issue, double timeout) override {
    std::vector<Status> results(backends.size());
    std::vector<std::thread> threads;
    for (int64_t rank : all)
      threads.emplace_back(
          [&, rank] { results[static_cast<size_t>(rank)] = of(rank).device->runStep(issue, timeout); });
    for (std::thread &thread : threads)
      thread.join();
    for (const Status &status : results)
      if (!status.ok())
        return status;
    return {};
  }
  const std::vector<OpTime> &timeline(int64_t rank, int64_t stream) const override {
    return backends[static_cast<size_t>(rank)].device->timeline(rank, stream);
  }

  Backend &of(int64_t rank) { return backends[static_cast<size_t>(rank)]; }

private:
  Memory memory;
  std::vector<int64_t> all;
  std::vector<Backend> backends;
};

class CallersCommunicator final : public Communicator {
public:
  explicit CallersCommunicator(Callers &callers) : callers(callers) {}
  Status issue(int64_t rank, int64_t stream, Call call) override {
    return callers.of(rank).communicator->issue(rank, stream, call);
  }

private:
  Callers &callers;
};

Status create(const std::string &, std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
              const BackendOptions &options, Backend &backend) {
  auto device = std::make_unique<Callers>();
  for (int64_t rank = 0; rank < world; ++rank)
    if (Status status = device->add(programs, groups, rank, world, options); !status.ok())
      return status;
  backend.communicator = std::make_unique<CallersCommunicator>(*device);
  backend.device = std::move(device);
  return {};
}

const BackendRegistration registration("callers", create);

} // namespace
} // namespace moert::test
