//===- ProcessPlace.h - which process of how many this is -----------------===//
#ifndef MOERT_CORE_PROCESSPLACE_H
#define MOERT_CORE_PROCESSPLACE_H

#include "core/View.h"

#include <cstdlib>
#include <functional>

namespace moert {

/// Whether a host is this machine alone: "localhost", "127.0.0.1".
bool isLoopback(const std::string &host);

/// The address at which process 0 listens.
struct Endpoint {
  /// Name of a local socket (an abstract Unix address), or empty. No other machine reaches it, and the system says
  /// which user is at its other end.
  std::string local;
  std::string host; ///< without a local socket: machine of process 0
  int port = 0;     ///< TCP port on that machine

  std::string text() const;
};

/// A process among those that a launcher started.
struct ProcessPlace {
  int64_t rank = 0;
  int64_t size = 1;
  int64_t localRank = 0; ///< index among the ranks of its machine
  int64_t localSize = 1;
  std::string source; ///< launcher that set the variables
  Endpoint endpoint;  ///< by readMeeting(): address of rank 0; a local socket if all ranks are on one machine
  std::string secret; ///< by readMeeting(): secret of the job; empty if there is none

  /// Whether another program on the network could take a rank's place.
  bool isOpen() const { return size > 1 && endpoint.local.empty() && secret.empty(); }
};

/// The value of an environment variable, or null.
using Environment = std::function<const char *(const char *)>;

/// Reads the place from the environment, from the first of these that is set: RANK, WORLD_SIZE, LOCAL_RANK (torchrun,
/// or set by hand); OMPI_COMM_WORLD_* (mpirun); PMI_* with MPI_LOCALNRANKS (mpiexec of MPICH); SLURM_* with
/// SLURM_STEP_ID (srun). Without them there is one process. Errors name the variable and the expected value.
Status readProcessPlace(const Environment &environment, ProcessPlace &place);

/// Reads where the processes of a place meet, if no library such as MPI connects them. MASTER_ADDR and MASTER_PORT hold
/// for all launchers. The secret is MOERT_SECRET, the content of the file MOERT_SECRET_FILE, or the key that Open MPI
/// makes for each job.
Status readMeeting(const Environment &environment, ProcessPlace &place);

/// Variables of this process.
inline const char *ownEnvironment(const char *name) { return std::getenv(name); }

/// Returns the first host of a SLURM node list: "node[001-004,7],other" -> "node001".
std::string firstHost(const std::string &nodes);

} // namespace moert

#endif // MOERT_CORE_PROCESSPLACE_H
