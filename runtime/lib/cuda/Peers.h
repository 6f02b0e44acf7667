//===- Peers.h - memory of other devices, by NCCL's windows ---------------===//
#ifndef MOERT_CUDA_PEERS_H
#define MOERT_CUDA_PEERS_H

#include "cuda/NcclLibrary.h"
#include "cuda/PeerExchange.h"

#include <optional>
#include <vector>

namespace moert::cuda {

/// Members of a communicator whose memory this device reaches by loads and stores ("Device API", NCCL User Guide). All
/// members make the same calls in the same order.
class Peers {
public:
  /// Fails if NCCL is older than 2.28, or if the device does not reach all `size` members of `comm`.
  static Status create(ncclComm_t comm, int64_t size, int64_t member, std::unique_ptr<Peers> &peers);
  ~Peers();
  Peers(const Peers &) = delete;
  Peers &operator=(const Peers &) = delete;

  /// Makes a block of ncclMemAlloc's memory known to all members. Waits for the device. Members have blocks of one
  /// size.
  Status add(void *data, int64_t bytes);
  /// Takes `count` slots at `data`, which are zero on all members before an exchange begins. Does nothing if the memory
  /// is not known to all members.
  Status useSlots(PeerSlot *data, int64_t count);
  bool hasSlots() const { return slots; }
  /// Whether the other members can find the operands of an all_to_all_v.
  bool canReach(const Call &call) const;
  /// Enqueues an all_to_all_v whose operands can be reached. The members enqueue those of a slot in the same order.
  Status exchange(const Target &target, int64_t slot, const Call &call) const;
  /// Ends all waits for other members, from any thread.
  void abort();
  /// Forgets the windows of aborted communicators.
  void forget() { windows.clear(); }

private:
  struct Block {
    const char *data;
    int64_t bytes;
  };

  Peers(ncclComm_t comm, int64_t size, int64_t member) : comm(comm), size(size), member(member) {}
  std::optional<PeerPlace> find(const void *data) const;

  ncclComm_t comm;
  const int64_t size, member;
  std::vector<Block> blocks;
  std::vector<ncclWindow_t> windows;
  DeviceMemory bases;   ///< [kMostBlocks, size] addresses
  PinnedMemory aborted; ///< a uint32_t
  PeerSlot *slots = nullptr;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_PEERS_H
