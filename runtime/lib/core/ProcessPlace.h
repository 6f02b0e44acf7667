//===- ProcessPlace.h - which process of how many this is -----------------===//
#ifndef MOERT_CORE_PROCESSPLACE_H
#define MOERT_CORE_PROCESSPLACE_H

#include "core/View.h"

#include <functional>

namespace moert {

/// Whether a host is this machine alone: "localhost", "127.0.0.1".
bool isLoopback(const std::string &host);

/// Where process 0 listens.
struct Endpoint {
  /// Not empty: the name of a local socket (an abstract Unix address). No other machine reaches it, and the system says
  /// which user is at its other end.
  std::string local;
  std::string host; ///< else the machine of process 0,
  int port = 0;     ///< and the TCP port there

  std::string text() const;
};

/// A process among those that a launcher started.
struct ProcessPlace {
  int64_t rank = 0;
  int64_t size = 1;
  int64_t localRank = 0; ///< among those of its machine
  int64_t localSize = 1;
  Endpoint endpoint;  ///< where rank 0 listens: a local socket where all ranks are on one machine
  std::string secret; ///< of the job; empty where nobody gave one
  std::string source; ///< the launcher whose variables said so

  /// Whether somebody on the network could take a rank's place.
  bool isOpen() const { return size > 1 && endpoint.local.empty() && secret.empty(); }
};

/// The value of an environment variable, or null.
using Environment = std::function<const char *(const char *)>;

/// What the environment says, in this order: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (torchrun, or
/// set by hand); OMPI_COMM_WORLD_* (mpirun); SLURM_* (srun); else one process alone. MASTER_ADDR and MASTER_PORT hold
/// for all of them. The secret is what MOERT_SECRET says, or the file that MOERT_SECRET_FILE names, or the key that
/// Open MPI makes for each job. Errors name the variable and what it should be.
Status readProcessPlace(const Environment &environment, ProcessPlace &place);

/// The first host of a SLURM node list, "node[001-004,7],other" -> "node001".
std::string firstHost(const std::string &nodes);

} // namespace moert

#endif // MOERT_CORE_PROCESSPLACE_H
