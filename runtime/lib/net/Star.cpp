//===- Star.cpp - processes joined through process 0 ----------------------===//
//
// Functions for other threads; the watcher is in StarWatcher.cpp.
//
//===----------------------------------------------------------------------===//

#include "net/Star.h"
#include "net/Stall.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/eventfd.h>

namespace moert::net {

/// Largest value, in bytes: more than any machine has.
constexpr int64_t kMostBytes = int64_t(1) << 44;

Star::Peer::Peer(Arrival arrival) : Arrival(std::move(arrival)), heard(Clock::now()) { reader.allow(kMostBytes); }

Status Star::join(const Options &options, Socket listener, std::unique_ptr<Star> &star) {
  std::unique_ptr<Star> made(new Star(options));
  made->wake = Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->wake)
    return Status::error(MOERT_ERROR_INTERNAL, "eventfd: ", std::strerror(errno));
  std::map<int64_t, Arrival> arrivals;
  if (options.count > 1)
    MOERT_RETURN_IF_ERROR(options.index == 0 ? admit(options, std::move(listener), arrivals)
                                             : enter(options, arrivals));
  for (auto &[process, arrival] : arrivals)
    made->peers.emplace(process, std::move(arrival));
  made->watcher = std::thread([raw = made.get()] { raw->watch(); });
  star = std::move(made);
  return {};
}

Star::~Star() {
  if (!watcher.joinable())
    return;
  leave();
  {
    Lock lock(mutex);
    stopping = true;
    wakeUp();
  }
  watcher.join();
}

void Star::wakeUp() { (void)::eventfd_write(wake.get(), 1); }

void Star::setPatience(double seconds) {
  Lock lock(mutex);
  patience = seconds;
  wakeUp();
}

std::string Star::whoIs(int64_t process) const {
  auto peer = peers.find(process);
  return "rank " + std::to_string(process) + " (" + (peer == peers.end() ? ownName() : peer->second.name) + ")";
}

// --- Messages --------------------------------------------------------------------

void Star::write(Peer &peer, const Message &message) {
  write(peer, std::make_shared<const std::string>(encode(message)));
}

void Star::write(Peer &peer, const Bytes &bytes) {
  if (peer.isClosed)
    return;
  peer.outbox.push_back(bytes);
  flush(peer);
  if (!peer.outbox.empty())
    wakeUp();
}

/// Sends as much as possible without waiting. The watcher notices a broken connection when it reads.
void Star::flush(Peer &peer) {
  while (!peer.outbox.empty()) {
    const std::string &bytes = *peer.outbox.front();
    int64_t count = peer.socket.send(bytes.data() + peer.sent, bytes.size() - peer.sent);
    peer.sent += static_cast<size_t>(std::max<int64_t>(count, 0));
    if (count >= 0 && peer.sent < bytes.size())
      return;
    peer.outbox.pop_front();
    peer.sent = 0;
  }
  changed.notify_all();
}

/// Sends a message: process 0 to all others except `except`, others to process 0.
void Star::tell(const Message &message, int64_t except) {
  auto bytes = std::make_shared<const std::string>(encode(message));
  for (auto &[process, peer] : peers)
    if (process != except)
      write(peer, bytes);
}

/// Sends values, from process 0 to all others, and waits until they are sent. A process that does not read thus delays
/// the sender instead of filling its memory.
Status Star::send(const std::vector<char> &bytes) {
  Lock lock(mutex);
  if (!failed.ok())
    return knownFailure();
  tell({Type::Data, options.index, std::string(bytes.begin(), bytes.end())});
  for (const auto &[process, peer] : peers)
    MOERT_RETURN_IF_ERROR(
        waitFor(lock, process, [](const Peer &peer) { return !peer.isClosed && peer.outbox.empty(); }));
  return {};
}

/// Waits until `condition` holds for a process, at most for the time-out. Any other end of the wait is an error. This
/// process names the wait when it is asked where it is.
Status Star::waitFor(Lock &lock, int64_t process, bool (*condition)(const Peer &)) {
  const Peer &peer = peers.at(process);
  auto isOver = [&] { return condition(peer) || peer.isClosed || !failed.ok(); };
  if (!isOver()) {
    const std::string what = "the exchange of values";
    waiting = Wait{what, what + " " + std::to_string(process), {process}};
    double seconds = patience;
    Status status;
    if (!changed.wait_until(lock, after(seconds > 0 ? seconds : 1e9), isOver))
      status = explain(lock, "rank " + std::to_string(options.index) + ": the time-out of " + secondsText(seconds) +
                                 " s passed");
    waiting.reset();
    if (!status.ok())
      return status;
  }
  if (condition(peer))
    return {};
  return failed.ok() ? Status::error(MOERT_ERROR_INTERNAL, "rank ", process, " has ended") : knownFailure();
}

Status Star::receive(int64_t from, std::vector<char> &bytes) {
  Lock lock(mutex);
  MOERT_RETURN_IF_ERROR(waitFor(lock, from, [](const Peer &peer) { return !peer.inbox.empty(); }));
  std::deque<std::vector<char>> &inbox = peers.at(from).inbox;
  bytes = std::move(inbox.front());
  inbox.pop_front();
  return {};
}

Status Star::broadcast(std::vector<char> &bytes) { return isHub() ? send(bytes) : receive(0, bytes); }

// --- Failures --------------------------------------------------------------------

void Star::listen(Listener *other) {
  std::lock_guard lock(listening);
  listener = other;
}

Status Star::failure() const {
  Lock lock(mutex);
  return knownFailure();
}

Status Star::knownFailure() const {
  known = known || !failed.ok();
  return failed;
}

Status Star::failureSoFar() const {
  Lock lock(mutex);
  return failed;
}

bool Star::isFailureKnown() const {
  Lock lock(mutex);
  return known;
}

/// Notes a failure; the first one counts. The watcher tells the listener.
void Star::note(const Status &status) {
  if (!failed.ok())
    return;
  failed = status;
  isToTell = true;
  changed.notify_all();
  wakeUp();
}

void Star::spread(const Status &status) {
  tell({Type::Failed, options.index, encoded(status)});
  note(status);
}

void Star::fail(const Status &status) {
  Lock lock(mutex);
  spread(status);
}

Status Star::explain(const std::string &reason) {
  Lock lock(mutex);
  return explain(lock, reason);
}

Status Star::explain(Lock &lock, const std::string &reason) {
  auto isOver = [this] { return !failed.ok(); };
  // Process 0 makes the inquiry, and always ends it. Other processes must notice if process 0 does not respond.
  if (isHub()) {
    beginInquiry(reason);
    changed.wait(lock, isOver);
  } else {
    write(peers.at(0), {Type::Explain, options.index, reason});
    if (!changed.wait_for(lock, std::chrono::duration<double>(2 * options.answer + 0.5), isOver))
      spread(Status::error(MOERT_ERROR_HANG, reason, "\n  ", whoIs(0), " does not answer"));
  }
  return knownFailure();
}

/// Asks all processes where they are. The watcher ends the inquiry.
void Star::beginInquiry(const std::string &reason) {
  if (inquiry || !failed.ok())
    return;
  inquiry = Inquiry{reason, after(options.answer), {}};
  inquiry->answers.resize(options.count);
  tell({Type::Query, 0, ""});
  wakeUp();
}

// --- Shutdown --------------------------------------------------------------------

void Star::leave() {
  Lock lock(mutex);
  if (left.insert(options.index).second)
    tell({Type::Left, options.index, ""});
}

Status Star::finish() {
  leave();
  Lock lock(mutex);
  if (!isHub())
    write(peers.at(0), {Type::Done, options.index, ""});
  // Process 0 ends first, because its output matters most: launchers may lose output of the processes that end later.
  changed.wait(lock, [this] {
    return !failed.ok() || std::all_of(peers.begin(), peers.end(),
                                       [](const auto &entry) { return entry.second.isDone || entry.second.isClosed; });
  });
  return failed;
}

} // namespace moert::net
