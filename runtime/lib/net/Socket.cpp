//===- Socket.cpp - a connection between two processes --------------------===//

#include "net/Socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <memory>
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

/// A machine that is gone sends no end of a connection. The system asks it after so many seconds without a word, so
/// many seconds apart and so often, before it closes the connection.
constexpr int kKeepAliveIdle = 10, kKeepAliveInterval = 5, kKeepAliveCount = 3;

Status failed(const std::string &what, int error) {
  return Status::error(MOERT_ERROR_INTERNAL, what + ": " + std::strerror(error));
}

void setOption(int descriptor, int level, int name, int value) {
  ::setsockopt(descriptor, level, name, &value, sizeof value);
}

/// A local socket ignores the options of TCP.
void configure(int descriptor) {
  // Messages are short and somebody waits for them.
  setOption(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  setOption(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdle);
  setOption(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveInterval);
  setOption(descriptor, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveCount);
  // While something is on its way nobody is asked; what is not confirmed for as long ends the connection too.
  setOption(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * (kKeepAliveIdle + kKeepAliveInterval * kKeepAliveCount));
  ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
}

/// Whether the descriptor can be written before `deadline`.
bool waitWritable(int descriptor, Clock::time_point deadline) {
  pollfd item{descriptor, POLLOUT, 0};
  int ready;
  while ((ready = ::poll(&item, 1, millisecondsUntil(deadline))) < 0 && errno == EINTR)
    continue;
  return ready > 0;
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
  // A name that begins with a zero is in no folder and vanishes with its socket.
  size_t length = std::min(name.size(), sizeof address.local.sun_path - 1);
  std::memcpy(address.local.sun_path + 1, name.data(), length);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

Address internetAddress(uint32_t host, int port) {
  Address address;
  address.internet.sin_family = AF_INET;
  address.internet.sin_addr.s_addr = host;
  address.internet.sin_port = htons(static_cast<uint16_t>(port));
  address.size = sizeof address.internet;
  return address;
}

/// The look-up asks servers and knows no deadline: a thread of its own makes it, which is left behind where it takes
/// too long. `error` is one of getaddrinfo's.
void lookUp(const std::string &host, Clock::time_point deadline, uint32_t &found, int &error) {
  using Answer = std::pair<int, uint32_t>;
  auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> answer = promise->get_future();
  std::thread([host, promise] {
    addrinfo hints{}, *places = nullptr;
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &places);
    uint32_t found = error ? 0 : reinterpret_cast<const sockaddr_in *>(places->ai_addr)->sin_addr.s_addr;
    if (!error)
      ::freeaddrinfo(places);
    promise->set_value({error, found});
  }).detach();
  error = EAI_AGAIN;
  if (answer.wait_until(deadline) == std::future_status::ready)
    std::tie(error, found) = answer.get();
}

Status resolve(const std::string &host, Clock::time_point deadline, uint32_t &found) {
  in_addr address;
  if (::inet_pton(AF_INET, host.c_str(), &address) == 1) {
    found = address.s_addr;
    return {};
  }
  int error;
  // The name of a machine that just started may not be known yet.
  while (lookUp(host, deadline, found, error), error == EAI_AGAIN && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  if (error == 0)
    return {};
  return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "unknown host '" + host + "': " + ::gai_strerror(error));
}

/// Whether the process at the other end of a local socket is of this user.
bool isOwnUser(int descriptor) {
  ucred other{};
  socklen_t size = sizeof other;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == ::geteuid();
}

bool isLocal(int descriptor) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

int tryConnect(const Address &address, Clock::time_point deadline, Socket &socket) {
  Socket made(::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made)
    return errno;
  configure(made.get());
  if (::connect(made.get(), &address.any, address.size) != 0) {
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
  Address address = isLocal ? localAddress(place.local)
                            : internetAddress(htonl(isLoopback(place.host) ? INADDR_LOOPBACK : INADDR_ANY), place.port);
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
  // All else concerns one connection, or passes: where there are too many descriptors, some of them have a deadline.
  if (!made && (errno == EBADF || errno == EINVAL || errno == ENOTSOCK || errno == EOPNOTSUPP))
    return failed("cannot accept a connection", errno);
  if (made && isLocal(made.get()) && !isOwnUser(made.get()))
    made = Socket();
  if (made)
    configure(made.get());
  socket = std::move(made);
  return {};
}

Status Socket::connect(const Endpoint &place, Clock::time_point deadline, Socket &socket) {
  Address address = localAddress(place.local);
  if (uint32_t host = 0; place.local.empty()) {
    if (Status status = resolve(place.host, deadline, host); !status.ok())
      return status;
    address = internetAddress(host, place.port);
  }
  int error;
  while ((error = tryConnect(address, deadline, socket)) != 0 && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (error)
    return failed("cannot connect to " + place.text(), error);
  if (place.local.empty() || isOwnUser(socket.get()))
    return {};
  return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "a process of another user listens at " + place.text());
}

void Socket::send(const void *data, size_t bytes, int64_t &count) const {
  ssize_t sent = ::send(descriptor, data, bytes, MSG_NOSIGNAL);
  count = sent >= 0 ? sent : errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

Status Socket::write(const void *data, size_t bytes, Clock::time_point deadline) const {
  const char *next = static_cast<const char *>(data);
  while (bytes > 0) {
    int64_t count;
    send(next, bytes, count);
    if (count < 0)
      return failed("cannot send", errno);
    if (count == 0 && !waitWritable(descriptor, deadline))
      return failed("cannot send", ETIMEDOUT);
    next += count;
    bytes -= static_cast<size_t>(count);
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
