//===- Bootstrap.h - which process of how many this is --------------------===//
#ifndef MOERT_NET_BOOTSTRAP_H
#define MOERT_NET_BOOTSTRAP_H

#include "core/View.h"

#include <functional>

namespace moert::net {

/// A process among those that a launcher started.
struct Place {
  int64_t rank = 0;
  int64_t size = 1;
  int64_t localRank = 0; ///< among those of its machine
  int64_t localSize = 1;
  std::string address; ///< of the machine of rank 0
  int port = 0;        ///< at which rank 0 listens
  std::string source;  ///< the launcher whose variables said so
};

/// The value of an environment variable, or null.
using Environment = std::function<const char *(const char *)>;

/// What the environment says, in this order: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (torchrun, or
/// set by hand); OMPI_COMM_WORLD_* (mpirun); SLURM_* (srun); else one process alone. MASTER_ADDR and MASTER_PORT hold
/// for all of them. Errors name the variable and what it should be.
Status readPlace(const Environment &environment, Place &place);

/// The first host of a SLURM node list, "node[001-004,7],other" -> "node001".
std::string firstHost(const std::string &nodes);

} // namespace moert::net

#endif // MOERT_NET_BOOTSTRAP_H
