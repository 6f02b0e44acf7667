//===- Door.h - how processes come to process 0 ---------------------------===//
//
// Connects the processes of a job, and refuses all others. A process that connects gets a challenge, and must identify
// itself within a few seconds. Process 0 reads all connections at once, so a silent one delays no other. It refuses
// connections that send something else, do not know the secret, or are not a missing rank.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_NET_DOOR_H
#define MOERT_NET_DOOR_H

#include "net/Handshake.h"

#include <map>

namespace moert::net {

struct JoinOptions {
  int64_t index = 0;
  int64_t count = 1;
  Endpoint place;       ///< address at which process 0 listens
  std::string secret;   ///< secret of the job, which all its processes know; may be empty
  double timeout = 120; ///< seconds until all must be connected
  double greeting = 5;  ///< seconds within which a new connection must identify itself
};

/// A process that connected, or to which this process connected.
struct Arrival {
  Socket socket;
  MessageReader reader;
  Nonces nonces;
  Clock::time_point deadline; ///< deadline of its hello
  std::string name;           ///< "process 4711 on host 'node1'"
};

/// Text of the error if a process's connection ended too early. Tells a process that died from one whose machine does
/// not answer any more.
std::string lostText(int64_t process, const Arrival &arrival);
/// Name of this process.
std::string ownName();

/// Accepts all other processes at process 0. `listener` already listens at `options.place`, or is empty. Sets
/// arrivals[i] for every other process i. The error names the rank that died, or the missing ranks and the refused
/// processes. All connected processes get the error.
Status admit(const JoinOptions &options, Socket listener, std::map<int64_t, Arrival> &arrivals);
/// Connects to process 0 and sets arrivals[0]. Returns when all processes are connected.
Status enter(const JoinOptions &options, std::map<int64_t, Arrival> &arrivals);

} // namespace moert::net

#endif // MOERT_NET_DOOR_H
