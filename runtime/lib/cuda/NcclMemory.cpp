//===- NcclMemory.cpp - memory that NCCL reads and writes in place --------===//

#include "cuda/NcclMemory.h"

namespace moert::cuda {

Status check(ncclResult_t result, const char *what, ncclComm_t comm) {
  if (result == ncclSuccess)
    return {};
  // Work that NCCL has not enqueued yet would run after later work of its stream.
  if (result == ncclInProgress)
    return Status::error(MOERT_ERROR_UNSUPPORTED, what,
                         " returned before its end; expected a blocking communicator (NCCL_COMM_BLOCKING=1; in PyTorch "
                         "TORCH_NCCL_USE_COMM_NONBLOCKING=0)");
  std::string last = ncclGetLastError(comm);
  return Status::error(MOERT_ERROR_INTERNAL, what, ": ", ncclGetErrorString(result),
                       (last.empty() ? "" : " (" + last + ")"), "; NCCL_DEBUG=INFO says more");
}

NcclMemory::~NcclMemory() {
  for (void *block : blocks)
    ncclMemFree(block);
}

void NcclMemory::deregister() {
  for (const Registration &registration : registrations)
    ncclCommDeregister(registration.comm, registration.handle);
  registrations.clear();
}

Status NcclMemory::release(void *data) {
  for (const Registration &registration : registrations)
    if (registration.data == data)
      MOERT_RETURN_IF_ERROR(
          check(ncclCommDeregister(registration.comm, registration.handle), "ncclCommDeregister", registration.comm));
  std::erase_if(registrations, [data](const Registration &registration) { return registration.data == data; });
  std::erase(blocks, data);
  return check(ncclMemFree(data), "ncclMemFree");
}

Status NcclMemory::allocateBlock(int64_t bytes, const std::string &what, const std::vector<ncclComm_t> &comms,
                                 bool isOwn, void *&data) {
  const std::string text = "cannot allocate " + std::to_string(bytes) + " bytes for " + what + " by ncclMemAlloc";
  MOERT_RETURN_IF_ERROR(check(ncclMemAlloc(&data, static_cast<size_t>(bytes)), text.c_str()));
  blocks.push_back(data);
  for (ncclComm_t comm : comms) {
    void *handle = nullptr;
    MOERT_RETURN_IF_ERROR(
        check(ncclCommRegister(comm, data, static_cast<size_t>(bytes), &handle), "ncclCommRegister", comm));
    // A null handle means that NCCL has no use for the registration.
    if (handle)
      registrations.push_back({comm, data, handle});
  }
  if (isOwn)
    return {};
  for (Peers *group : peers)
    MOERT_RETURN_IF_ERROR(group->add(data, bytes));
  return {};
}

Status NcclMemory::allocate(int64_t bytes, const std::string &what, const std::vector<ncclComm_t> &comms, void *&data,
                            bool isOwn) {
  constexpr int64_t kSmall = int64_t(1) << 20, kBlock = 8 * kSmall;
  bytes = (bytes + 255) / 256 * 256;
  if (bytes >= kSmall || isOwn)
    return allocateBlock(bytes, what, comms, isOwn, data);
  if (left < bytes) {
    left = 0;
    void *block = nullptr;
    MOERT_RETURN_IF_ERROR(allocateBlock(kBlock, what, comms, /*isOwn=*/false, block));
    free = static_cast<char *>(block);
    left = kBlock;
  }
  data = free;
  free += bytes;
  left -= bytes;
  return {};
}

} // namespace moert::cuda
