//===- Star.cpp - processes joined through process 0 ----------------------===//

#include "net/Star.h"
#include "net/Stall.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace moert::net {
namespace {

constexpr uint32_t kMagic = 0x6d6f6572;
constexpr auto kWriteLimit = std::chrono::seconds(30);
constexpr int kTickMs = 200;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string ownName() {
  char host[256] = "?";
  ::gethostname(host, sizeof host - 1);
  return "process " + std::to_string(::getpid()) + " on host '" + host + "'";
}

/// Waits until `descriptor` can be read; false after `deadline`.
bool waitReadable(int descriptor, Clock::time_point deadline) {
  pollfd item{descriptor, POLLIN, 0};
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return ::poll(&item, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1000))) > 0;
}

} // namespace

Star::Star(const Options &options) : options(options), peers(static_cast<size_t>(options.count)) {}

std::string Star::encoded(const Status &status) { return std::to_string(status.code) + " " + status.message; }

Status Star::decoded(const std::string &text) {
  size_t space = text.find(' ');
  int32_t code = space == std::string::npos ? 0 : std::atoi(text.c_str());
  return Status::error(code ? code : int32_t(MOERT_ERROR_INTERNAL), text.substr(space + 1));
}

// --- Joining -------------------------------------------------------------------

Status Star::join(const Options &options, Socket listener, std::unique_ptr<Star> &star) {
  std::unique_ptr<Star> made(new Star(options));
  if (options.count > 1)
    if (Status status = made->isHub() ? made->gather(std::move(listener)) : made->enter(); !status.ok())
      return status;
  if (::pipe2(made->wake, O_CLOEXEC | O_NONBLOCK) != 0)
    return Status::error(MOERT_ERROR_INTERNAL, std::string("pipe: ") + std::strerror(errno));
  made->watcher = std::thread([raw = made.get()] { raw->watch(); });
  star = std::move(made);
  return {};
}

Status Star::gather(Socket socket) {
  Clock::time_point deadline = after(options.timeout);
  int port = options.port;
  if (!socket)
    if (Status status = Socket::listen(port, socket); !status.ok())
      return status;
  auto missing = [this] {
    std::vector<int64_t> ranks;
    for (int64_t i = 1; i < options.count; ++i)
      if (!peerOf(i))
        ranks.push_back(i);
    return ranks;
  };
  std::string refusal;
  while (refusal.empty() && !missing().empty()) {
    if (Clock::now() > deadline)
      refusal = "rank 0 waited " + std::to_string(static_cast<int64_t>(options.timeout)) + " s at port " +
                std::to_string(port) + " for ranks " + ranksText(missing()) + ", which did not come";
    Socket made;
    if (!waitReadable(socket.get(), deadline))
      continue;
    if (Status status = socket.accept(made); !status.ok())
      return status;
    if (made)
      if (Status status = greet(std::move(made), deadline, refusal); !status.ok())
        return status;
  }
  if (refusal.empty()) {
    tell({Type::Welcome, 0, ownName()});
    return {};
  }
  Status status = Status::error(MOERT_ERROR_INVALID_ARGUMENT, refusal);
  tell({Type::Failed, 0, encoded(status)});
  return status;
}

/// Whoever connects says who it is. A stranger is not answered.
Status Star::greet(Socket socket, Clock::time_point deadline, std::string &refusal) {
  auto peer = std::make_unique<Peer>();
  peer->socket = std::move(socket);
  Message hello;
  if (!readOne(*peer, std::min(deadline, after(5)), hello).ok() || hello.type != Type::Hello)
    return {};
  // "count name"
  size_t space = hello.text.find(' ');
  if (space == std::string::npos)
    return {};
  int64_t count = std::atoll(hello.text.c_str());
  peer->name = hello.text.substr(space + 1);
  std::string who = "rank " + std::to_string(hello.process) + " (" + peer->name + ")";
  if (count != options.count || hello.process < 1 || hello.process >= options.count)
    refusal = who + " expects " + std::to_string(count) + " processes, rank 0 " + std::to_string(options.count);
  else if (peerOf(hello.process))
    refusal = who + " came, but " + peerOf(hello.process)->name + " is that rank";
  if (refusal.empty())
    peers[static_cast<size_t>(hello.process)] = std::move(peer);
  else
    (void)write(*peer, {Type::Failed, 0, encoded(Status::error(MOERT_ERROR_INVALID_ARGUMENT, refusal))});
  return {};
}

Status Star::enter() {
  Clock::time_point deadline = after(options.timeout);
  auto peer = std::make_unique<Peer>();
  if (Status status = Socket::connect(options.address, options.port, deadline, peer->socket); !status.ok())
    return Status::error(status.code,
                         "rank " + std::to_string(options.index) + " does not reach rank 0: " + status.message);
  peers[0] = std::move(peer);
  Message hello{Type::Hello, options.index, std::to_string(options.count) + " " + ownName()};
  if (Status status = write(0, hello); !status.ok())
    return status;
  Message answer;
  if (Status status = readOne(*peers[0], after(options.timeout + 5), answer); !status.ok())
    return Status::error(status.code,
                         "rank 0 did not let rank " + std::to_string(options.index) + " in: " + status.message);
  if (answer.type == Type::Failed)
    return decoded(answer.text);
  peers[0]->name = answer.text;
  return {};
}

Status Star::readOne(Peer &peer, Clock::time_point deadline, Message &message) {
  bool broken = false;
  while (!takeMessage(peer.received, message, broken)) {
    if (broken || Clock::now() > deadline)
      return Status::error(MOERT_ERROR_INTERNAL, broken ? "it sent something else" : "it says nothing");
    if (!waitReadable(peer.socket.get(), deadline))
      continue;
    char buffer[4096];
    int64_t count;
    peer.socket.read(buffer, sizeof buffer, count);
    if (count < 0)
      return Status::error(MOERT_ERROR_INTERNAL, "the connection closed");
    peer.received.append(buffer, static_cast<size_t>(count));
  }
  return {};
}

/// The first message of what was received, if all of it is there.
bool Star::takeMessage(std::string &received, Message &message, bool &broken) {
  Header header;
  if (received.size() < sizeof header)
    return false;
  std::memcpy(&header, received.data(), sizeof header);
  broken = header.magic != kMagic || header.bytes < 0;
  if (broken || received.size() - sizeof header < static_cast<size_t>(header.bytes))
    return false;
  message = {header.type, header.process, received.substr(sizeof header, static_cast<size_t>(header.bytes))};
  received.erase(0, sizeof header + static_cast<size_t>(header.bytes));
  return true;
}

Star::~Star() {
  if (watcher.joinable()) {
    tell({Type::Left, options.index, ""});
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    (void)!::write(wake[1], "", 1);
    watcher.join();
  }
  for (int end : wake)
    if (end >= 0)
      ::close(end);
}

// --- Messages ------------------------------------------------------------------

Status Star::write(int64_t to, const Message &message) {
  Peer *peer = peerOf(to);
  if (!peer || peer->closed)
    return Status::error(MOERT_ERROR_INTERNAL, "there is no connection to rank " + std::to_string(to));
  return write(*peer, message);
}

Status Star::write(Peer &peer, const Message &message) {
  Header header{kMagic, message.type, message.process, static_cast<int64_t>(message.text.size())};
  std::lock_guard lock(peer.writing);
  Clock::time_point deadline = Clock::now() + kWriteLimit;
  if (Status status = peer.socket.write(&header, sizeof header, deadline); !status.ok())
    return status;
  return peer.socket.write(message.text.data(), message.text.size(), deadline);
}

void Star::tell(const Message &message, int64_t except) {
  // Whoever cannot be told is found out by its connection.
  for (int64_t i = 0; i < options.count; ++i)
    if (peerOf(i) && i != except)
      (void)write(i, message);
}

Status Star::send(const std::vector<char> &bytes) {
  if (Status status = failure(); !status.ok())
    return status;
  return write(0, {Type::Data, options.index, std::string(bytes.begin(), bytes.end())});
}

Status Star::receive(int64_t from, std::vector<char> &bytes) {
  std::unique_lock lock(mutex);
  Peer &peer = *peerOf(from);
  changed.wait(lock, [&] { return !peer.inbox.empty() || !failed.ok() || peer.closed; });
  if (peer.inbox.empty())
    return !failed.ok() ? failed : Status::error(MOERT_ERROR_INTERNAL, "rank " + std::to_string(from) + " has ended");
  bytes = std::move(peer.inbox.front());
  peer.inbox.pop_front();
  return {};
}

Status Star::broadcast(std::vector<char> &bytes) {
  if (!isHub())
    return receive(0, bytes);
  if (Status status = failure(); !status.ok())
    return status;
  tell({Type::Data, 0, std::string(bytes.begin(), bytes.end())});
  return {};
}

void Star::listen(Listener *other) {
  std::lock_guard lock(listening);
  listener = other;
}

Status Star::failure() const {
  std::lock_guard lock(mutex);
  return failed;
}

/// The first failure counts.
void Star::note(const Status &status) {
  {
    std::lock_guard lock(mutex);
    if (!failed.ok())
      return;
    failed = status;
  }
  changed.notify_all();
  std::lock_guard lock(listening);
  if (listener)
    listener->failed(status);
}

void Star::fail(const Status &status) {
  tell({Type::Failed, options.index, encoded(status)});
  note(status);
}

Status Star::explain(const std::string &reason) {
  if (isHub())
    beginInquiry(reason);
  else
    tell({Type::Explain, options.index, reason});
  std::unique_lock lock(mutex);
  // Process 0 waits for answers; somebody has to notice if it does not.
  changed.wait_until(lock, after(2 * options.answer + 1), [this] { return !failed.ok(); });
  if (!failed.ok())
    return failed;
  return Status::error(MOERT_ERROR_HANG, reason + "\n  rank 0 does not answer");
}

// --- The watcher ---------------------------------------------------------------

void Star::watch() {
  while (true) {
    std::vector<pollfd> items{{wake[0], POLLIN, 0}};
    std::vector<int64_t> processes;
    for (int64_t i = 0; i < options.count; ++i)
      if (Peer *peer = peerOf(i); peer && !peer->closed) {
        items.push_back({peer->socket.get(), POLLIN, 0});
        processes.push_back(i);
      }
    ::poll(items.data(), items.size(), kTickMs);
    char drained[16];
    (void)!::read(wake[0], drained, sizeof drained);
    {
      std::lock_guard lock(mutex);
      if (stopping)
        return;
    }
    for (size_t i = 0; i < processes.size(); ++i)
      if (items[i + 1].revents)
        readFrom(processes[i]);
    tick();
  }
}

void Star::readFrom(int64_t process) {
  Peer &peer = *peerOf(process);
  std::vector<char> buffer(1 << 16);
  int64_t count;
  do {
    peer.socket.read(buffer.data(), buffer.size(), count);
    if (count > 0)
      peer.received.append(buffer.data(), static_cast<size_t>(count));
  } while (count == static_cast<int64_t>(buffer.size()));
  Message message;
  bool broken = false;
  while (takeMessage(peer.received, message, broken))
    handle(process, std::move(message));
  if (count < 0 || broken)
    died(process);
}

void Star::handle(int64_t from, Message message) {
  switch (message.type) {
  case Type::Data: {
    std::lock_guard lock(mutex);
    peerOf(from)->inbox.emplace_back(message.text.begin(), message.text.end());
    changed.notify_all();
    return;
  }
  case Type::Failed:
    if (isHub())
      tell(message, from);
    return note(decoded(message.text));
  case Type::Left:
    if (isHub())
      tell(message, from);
    return noteLeft(message.process);
  case Type::Explain:
    return beginInquiry(message.text);
  case Type::Query:
    return (void)write(0, {Type::Answer, options.index, encode(ask())});
  case Type::Answer:
    return noteAnswer(from, message.text);
  default:
    return;
  }
}

/// A connection is closed.
void Star::died(int64_t process) {
  bool expected;
  {
    std::lock_guard lock(mutex);
    peerOf(process)->closed = true;
    expected = left.count(process) || !failed.ok();
  }
  changed.notify_all();
  if (expected)
    return;
  Status status = Status::error(MOERT_ERROR_HANG, "rank " + std::to_string(process) + " (" + peerOf(process)->name +
                                                      ") died: its connection closed");
  fail(status);
}

void Star::noteLeft(int64_t process) {
  std::lock_guard lock(mutex);
  left.emplace(process, Clock::now());
}

void Star::tick() {
  bool over;
  {
    std::lock_guard lock(mutex);
    over = inquiry && (inquiry->missing == 0 || Clock::now() > inquiry->deadline);
  }
  if (over)
    endInquiry();
  checkLeft();
}

Whereabouts Star::ask() {
  std::lock_guard lock(listening);
  return listener ? listener->whereabouts() : Whereabouts();
}

void Star::beginInquiry(const std::string &reason) {
  {
    std::lock_guard lock(mutex);
    if (inquiry || !failed.ok())
      return;
    auto count = static_cast<size_t>(options.count);
    inquiry = Inquiry{reason, after(options.answer), std::vector<std::optional<Whereabouts>>(count), count};
  }
  tell({Type::Query, 0, ""});
  noteAnswer(0, encode(ask()));
}

void Star::noteAnswer(int64_t process, const std::string &text) {
  std::lock_guard lock(mutex);
  if (!inquiry || inquiry->answers[static_cast<size_t>(process)])
    return;
  inquiry->answers[static_cast<size_t>(process)] = decode(text);
  --inquiry->missing;
  if (inquiry->missing == 0)
    (void)!::write(wake[1], "", 1);
}

void Star::endInquiry() {
  std::optional<Inquiry> ended;
  {
    std::lock_guard lock(mutex);
    ended.swap(inquiry);
  }
  std::vector<std::string> names{ownName()};
  for (int64_t i = 1; i < options.count; ++i)
    names.push_back(peerOf(i)->name);
  fail(Status::error(MOERT_ERROR_HANG, ended->reason + ":" + stallText(ended->answers, names)));
}

/// Who left will come to no collective any more. What it did before may still be on its way, so that it takes a while
/// to be sure.
void Star::checkLeft() {
  {
    std::lock_guard lock(mutex);
    if (left.empty() || !failed.ok())
      return;
  }
  Whereabouts here = ask();
  std::string text;
  {
    std::lock_guard lock(mutex);
    std::map<std::string, Clock::time_point> still;
    for (const Wait &wait : here.waits)
      for (int64_t rank : wait.ranks) {
        if (!left.count(rank))
          continue;
        auto since = hopeless.find(wait.key);
        still[wait.key] = since == hopeless.end() ? Clock::now() : since->second;
        if (Clock::now() - still[wait.key] > std::chrono::duration<double>(options.grace))
          text = "rank " + std::to_string(rank) + " has ended, but rank " + std::to_string(options.index) +
                 " waits for it in " + wait.what;
      }
    hopeless = std::move(still);
  }
  if (!text.empty())
    fail(Status::error(MOERT_ERROR_HANG, text));
}

} // namespace moert::net
