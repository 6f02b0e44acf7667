//===- Door.h - how processes come to process 0 ---------------------------===//
//
// Every job of several processes needs it to start, and to keep strangers out. Whoever connects gets a challenge and
// has a few seconds to say who it is. All are listened to at once, so that one who says nothing keeps nobody else
// waiting. Who says something else, does not know the secret, or is no rank that is missing is turned away; the others
// do not notice.
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
  Endpoint place;       ///< where process 0 listens
  std::string secret;   ///< which all processes of the job know; may be empty
  double timeout = 120; ///< seconds for all to come
  double greeting = 5;  ///< seconds for one who connected to say who it is
};

/// One who connected, or to whom this process connected.
struct Arrival {
  Socket socket;
  MessageReader reader;
  Nonces nonces;
  Clock::time_point deadline; ///< for its hello
  std::string name;           ///< "process 4711 on host 'node1'"
};

/// The error of a process whose connection closed too early.
std::string diedText(int64_t process, const Arrival &arrival);
/// Who this process is.
std::string ownName();

/// Process 0 lets all others in. `listener` already listens at the place; empty: it will. Sets arrivals[i] for every
/// other process i. The error names the rank that died, or the ranks that did not come and who was turned away; those
/// that came hear it.
Status admit(const JoinOptions &options, Socket listener, std::map<int64_t, Arrival> &arrivals);
/// Another process joins process 0, and sets arrivals[0]. It returns when all have come.
Status enter(const JoinOptions &options, std::map<int64_t, Arrival> &arrivals);

} // namespace moert::net

#endif // MOERT_NET_DOOR_H
