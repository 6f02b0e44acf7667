//===- HostBackend.h - the host device and communicator -------------------===//
#ifndef MOERT_HOST_HOSTBACKEND_H
#define MOERT_HOST_HOSTBACKEND_H

#include "host/Collectives.h"
#include "host/HostDevice.h"
#include "host/Kernels.h"

namespace moert::host {

/// Whether an operand is bf16 or f16, which only casts compute with. launchWideKernel runs the kernel on f32 copies of
/// these operands.
bool needsWideKernel(const Call &call);
Status launchWideKernel(HostKernels &kernels, const Call &call);

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
