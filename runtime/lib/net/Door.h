//===- Door.h - how processes come to process 0 ---------------------------===//
//
// Whoever connects gets a challenge and has a few seconds to say who it is. All are listened to at once, so that one
// who says nothing keeps nobody else waiting. Who says something else, does not know the secret, or is no rank that is
// missing is turned away; the others do not notice.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_NET_DOOR_H
#define MOERT_NET_DOOR_H

#include "net/Handshake.h"
#include "net/Socket.h"

#include <vector>

namespace moert::net {

struct JoinOptions {
  int64_t index = 0;
  int64_t count = 1;
  Endpoint place;       ///< where process 0 listens
  std::string secret;   ///< which all processes of the job know; may be empty
  double timeout = 120; ///< seconds for all to come
  double greeting = 5;  ///< seconds for one who connected to say who it is
};

/// One that is joined: at process 0 any other, elsewhere process 0.
struct Arrival {
  Socket socket;
  std::string name; ///< "process 4711 on host 'node1'"
  Nonces nonces;
  std::string rest; ///< what came behind the last message of the greeting
};

/// Who this process is.
std::string ownName();

/// Process 0 lets all others in. `listener` already listens at the place; empty: it will. arrivals[i] is process i, of
/// which 0 stays empty. The error names the ranks that did not come, and who was turned away; those that came hear it.
Status admit(const JoinOptions &options, Socket listener, std::vector<Arrival> &arrivals);
/// Another process joins process 0; returns when all have come.
Status enter(const JoinOptions &options, Arrival &first);

} // namespace moert::net

#endif // MOERT_NET_DOOR_H
