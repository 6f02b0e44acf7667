//===- Socket.h - a connection between two processes ----------------------===//
#ifndef MOERT_NET_SOCKET_H
#define MOERT_NET_SOCKET_H

#include "core/ProcessPlace.h"

#include <chrono>

namespace moert::net {

using Clock = std::chrono::steady_clock;

/// The time `seconds` from now.
Clock::time_point after(double seconds);
/// What is left until `deadline`, for poll(2): at least 0, at most `most`.
int millisecondsUntil(Clock::time_point deadline, int most = 1 << 30);

/// Owns a descriptor that never blocks.
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

  /// Listens at `place`: at its local name, or at its port of this machine's loopback address where `place.host` is
  /// one, else of all addresses. Port 0: any free one, which `place.port` becomes.
  static Status listen(Endpoint &place, Socket &socket);
  /// Accepts a connection that waits; the socket is empty where none does. A process of another user is turned away
  /// from a local name.
  Status accept(Socket &socket) const;
  /// Connects to `place`, trying again until `deadline` while nobody listens there. The look-up of its host's name ends
  /// by then too.
  static Status connect(const Endpoint &place, Clock::time_point deadline, Socket &socket);

  /// What can be sent at once, at most `bytes`; `count` 0 where nothing can, -1 where the connection is broken.
  void send(const void *data, size_t bytes, int64_t &count) const;
  /// All of `data`, however often it takes.
  Status write(const void *data, size_t bytes, Clock::time_point deadline) const;
  /// What is there, at most `bytes`; `count` 0 where nothing is, -1 at the end of the connection.
  void read(void *data, size_t bytes, int64_t &count) const;

private:
  int descriptor = -1;
};

} // namespace moert::net

#endif // MOERT_NET_SOCKET_H
