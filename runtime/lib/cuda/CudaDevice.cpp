//===- CudaDevice.cpp - one GPU's memory and streams ----------------------===//

#include "cuda/CudaDevice.h"

#include "host/HostMemory.h"

namespace moert::cuda {

Status CudaDevice::checkAvailable(int64_t bytes, const std::string &what) {
  size_t available = 0, total = 0;
  MOERT_RETURN_IF_ERROR(check(cudaMemGetInfo(&available, &total), "cannot ask for the device's memory"));
  if (bytes <= static_cast<int64_t>(available))
    return {};
  return Status::error(MOERT_ERROR_OUT_OF_MEMORY, what + " needs " + std::to_string(bytes) + " bytes (" +
                                                      host::byteText(bytes) + "), of which the GPU has " +
                                                      host::byteText(static_cast<int64_t>(available)) + " of " +
                                                      host::byteText(static_cast<int64_t>(total)) + " available");
}

Status CudaDevice::allocate(int64_t, int32_t space, int64_t bytes, const std::string &what, void *&data) {
  bytes = std::max<int64_t>(bytes, 1);
  if (space == MOERT_SPACE_HOST_PINNED) {
    MOERT_RETURN_IF_ERROR(allocatePinned(bytes, what, pinned.emplace_back()));
    data = pinned.back().get();
    return {};
  }
  MOERT_RETURN_IF_ERROR(allocateDevice(bytes, what, memory.emplace_back()));
  data = memory.back().get();
  return {};
}

Status CudaDevice::write(void *to, const void *from, int64_t bytes) {
  if (bytes <= 0)
    return {};
  return check(cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault), "cannot copy to the device");
}

Status CudaDevice::read(void *to, const void *from, int64_t bytes) {
  if (bytes <= 0)
    return {};
  return check(cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault), "cannot copy from the device");
}

} // namespace moert::cuda
