//===- Socket.h - a TCP connection ----------------------------------------===//
#ifndef MOERT_NET_SOCKET_H
#define MOERT_NET_SOCKET_H

#include "core/View.h"

#include <chrono>

namespace moert::net {

using Clock = std::chrono::steady_clock;

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

  /// Listens at `port` of all of this machine's addresses; 0: at any free one, which `port` becomes.
  static Status listen(int &port, Socket &socket);
  /// Accepts a connection that waits; the socket is empty where none does.
  Status accept(Socket &socket) const;
  /// Connects to `address`, trying again until `deadline` while nobody listens there.
  static Status connect(const std::string &address, int port, Clock::time_point deadline, Socket &socket);

  /// All of `data`, however often it takes.
  Status write(const void *data, size_t bytes, Clock::time_point deadline) const;
  /// What is there, at most `bytes`; `count` 0 where nothing is, -1 at the end of the connection.
  void read(void *data, size_t bytes, int64_t &count) const;

private:
  int descriptor = -1;
};

} // namespace moert::net

#endif // MOERT_NET_SOCKET_H
