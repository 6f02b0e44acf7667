//===- PeerExchange.h - exchanges by stores into other devices' memory ----===//
//
// An all_to_all_v whose kernels write rows straight into the memory of other members, which the device reaches over
// NVLink. Kernels read the counts of all members, so that the host needs none, and the exchange can be part of a graph.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_PEEREXCHANGE_H
#define MOERT_CUDA_PEEREXCHANGE_H

#include "core/Call.h"
#include "cuda/Context.h"

namespace moert::cuda {

/// Members of a group that exchange so at most: the devices of the largest domain of NVLink.
inline constexpr int64_t kMostPeers = 72;

/// A place in the memory of each member: a block that all members have allocated alike, and bytes from its begin.
struct PeerPlace {
  int64_t block, offset;
};

/// Places that a member tells the others, and signals that it gets from them. The slots of all members are at one
/// place.
struct PeerSlot {
  PeerPlace out, blockCounts, expertCounts; ///< operands of this member
  uint32_t ready[kMostPeers];               ///< 1: that member's operands may be read and written
  uint32_t done[kMostPeers];                ///< 1: that member has written its rows
};

/// The memory of a group's members as a kernel of one of them sees it.
struct PeerMemory {
  char *const *bases; ///< [blocks, size]: first byte of a block of a member
  int64_t size, member;
  PeerPlace slot;
  PeerSlot *own; ///< the slot of this member
  /// In the host's memory. 1: another member is gone, and nobody waits any more.
  const volatile uint32_t *aborted;
};

/// Enqueues all_to_all_v `call`. The members enqueue the exchanges of a slot in the same order. `places` are those of
/// the call's operands in this member's memory.
Status exchangeWithPeers(const Target &target, const Call &call, const PeerMemory &memory, const PeerSlot &places);

} // namespace moert::cuda

#endif // MOERT_CUDA_PEEREXCHANGE_H
