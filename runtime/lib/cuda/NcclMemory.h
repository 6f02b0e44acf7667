//===- NcclMemory.h - memory that NCCL reads and writes in place ----------===//
#ifndef MOERT_CUDA_NCCLMEMORY_H
#define MOERT_CUDA_NCCLMEMORY_H

#include "cuda/Peers.h"

#include <vector>

namespace moert::cuda {

/// Turns the result of NCCL's call `what` into an error.
Status check(ncclResult_t result, const char *what, ncclComm_t comm = nullptr);

/// Memory of a process that is registered with all its communicators. NCCL then needs no copies of its own, but all
/// members of a collective must register theirs ("User Buffer Registration", NCCL User Guide). Small values share
/// blocks, because NCCL takes at least 2 MiB.
class NcclMemory {
public:
  NcclMemory() = default;
  NcclMemory(const NcclMemory &) = delete;
  NcclMemory &operator=(const NcclMemory &) = delete;
  /// Frees the memory. The communicators must not use it any more.
  ~NcclMemory();

  /// Allocates memory aligned to 256 bytes, which this object owns. Unless `isOwn`, all members of the peers allocate
  /// as many bytes.
  Status allocate(int64_t bytes, const std::string &what, const std::vector<ncclComm_t> &comms, void *&data,
                  bool isOwn = false);
  /// Shares later memory with the peers, who live longer than its use.
  void shareWith(std::vector<Peers *> all) {
    peers = std::move(all);
    left = 0;
  }
  bool isShared() const { return !peers.empty(); }
  /// Frees a block of at least 1 MiB or of `isOwn`, which nothing uses any more.
  Status release(void *data);
  /// Takes the registrations back while the communicators exist.
  void deregister();

private:
  struct Registration {
    ncclComm_t comm;
    void *data, *handle;
  };
  Status allocateBlock(int64_t bytes, const std::string &what, const std::vector<ncclComm_t> &comms, bool isOwn,
                       void *&data);

  std::vector<void *> blocks;
  std::vector<Registration> registrations;
  std::vector<Peers *> peers;
  char *free = nullptr; ///< next free byte of the block of small values
  int64_t left = 0;     ///< bytes left in that block
};

} // namespace moert::cuda

#endif // MOERT_CUDA_NCCLMEMORY_H
