//===- HostDevice.h - the CPU as a device --------------------------------===//
#ifndef MOERT_HOST_HOSTDEVICE_H
#define MOERT_HOST_HOSTDEVICE_H

#include "core/Executor.h"
#include "host/HostMemory.h"

namespace moert::host {

/// Streams and events are the executor's; memory is malloc's.
class HostDevice : public Device {
public:
  explicit HostDevice(Executor &executor) : executor(executor) {}

  Status checkAvailable(int64_t bytes, const std::string &what) override;
  Status allocate(int64_t rank, int32_t space, int64_t bytes, const std::string &what, void *&data) override;
  Status write(void *to, const void *from, int64_t bytes) override;
  Status read(void *to, const void *from, int64_t bytes) override;
  const std::vector<int64_t> &ranks() const override { return executor.localRanks(); }
  Status launch(int64_t rank, int64_t stream, const Call &call) override;
  Status record(int64_t rank, int64_t event, int64_t stream) override;
  Status wait(int64_t rank, int64_t event, int64_t stream) override;
  Status runStep(const std::function<Status(int64_t)> &issue, double timeout) override;
  bool isStuck() const override { return executor.isStuck(); }
  const std::vector<OpTime> &timeline(int64_t rank, int64_t stream) const override;

private:
  Executor &executor;
  std::vector<Block> blocks;
};

} // namespace moert::host

#endif // MOERT_HOST_HOSTDEVICE_H
