//===- Door.h - how processes come to process 0 ---------------------------===//
//
// Every job of several processes starts here, and keeps strangers out. A process that connects gets a challenge and has
// a few seconds to say who it is. Process 0 listens to all at once, so that a silent one keeps nobody waiting. It turns
// away connections that say something else, do not know the secret, or are not a missing rank; the others do not
// notice.
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
  double timeout = 120; ///< seconds for all to come
  double greeting = 5;  ///< seconds for a new connection to say who it is
};

/// A process that connected, or to which this process connected.
struct Arrival {
  Socket socket;
  MessageReader reader;
  Nonces nonces;
  Clock::time_point deadline; ///< deadline of its hello
  std::string name;           ///< "process 4711 on host 'node1'"
};

/// Text of the error if a process's connection closed too early.
std::string diedText(int64_t process, const Arrival &arrival);
/// Name of this process.
std::string ownName();

/// Lets all other processes in at process 0. `listener` already listens at the place, or is empty. Sets arrivals[i] for
/// every other process i. The error names the rank that died, or the ranks that did not come and the processes that
/// were turned away. All that came get the error.
Status admit(const JoinOptions &options, Socket listener, std::map<int64_t, Arrival> &arrivals);
/// Joins process 0 and sets arrivals[0]. Returns when all have come.
Status enter(const JoinOptions &options, std::map<int64_t, Arrival> &arrivals);

} // namespace moert::net

#endif // MOERT_NET_DOOR_H
