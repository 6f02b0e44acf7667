//===- HostBackend.cpp - the host device and communicator, put together ---===//

#include "host/HostBackend.h"
#include "core/ExecutorCommunicator.h"
#include "core/Field.h"
#include "core/Module.h"
#include "host/Kernels.h"
#include "host/Perturb.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace moert::host {

void HostClient::beginThread() { initialiseThread(); }

/// Whether the call takes what is in an output's memory.
static bool takes(const Call &call, const View &out) {
  for (size_t i = 0; i < static_cast<size_t>(call.viewCount); ++i)
    if (const View &in = call.views[i]; in && !infoOf(call.kind).operands[i].isOutput)
      if (in.as<const char>() < out.as<const char>() + out.bytes() &&
          out.as<const char>() < in.as<const char>() + in.bytes())
        return true;
  return false;
}

/// Rows that a ragged call does not use keep what an earlier call left there: nobody is to take it for the call's.
static void forgetOutputs(const Call &call) {
  for (size_t i = 0; i < static_cast<size_t>(call.viewCount); ++i)
    if (const View &out = call.views[i];
        out && out.dtype == kFieldType && infoOf(call.kind).operands[i].isOutput && !takes(call, out))
      std::fill_n(out.as<Field>(), out.elements(), -std::numeric_limits<Field>::infinity());
}

Status HostClient::execute(const Executor::Place &, const Call &call) {
  if (observer.tell)
    forgetOutputs(call);
  Status status = needsWideKernel(call) ? launchWideKernel(kernels, call) : launchKernel(kernels, call);
  if (status.ok() && perturbation.ulps > 0)
    perturbOutputs(call, perturbation);
  const Call *ran = &call;
  if (status.ok())
    tell({&ran, 1});
  return status;
}

/// One thread does all of what is little, which dividing would delay, and of what is exact, where computing takes so
/// much longer. All members' calls say the same.
bool HostClient::isPulledWhole(const Call &call) const {
  const View &sent = sentOperand(call), &received = receivedOperand(call);
  const int64_t size = groups[static_cast<size_t>(call.group)].size;
  return sent.dtype == kFieldType || std::max(sent.bytes(), received.bytes()) * size <= wholeBytes;
}

int HostClient::phases(const Call &call) const { return isPulledWhole(call) ? 0 : collectivePhases(call.kind); }

Status HostClient::pull(const Executor::Gathering &gathering, int64_t member, int phase) {
  Share share{gathering.calls, member};
  const Group &group = groups[static_cast<size_t>(share.mine().group)];
  if (isPulledWhole(share.mine())) {
    Status status = pullWhole(gathering.calls, gathering.received, group, gathering.instance);
    if (status.ok())
      tell(gathering.calls);
    return status;
  }
  Status status = pullCollective(share, phase, group, gathering.instance);
  gathering.received[static_cast<size_t>(member)] += share.received;
  return status;
}

void HostClient::tell(std::span<const Call *const> calls) {
  if (!observer.tell)
    return;
  std::vector<moert_operand> operands;
  std::vector<moert_ran> told;
  auto isThere = [](const View &view) { return bool(view); };
  for (const Call *call : calls) {
    const auto count = std::count_if(call->views.begin(), call->views.begin() + call->viewCount, isThere);
    told.push_back({call->rank, call->op, count, nullptr});
    for (size_t i = 0; i < static_cast<size_t>(call->viewCount); ++i)
      if (const View &view = call->views[i])
        operands.push_back({view.data, view.bytes(), view.dtype, infoOf(call->kind).operands[i].isOutput});
  }
  size_t first = 0;
  for (moert_ran &one : told) {
    one.operands = operands.data() + first;
    first += static_cast<size_t>(one.operand_count);
  }
  std::lock_guard lock(telling);
  observer.tell(observer.context, told.data(), static_cast<int64_t>(told.size()));
}

namespace {

/// The device that owns what both halves of the backend share; the communicator is destroyed before it.
class OwningDevice final : public HostDevice {
public:
  OwningDevice(std::unique_ptr<HostClient> client, std::unique_ptr<Executor> executor)
      : HostDevice(*executor), client(std::move(client)), executor(std::move(executor)) {}

private:
  std::unique_ptr<HostClient> client;
  std::unique_ptr<Executor> executor;
};

/// All ranks in this process.
Status create(const std::string &, std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
              const BackendOptions &options, Backend &backend) {
  std::vector<int64_t> all(static_cast<size_t>(world));
  std::iota(all.begin(), all.end(), 0);
  auto client = std::make_unique<HostClient>(groups, options);
  auto executor = std::make_unique<Executor>(
      programs, groups, world, std::move(all), *client,
      Executor::Options{options.workers, options.emulate, options.bind, options.times, options.alike});
  auto communicator = std::make_unique<ExecutorCommunicator>(*executor, groups, options.verify);
  backend = {nullptr, std::make_unique<OwningDevice>(std::move(client), std::move(executor)), std::move(communicator)};
  return {};
}

const BackendRegistration registration("host", create);

} // namespace

} // namespace moert::host
