//===- HostDevice.cpp - the CPU as a device ------------------------------===//

#include "host/HostDevice.h"

#include <cstring>

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

Status HostDevice::read(void *to, const void *from, int64_t bytes) { return write(to, from, bytes); }

Status HostDevice::launch(int64_t rank, int64_t stream, const Call &call) {
  executor.submit(rank, stream, call);
  return {};
}

Status HostDevice::record(int64_t rank, int64_t event, int64_t stream) { return executor.record(rank, event, stream); }
Status HostDevice::wait(int64_t rank, int64_t event, int64_t stream) { return executor.wait(rank, event, stream); }

Status HostDevice::runStep(const std::function<Status(int64_t)> &issue, double timeout) {
  return executor.run(issue, timeout);
}

const std::vector<OpTime> &HostDevice::timeline(int64_t rank, int64_t stream) const {
  return executor.timeline(rank, stream);
}

} // namespace moert::host
