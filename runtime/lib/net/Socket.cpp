//===- Socket.cpp - a TCP connection --------------------------------------===//

#include "net/Socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace moert::net {
namespace {

Status failed(const std::string &what, int error) {
  return Status::error(MOERT_ERROR_INTERNAL, what + ": " + std::strerror(error));
}

void configure(int descriptor) {
  int on = 1;
  // Messages are short and somebody waits for them.
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // A machine that is gone sends no end.
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
}

int milliseconds(Clock::time_point deadline) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

/// Whether the descriptor can be written before `deadline`.
bool waitWritable(int descriptor, Clock::time_point deadline) {
  pollfd item{descriptor, POLLOUT, 0};
  int ready;
  while ((ready = ::poll(&item, 1, milliseconds(deadline))) < 0 && errno == EINTR)
    continue;
  return ready > 0;
}

int tryConnect(const addrinfo &place, Clock::time_point deadline, Socket &socket) {
  Socket made(::socket(place.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made)
    return errno;
  configure(made.get());
  if (::connect(made.get(), place.ai_addr, place.ai_addrlen) != 0) {
    if (errno != EINPROGRESS)
      return errno;
    if (!waitWritable(made.get(), deadline))
      return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error)
      return error;
  }
  socket = std::move(made);
  return 0;
}

} // namespace

Socket::~Socket() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status Socket::listen(int &port, Socket &socket) {
  Socket made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made)
    return failed("socket", errno);
  int on = 1;
  ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_ANY);
  place.sin_port = htons(static_cast<uint16_t>(port));
  auto *address = reinterpret_cast<sockaddr *>(&place);
  socklen_t size = sizeof place;
  if (::bind(made.get(), address, size) != 0 || ::listen(made.get(), SOMAXCONN) != 0)
    return failed("cannot listen at port " + std::to_string(port), errno);
  ::getsockname(made.get(), address, &size);
  port = ntohs(place.sin_port);
  configure(made.get());
  socket = std::move(made);
  return {};
}

Status Socket::accept(Socket &socket) const {
  Socket made(::accept4(descriptor, nullptr, nullptr, SOCK_CLOEXEC));
  if (!made && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ECONNABORTED)
    return failed("cannot accept a connection", errno);
  if (made)
    configure(made.get());
  socket = std::move(made);
  return {};
}

Status Socket::connect(const std::string &address, int port, Clock::time_point deadline, Socket &socket) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (int error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "unknown host '" + address + "': " + ::gai_strerror(error));
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> places(found, ::freeaddrinfo);
  int error;
  while ((error = tryConnect(*places, deadline, socket)) != 0 && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return error ? failed("cannot connect to " + address + ":" + std::to_string(port), error) : Status{};
}

Status Socket::write(const void *data, size_t bytes, Clock::time_point deadline) const {
  const char *next = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t count = ::send(descriptor, next, bytes, MSG_NOSIGNAL);
    if (count >= 0) {
      next += count;
      bytes -= static_cast<size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!waitWritable(descriptor, deadline))
        return failed("cannot send", ETIMEDOUT);
    } else if (errno != EINTR) {
      return failed("cannot send", errno);
    }
  }
  return {};
}

void Socket::read(void *data, size_t bytes, int64_t &count) const {
  ssize_t got = ::recv(descriptor, data, bytes, 0);
  if (got > 0)
    count = got;
  else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
    count = -1;
  else
    count = 0;
}

} // namespace moert::net
