//===- HostBackend.h - the host device and communicator -------------------===//
#ifndef MOERT_HOST_HOSTBACKEND_H
#define MOERT_HOST_HOSTBACKEND_H

#include "core/Executor.h"
#include "host/Collectives.h"
#include "host/HostMemory.h"
#include "host/Kernels.h"

namespace moert::host {

/// Whether an operand is bf16 or f16, which only casts compute with. launchWideKernel runs the kernel on f32 copies of
/// these operands.
bool needsWideKernel(const Call &call);
Status launchWideKernel(HostKernels &kernels, const Call &call);

/// Streams and events are the executor's; memory is malloc's.
class HostDevice : public Device {
public:
  explicit HostDevice(Executor &executor) : executor(executor) {}

  Status checkAvailable(int64_t bytes, const std::string &what) override;
  Status allocate(int64_t rank, int32_t space, int64_t bytes, const std::string &what, void *&data) override;
  Status write(void *to, const void *from, int64_t bytes) override;
  Status read(void *to, const void *from, int64_t bytes) override { return write(to, from, bytes); }
  const std::vector<int64_t> &ranks() const override { return executor.localRanks(); }
  Status launch(int64_t rank, int64_t stream, const Call &call) override {
    executor.submit(rank, stream, call);
    return {};
  }
  Status record(int64_t rank, int64_t event, int64_t stream) override { return executor.record(rank, event, stream); }
  Status wait(int64_t rank, int64_t event, int64_t stream) override { return executor.wait(rank, event, stream); }
  Status runStep(const std::function<Status(int64_t)> &issue, double timeout) override {
    return executor.run(issue, timeout);
  }
  bool isStuck() const override { return executor.isStuck(); }
  const std::vector<OpTime> &timeline(int64_t rank, int64_t stream) const override {
    return executor.timeline(rank, stream);
  }

private:
  Executor &executor;
  std::vector<Block> blocks;
};

/// Runs calls for the executor.
class HostClient : public Executor::Client {
public:
  explicit HostClient(const std::vector<Group> &groups, const BackendOptions &options = {})
      : groups(groups), instrument(options.instrument), wholeBytes(options.wholeBytes) {}

  void beginThread() override;
  Status execute(const Executor::Place &place, const Call &call) override;
  int phases(const Call &call) const override;
  Status pull(const Executor::Gathering &gathering, int64_t member, int phase) override;

private:
  bool isPulledWhole(const Call &call) const;

  const std::vector<Group> &groups;
  Instrument *const instrument;
  const int64_t wholeBytes;
  HostKernels kernels;
};

} // namespace moert::host

#endif // MOERT_HOST_HOSTBACKEND_H
