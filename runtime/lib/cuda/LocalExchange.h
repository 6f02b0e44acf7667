//===- LocalExchange.h - collectives of members on one device -------------===//
#ifndef MOERT_CUDA_LOCALEXCHANGE_H
#define MOERT_CUDA_LOCALEXCHANGE_H

#include "core/Exchange.h"
#include "core/Metadata.h"
#include "cuda/Lanes.h"

namespace moert::cuda {

/// Members of a collective whose memory is all on this device.
struct LocalMembers {
  Lanes &lanes;
  std::span<Lane *const> on; ///< lanes of the members. The first one runs the collective
  std::span<const Call *const> calls;
  std::span<int64_t> received; ///< bytes that each member receives
  const Group &group;
  int64_t instance;
};

/// Enqueues the collective. Waits for the lane if the host must read counts or compare replicas.
Status runLocally(const LocalMembers &members);

} // namespace moert::cuda

#endif // MOERT_CUDA_LOCALEXCHANGE_H
