//===- NcclMemory.h - memory that NCCL reads and writes in place ----------===//
#ifndef MOERT_CUDA_NCCLMEMORY_H
#define MOERT_CUDA_NCCLMEMORY_H

#include "cuda/Cuda.h"

#include <nccl.h>
#include <vector>

namespace moert::cuda {

/// What NCCL's call `what` returned, as an error.
Status check(ncclResult_t result, const char *what, ncclComm_t comm = nullptr);

/// Memory of a process that is registered with all its communicators. NCCL then needs no copies of its own, in which
/// case all members of a collective must have registered theirs ("User Buffer Registration", NCCL User Guide). It is
/// registered as buffers, not as symmetric windows, which would have to lie at one offset on all ranks: parts of a
/// value do not. Small values share blocks, because NCCL takes 2 MiB for the least.
class NcclMemory {
public:
  NcclMemory() = default;
  NcclMemory(const NcclMemory &) = delete;
  NcclMemory &operator=(const NcclMemory &) = delete;
  /// The communicators do not use it any more.
  ~NcclMemory();

  /// Aligned to 256; freed with this.
  Status allocate(int64_t bytes, const std::string &what, const std::vector<ncclComm_t> &comms, void *&data);
  /// The communicators forget it, as long as they are there.
  void deregister();

private:
  struct Registration {
    ncclComm_t comm;
    void *handle;
  };
  Status allocateBlock(int64_t bytes, const std::string &what, const std::vector<ncclComm_t> &comms, void *&data);

  std::vector<void *> blocks;
  std::vector<Registration> registrations;
  char *free = nullptr; ///< of the block of small values,
  int64_t left = 0;     ///< bytes of it
};

} // namespace moert::cuda

#endif // MOERT_CUDA_NCCLMEMORY_H
