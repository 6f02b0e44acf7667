//===- Callers.cpp - backend "caller" for all ranks in one process --------===//
//
// Backend "callers" of the tests. Each rank has a backend "caller" of its own, and their functions exchange through
// this process's memory. The suite of collectives runs on it (MOERT_TEST_BACKEND=callers).
//
//===----------------------------------------------------------------------===//

#include "CallersMemory.h"
#include "core/Module.h"

#include <thread>

namespace moert::test {
namespace {

class Callers final : public Device {
public:
  Status add(std::span<const Program> programs, const std::vector<Group> &groups, int64_t rank, int64_t world,
             BackendOptions options) {
    const moert_communicator table = makeTable(memory, rank, world);
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
    MOERT_RETURN_IF_ERROR(device->add(programs, groups, rank, world, options));
  backend.communicator = std::make_unique<CallersCommunicator>(*device);
  backend.device = std::move(device);
  return {};
}

const BackendRegistration registration("callers", create);

} // namespace
} // namespace moert::test
