//===- Socket.cpp - a connection between two processes --------------------===//

#include "net/Socket.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace moert::net {
namespace {

/// A machine that fails does not close its connections. The system sends a probe after kKeepAliveIdle seconds of
/// silence and then every kKeepAliveInterval seconds. It closes the connection after kKeepAliveCount unanswered probes.
constexpr int kKeepAliveIdle = 10, kKeepAliveInterval = 5, kKeepAliveCount = 3;

Status failed(const std::string &what, int error) {
  return Status::error(MOERT_ERROR_INTERNAL, what, ": ", std::strerror(error));
}

void setOption(int descriptor, int level, int name, int value) {
  ::setsockopt(descriptor, level, name, &value, sizeof value);
}

/// Sets options. A local socket ignores those of TCP.
void configure(int descriptor) {
  // Messages are short, and a process waits for each.
  setOption(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  setOption(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdle);
  setOption(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveInterval);
  setOption(descriptor, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveCount);
  // The system sends no probes while sent data is unconfirmed. Data that stays unconfirmed for this time also ends the
  // connection.
  setOption(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * (kKeepAliveIdle + kKeepAliveInterval * kKeepAliveCount));
  ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
}

/// An address of a socket.
struct Address {
  union {
    sockaddr any;
    sockaddr_in internet;
    sockaddr_un local;
  };
  socklen_t size = 0;

  Address() : local() {}
};

Address localAddress(const std::string &name) {
  Address address;
  address.local.sun_family = AF_UNIX;
  // A name that begins with a NUL byte is not a file, and vanishes with its socket.
  size_t length = std::min(name.size(), sizeof address.local.sun_path - 1);
  std::memcpy(address.local.sun_path + 1, name.data(), length);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

Address internetAddress(in_addr host, int port) {
  Address address;
  address.internet.sin_family = AF_INET;
  address.internet.sin_addr = host;
  address.internet.sin_port = htons(static_cast<uint16_t>(port));
  address.size = sizeof address.internet;
  return address;
}

/// Error of getaddrinfo, or 0 and the address.
using Found = std::pair<int, in_addr>;

Found lookUp(const std::string &host) {
  addrinfo hints{}, *places = nullptr;
  hints.ai_family = AF_INET;
  if (int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &places))
    return {error, {}};
  Found found(0, reinterpret_cast<const sockaddr_in *>(places->ai_addr)->sin_addr);
  ::freeaddrinfo(places);
  return found;
}

Status resolve(const std::string &host, Clock::time_point deadline, in_addr &address) {
  Found found(EAI_AGAIN, {});
  // The name of a machine that just started may not be known yet.
  while (found.first == EAI_AGAIN && Clock::now() < deadline) {
    // Looks up in a thread, because a look-up asks servers and has no deadline. A thread that takes too long is
    // abandoned.
    std::packaged_task<Found()> task([host] { return lookUp(host); });
    std::future<Found> answer = task.get_future();
    std::thread(std::move(task)).detach();
    if (answer.wait_until(deadline) == std::future_status::ready && (found = answer.get()).first == EAI_AGAIN)
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  address = found.second;
  return found.first == 0 ? Status{} : invalid("unknown host '", host, "': ", ::gai_strerror(found.first));
}

/// Whether the socket is local and connected to a process of another user.
bool isOfAnotherUser(int descriptor) {
  int domain = 0;
  socklen_t size = sizeof domain;
  ::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  ucred other{};
  size = sizeof other;
  return domain != AF_INET &&
         (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &other, &size) != 0 || other.uid != ::geteuid());
}

int tryConnect(const Address &address, Clock::time_point deadline, Socket &socket) {
  Socket made(::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made)
    return errno;
  configure(made.get());
  int error = ::connect(made.get(), &address.any, address.size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd item{made.get(), POLLOUT, 0};
    if (::poll(&item, 1, millisecondsUntil(deadline)) <= 0)
      return ETIMEDOUT;
    socklen_t size = sizeof error;
    ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (!error)
    socket = std::move(made);
  return error;
}

} // namespace

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

int millisecondsUntil(Clock::time_point deadline, int most) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, most));
}

Socket::~Socket() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status Socket::listen(Endpoint &place, Socket &socket) {
  bool isLocal = !place.local.empty();
  Socket made(::socket(isLocal ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made)
    return failed("socket", errno);
  setOption(made.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  Address address = isLocal
                        ? localAddress(place.local)
                        : internetAddress({htonl(isLoopback(place.host) ? INADDR_LOOPBACK : INADDR_ANY)}, place.port);
  if (::bind(made.get(), &address.any, address.size) != 0 || ::listen(made.get(), SOMAXCONN) != 0)
    return failed(isLocal ? "cannot listen at " + place.text() : "cannot listen at port " + std::to_string(place.port),
                  errno);
  if (!isLocal) {
    ::getsockname(made.get(), &address.any, &address.size);
    place.port = ntohs(address.internet.sin_port);
  }
  configure(made.get());
  socket = std::move(made);
  return {};
}

Status Socket::accept(Socket &socket) const {
  Socket made(::accept4(descriptor, nullptr, nullptr, SOCK_CLOEXEC));
  // Other errors concern one connection or are temporary. A lack of descriptors ends when connections reach their
  // deadlines.
  if (!made && (errno == EBADF || errno == EINVAL || errno == ENOTSOCK || errno == EOPNOTSUPP))
    return failed("cannot accept a connection", errno);
  if (made && isOfAnotherUser(made.get()))
    made = Socket();
  if (made)
    configure(made.get());
  socket = std::move(made);
  return {};
}

Status Socket::connect(const Endpoint &place, Clock::time_point deadline, Socket &socket) {
  Address address = localAddress(place.local);
  if (place.local.empty()) {
    in_addr host;
    MOERT_RETURN_IF_ERROR(resolve(place.host, deadline, host));
    address = internetAddress(host, place.port);
  }
  int error;
  while ((error = tryConnect(address, deadline, socket)) != 0 && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (error)
    return failed("cannot connect to " + place.text(), error);
  return invalidUnless(!isOfAnotherUser(socket.get()), "a process of another user listens at ", place.text());
}

int64_t Socket::send(const void *data, size_t bytes) const {
  ssize_t sent = ::send(descriptor, data, bytes, MSG_NOSIGNAL);
  return sent >= 0 ? sent : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

int64_t Socket::read(void *data, size_t bytes) const {
  ssize_t got = ::recv(descriptor, data, bytes, 0);
  if (got == 0)
    errno = 0;
  return got > 0 ? got : got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

} // namespace moert::net
