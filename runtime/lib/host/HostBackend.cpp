//===- HostBackend.cpp - the host device and communicator, put together ---===//

#include "host/HostBackend.h"
#include "core/ExecutorCommunicator.h"
#include "core/Instrument.h"
#include "core/Module.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace moert::host {

Status HostDevice::checkAvailable(int64_t bytes, const std::string &what) {
  int64_t available = availableMemory();
  if (bytes <= available)
    return {};
  return Status::error(MOERT_ERROR_OUT_OF_MEMORY, what, " needs ", bytes, " bytes (", byteText(bytes),
                       "), of which this machine has ", byteText(available), " available");
}

Status HostDevice::allocate(int64_t, int32_t, int64_t bytes, const std::string &what, void *&data) {
  Block block;
  MOERT_RETURN_IF_ERROR(allocateBlock(bytes, what, block));
  data = block.get();
  blocks.push_back(std::move(block));
  return {};
}

Status HostDevice::write(void *to, const void *from, int64_t bytes) {
  // Values without elements may have no memory.
  if (bytes > 0)
    std::memcpy(to, from, static_cast<size_t>(bytes));
  return {};
}

void HostClient::beginThread() { initialiseThread(); }

Status HostClient::execute(const Executor::Place &, const Call &call) {
  if (instrument)
    instrument->begin(call);
  Status status = needsWideKernel(call) ? launchWideKernel(kernels, call) : launchKernel(kernels, call);
  const Call *ran = &call;
  if (instrument && status.ok())
    instrument->end({&ran, 1});
  return status;
}

/// Whether one thread moves the whole exchange, because dividing it would take longer. All members' calls give the same
/// answer.
bool HostClient::isPulledWhole(const Call &call) const {
  const int64_t size = groups[call.group].size;
  return std::max(sentOperand(call).bytes(), receivedOperand(call).bytes()) * size <= wholeBytes;
}

int HostClient::phases(const Call &call) const { return isPulledWhole(call) ? 0 : collectivePhases(call.kind); }

Status HostClient::pull(const Executor::Gathering &gathering, int64_t member, int phase) {
  Share share{gathering.calls, member};
  const Group &group = groups[share.mine().group];
  if (isPulledWhole(share.mine())) {
    Status status = pullWhole(gathering.calls, gathering.received, group, gathering.instance);
    if (instrument && status.ok())
      instrument->end(gathering.calls);
    return status;
  }
  Status status = pullCollective(share, phase, group, gathering.instance);
  gathering.received[member] += share.received;
  return status;
}

namespace {

/// Owns what the device and the communicator share. The communicator is destroyed first.
class OwningDevice final : public HostDevice {
public:
  OwningDevice(std::unique_ptr<HostClient> client, std::unique_ptr<Executor> executor)
      : HostDevice(*executor), client(std::move(client)), executor(std::move(executor)) {}

private:
  std::unique_ptr<HostClient> client;
  std::unique_ptr<Executor> executor;
};

/// Makes a backend with all ranks in this process.
Status create(const std::string &, std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
              const BackendOptions &options, Backend &backend) {
  std::vector<int64_t> all(world);
  std::iota(all.begin(), all.end(), 0);
  auto client = std::make_unique<HostClient>(groups, options);
  auto executor = std::make_unique<Executor>(
      programs, groups, world, std::move(all), *client,
      Executor::Options{options.workers, options.emulate, options.bind, options.times, options.issuesOnce});
  auto communicator = std::make_unique<ExecutorCommunicator>(*executor, groups, options.verify);
  backend = {nullptr, std::make_unique<OwningDevice>(std::move(client), std::move(executor)), std::move(communicator)};
  return {};
}

const BackendRegistration registration("host", create);

} // namespace

} // namespace moert::host
