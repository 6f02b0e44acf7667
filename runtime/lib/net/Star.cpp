//===- Star.cpp - processes joined through process 0 ----------------------===//
//
// What other threads ask of it; the watcher is in StarWatcher.cpp.
//
//===----------------------------------------------------------------------===//

#include "net/Star.h"
#include "net/Stall.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace moert::net {

/// But for values no message is that long.
constexpr int64_t kMostText = int64_t(64) << 20;

Star::Peer::Peer(int64_t count, Arrival arrival)
    : socket(std::move(arrival.socket)), name(std::move(arrival.name)), reader(count, kMostText, true),
      heard(Clock::now()), asked(heard) {
  reader.append(arrival.rest.data(), arrival.rest.size());
}

Star::Star(const Options &options)
    : options(options), limit(options.patience), peers(static_cast<size_t>(options.count)) {}

Status Star::join(const Options &options, Socket listener, std::unique_ptr<Star> &star) {
  std::unique_ptr<Star> made(new Star(options));
  if (::pipe2(made->wake, O_CLOEXEC | O_NONBLOCK) != 0)
    return Status::error(MOERT_ERROR_INTERNAL, std::string("pipe: ") + std::strerror(errno));
  std::vector<Arrival> arrivals(1);
  if (options.count > 1)
    if (Status status =
            options.index == 0 ? admit(options, std::move(listener), arrivals) : enter(options, arrivals[0]);
        !status.ok())
      return status;
  for (size_t i = 0; i < arrivals.size(); ++i)
    if (arrivals[i].socket)
      made->peers[i] = std::make_unique<Peer>(options.count, std::move(arrivals[i]));
  made->watcher = std::thread([raw = made.get()] { raw->watch(); });
  star = std::move(made);
  return {};
}

Star::~Star() {
  if (watcher.joinable()) {
    leave();
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    wakeUp();
    watcher.join();
  }
  for (int end : wake)
    if (end >= 0)
      ::close(end);
}

void Star::wakeUp() { (void)!::write(wake[1], "", 1); }

void Star::setPatience(double seconds) {
  limit = seconds;
  wakeUp();
}

// --- What is said ----------------------------------------------------------------

void Star::write(int64_t to, const Message &message) {
  if (Peer *peer = peerOf(to))
    write(*peer, std::make_shared<const std::string>(encode(message)));
}

void Star::write(Peer &peer, const Bytes &bytes) {
  if (peer.closed)
    return;
  {
    std::lock_guard lock(peer.writing);
    peer.outbox.push_back(bytes);
    peer.isSending = true;
  }
  flush(peer);
  if (peer.isSending)
    wakeUp();
}

/// Sends what can be sent at once. A broken connection is found out where it is read.
void Star::flush(Peer &peer) {
  {
    std::lock_guard lock(peer.writing);
    while (!peer.outbox.empty()) {
      const std::string &bytes = *peer.outbox.front();
      int64_t count;
      peer.socket.send(bytes.data() + peer.sent, bytes.size() - peer.sent, count);
      if (count < 0) {
        peer.outbox.clear();
        peer.sent = 0;
        break;
      }
      peer.sent += static_cast<size_t>(count);
      if (peer.sent < bytes.size())
        return;
      peer.outbox.pop_front();
      peer.sent = 0;
    }
    peer.isSending = false;
  }
  // Whoever waits for it looks under this lock.
  std::lock_guard lock(mutex);
  changed.notify_all();
}

void Star::tell(const Message &message, int64_t except) {
  auto bytes = std::make_shared<const std::string>(encode(message));
  for (int64_t i = 0; i < options.count; ++i)
    if (Peer *peer = peerOf(i); peer && i != except)
      write(*peer, bytes);
}

/// Waits until `condition` holds, but no longer than the patience. `ranks` are those that are waited for. Whatever ends
/// the wait but the condition is an error. While it lasts others who ask hear of it.
template <class Condition>
Status Star::waitFor(std::unique_lock<std::mutex> &lock, const std::string &what, const std::vector<int64_t> &ranks,
                     Condition condition) {
  auto isOver = [&] { return condition() || !failed.ok(); };
  if (!isOver()) {
    double seconds = limit;
    Clock::time_point deadline = after(seconds > 0 ? seconds : 1e9);
    waiting = Wait{what, what + " " + std::to_string(ranks.front()), ranks};
    bool inTime = changed.wait_until(lock, deadline, isOver);
    if (!inTime) {
      lock.unlock();
      Status status =
          explain("rank " + std::to_string(options.index) + ": the time-out of " + secondsText(seconds) + " s passed");
      lock.lock();
      waiting.reset();
      return status;
    }
    waiting.reset();
  }
  if (condition())
    return {};
  known = true;
  return failed;
}

/// Values are kept until they are sent: one who does not read holds up who sends, not memory.
Status Star::tellAndWait(const Message &message) {
  tell(message);
  std::unique_lock lock(mutex);
  for (int64_t i = 0; i < options.count; ++i)
    if (Peer *peer = peerOf(i))
      if (Status status =
              waitFor(lock, "the exchange of values", {i}, [&] { return !peer->isSending || peer->closed; });
          !status.ok())
        return status;
  return {};
}

Status Star::send(const std::vector<char> &bytes) {
  if (Status status = failure(); !status.ok())
    return status;
  if (peerOf(0)->closed)
    return Status::error(MOERT_ERROR_INTERNAL, "there is no connection to rank 0");
  return tellAndWait({Type::Data, options.index, std::string(bytes.begin(), bytes.end())});
}

Status Star::receive(int64_t from, std::vector<char> &bytes) {
  std::unique_lock lock(mutex);
  Peer &peer = *peerOf(from);
  if (Status status =
          waitFor(lock, "the exchange of values", {from}, [&] { return !peer.inbox.empty() || peer.closed; });
      !status.ok())
    return status;
  if (peer.inbox.empty())
    return Status::error(MOERT_ERROR_INTERNAL, "rank " + std::to_string(from) + " has ended");
  bytes = std::move(peer.inbox.front());
  peer.inbox.pop_front();
  return {};
}

Status Star::broadcast(std::vector<char> &bytes) {
  if (!isHub())
    return receive(0, bytes);
  if (Status status = failure(); !status.ok())
    return status;
  return tellAndWait({Type::Data, 0, std::string(bytes.begin(), bytes.end())});
}

void Star::listen(Listener *other) {
  std::lock_guard lock(listening);
  listener = other;
}

Status Star::failure() const {
  std::lock_guard lock(mutex);
  known = known || !failed.ok();
  return failed;
}

Status Star::failureSoFar() const {
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
    write(0, {Type::Explain, options.index, reason});
  {
    std::unique_lock lock(mutex);
    auto isOver = [this] { return !failed.ok(); };
    // Process 0 waits for answers, and always ends that; the others have to notice if it does not.
    if (isHub())
      changed.wait(lock, isOver);
    else
      changed.wait_for(lock, std::chrono::duration<double>(2 * options.answer + 0.5), isOver);
  }
  if (Status status = failure(); !status.ok())
    return status;
  Status status = Status::error(MOERT_ERROR_HANG, reason + "\n  rank 0 (" + peers[0]->name + ") does not answer");
  fail(status);
  known = true;
  return status;
}

void Star::leave() {
  {
    std::lock_guard lock(mutex);
    if (!left.emplace(options.index, Clock::now()).second)
      return;
  }
  tell({Type::Left, options.index, ""});
}

Status Star::finish() {
  if (options.count == 1)
    return {};
  leave();
  // Process 0 says it last: then all are done.
  if (!isHub())
    write(0, {Type::Done, options.index, ""});
  std::unique_lock lock(mutex);
  for (int64_t i = 0; i < options.count; ++i)
    if (Peer *peer = peerOf(i); peer && failed.ok())
      changed.wait(lock, [&] { return done.count(i) || peer->closed || !failed.ok(); });
  // Process 0, whose messages matter most, is the first to go: launchers may lose what others wrote by then.
  if (!isHub() && failed.ok())
    changed.wait_for(lock, std::chrono::seconds(1), [&] { return peerOf(0)->closed.load(); });
  lock.unlock();
  if (isHub())
    tell({Type::Done, 0, ""});
  return failureSoFar();
}

} // namespace moert::net
