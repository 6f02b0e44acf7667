//===- Socket.h - a connection between two processes ----------------------===//
//
// Ranks on one machine connect through a local socket, where the system tells the user of the other process. Ranks on
// several machines connect through TCP.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_NET_SOCKET_H
#define MOERT_NET_SOCKET_H

#include "core/ProcessPlace.h"

#include <chrono>

namespace moert::net {

using Clock = std::chrono::steady_clock;

/// Returns the time `seconds` from now.
Clock::time_point after(double seconds);
/// Returns the time left until `deadline`, for poll(2): at least 0, at most `most`.
int millisecondsUntil(Clock::time_point deadline, int most = 1 << 30);

/// Owns a non-blocking descriptor.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~Socket();

  int get() const { return descriptor; }
  explicit operator bool() const { return descriptor >= 0; }

  /// Listens at the local name of `place`, or at its port: of the loopback address if `place.host` is one, otherwise of
  /// all addresses. Port 0 means any free port, and `place.port` is set to it.
  static Status listen(Endpoint &place, Socket &socket);
  /// Accepts a waiting connection; `socket` is empty if there is none. A local name refuses processes of other users.
  Status accept(Socket &socket) const;
  /// Connects to `place`. Tries again until `deadline` while nobody listens there. The look-up of the host's name has
  /// the same deadline.
  static Status connect(const Endpoint &place, Clock::time_point deadline, Socket &socket);

  /// Sends as many of `bytes` bytes as possible without waiting, and returns their number; -1 if the connection is
  /// broken.
  int64_t send(const void *data, size_t bytes) const;
  /// Reads at most `bytes` bytes without waiting, and returns their number; -1 at the end of the connection,
  /// with errno 0 if the other side closed it.
  int64_t read(void *data, size_t bytes) const;

private:
  int descriptor = -1;
};

} // namespace moert::net

#endif // MOERT_NET_SOCKET_H
