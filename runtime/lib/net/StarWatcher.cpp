//===- StarWatcher.cpp - the thread that reads what others say ------------===//

#include "net/Stall.h"
#include "net/Star.h"

#include <algorithm>
#include <cmath>
#include <poll.h>
#include <sys/eventfd.h>

namespace moert::net {
namespace {

constexpr int kTickMs = 200;
/// Divisor of the time-out: a process that is silent for the quotient is asked whether it responds.
constexpr double kAsks = 4;

double secondsSince(Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); }

} // namespace

void Star::watch() {
  Lock lock(mutex);
  while (!stopping) {
    look(lock);
    if (std::exchange(isToTell, false))
      callListener(lock, [status = failed](Listener &listener) { listener.failed(status); });
    if (!failed.ok())
      continue;
    checkInquiry(lock);
    checkSilence();
    checkLeft(lock);
  }
}

/// Waits for messages, at most a tick, then reads and writes without waiting.
void Star::look(Lock &lock) {
  std::vector<pollfd> items{{wake.get(), POLLIN, 0}};
  for (const auto &[process, peer] : peers)
    items.push_back(
        {peer.isClosed ? -1 : peer.socket.get(), static_cast<short>(POLLIN | (peer.outbox.empty() ? 0 : POLLOUT)), 0});
  int wait = patience > 0 ? static_cast<int>(std::clamp(patience * 1000 / (4 * kAsks), 1.0, double(kTickMs))) : kTickMs;
  if (inquiry)
    wait = std::min(wait, millisecondsUntil(inquiry->deadline) + 1);
  lock.unlock();
  ::poll(items.data(), items.size(), wait);
  eventfd_t drained;
  (void)::eventfd_read(wake.get(), &drained);
  lock.lock();
  size_t i = 0;
  for (auto &[process, peer] : peers) {
    short events = items[++i].revents;
    // The first call that finds the error of a connection takes it.
    if (events & ~POLLOUT)
      hear(lock, process);
    if (events & POLLOUT && !peer.isClosed)
      flush(peer);
  }
}

void Star::hear(Lock &lock, int64_t from) {
  Peer &peer = peers.at(from);
  bool isOpen = peer.reader.readFrom(peer.socket);
  peer.heard = Clock::now();
  Message message;
  while (peer.reader.take(message))
    handle(lock, from, message);
  if (!isOpen || peer.reader.isBroken())
    died(from);
}

void Star::handle(Lock &lock, int64_t from, const Message &message) {
  Peer &peer = peers.at(from);
  switch (message.type) {
  case Type::Data:
    peer.inbox.emplace_back(message.text.begin(), message.text.end());
    return changed.notify_all();
  case Type::Failed:
    if (isHub())
      tell(message, from);
    return note(decoded(message.text));
  case Type::Left:
    if (isHub())
      tell(message, from);
    left.insert(message.process);
    return;
  case Type::Done:
    peer.isDone = true;
    return changed.notify_all();
  case Type::Explain:
    return beginInquiry(message.text);
  case Type::Query:
    return write(peer, {Type::Answer, options.index, encode(ask(lock))});
  case Type::Answer:
    if (inquiry)
      inquiry->answers[from] = decode(message.text);
    return;
  case Type::Ping:
    return write(peer, {Type::Pong, options.index, ""});
  default:
    return;
  }
}

/// Handles a closed connection.
void Star::died(int64_t process) {
  peers.at(process).isClosed = true;
  changed.notify_all();
  if (!left.count(process) && failed.ok())
    spread(Status::error(MOERT_ERROR_HANG, lostText(process, peers.at(process))));
}

void Star::callListener(Lock &lock, const std::function<void(Listener &)> &call) {
  lock.unlock();
  {
    std::lock_guard guard(listening);
    if (listener)
      call(*listener);
  }
  lock.lock();
}

/// Asks the listener where this process is.
Whereabouts Star::ask(Lock &lock) {
  Whereabouts here;
  callListener(lock, [&](Listener &listener) { here = listener.whereabouts(); });
  if (waiting)
    here.waits.push_back(*waiting);
  return here;
}

void Star::checkInquiry(Lock &lock) {
  if (!inquiry)
    return;
  std::vector<std::optional<Whereabouts>> &answers = inquiry->answers;
  if (!answers[0])
    answers[0] = ask(lock);
  bool isMissing = std::any_of(answers.begin(), answers.end(), [](const auto &answer) { return !answer; });
  if (isMissing && Clock::now() < inquiry->deadline)
    return;
  std::vector<std::string> names{ownName()};
  for (const auto &[process, peer] : peers)
    names.push_back(peer.name);
  spread(Status::error(MOERT_ERROR_HANG, inquiry->reason, ":", stallText(answers, names)));
  inquiry.reset();
}

// --- Silent processes --------------------------------------------------------------

void Star::checkSilence() {
  // If this process was suspended, perhaps with the whole machine, it cannot tell how long others were silent.
  bool wasAway = secondsSince(lastTick) > patience / 2;
  lastTick = Clock::now();
  if (patience <= 0 || !failed.ok())
    return;
  for (auto &[process, peer] : peers) {
    if (peer.isClosed)
      continue;
    if (wasAway)
      peer.heard = lastTick;
    if (double seconds = secondsSince(peer.heard); seconds > patience)
      return silent(process, seconds);
    if (secondsSince(peer.heard) > patience / kAsks)
      write(peer, {Type::Ping, options.index, ""});
  }
}

void Star::silent(int64_t process, double seconds) {
  const std::string self = "rank " + std::to_string(options.index) + ": the time-out of " + secondsText(patience) +
                           " s passed: ",
                    since = " for " + secondsText(std::round(seconds * 10) / 10) + " s";
  // The report should say where the others wait, if they can still be asked.
  if (isHub())
    return beginInquiry(self + "nothing was heard of " + whoIs(process) + since);
  note(Status::error(MOERT_ERROR_HANG, self, whoIs(process), " does not answer", since));
}

/// Ends the job if this process waits for a process that left and will join no further collective. Messages of that
/// process may still be in flight, so the wait may last `grace` seconds.
void Star::checkLeft(Lock &lock) {
  if (left.empty() || left.count(options.index) || !failed.ok())
    return;
  Whereabouts here = ask(lock);
  for (const Wait &wait : here.waits)
    for (int64_t rank : wait.ranks) {
      if (!left.count(rank))
        continue;
      if (std::exchange(hopeless, wait.key) != wait.key)
        hopelessSince = Clock::now();
      else if (secondsSince(hopelessSince) > options.grace)
        spread(Status::error(MOERT_ERROR_HANG, "rank ", rank, " has ended, but rank ", options.index,
                             " waits for it in ", wait.what));
      return;
    }
  hopeless.clear();
}

} // namespace moert::net
