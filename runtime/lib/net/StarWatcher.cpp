//===- StarWatcher.cpp - the thread that reads what others say ------------===//

#include "net/Stall.h"
#include "net/Star.h"

#include <algorithm>
#include <cstdio>
#include <poll.h>
#include <unistd.h>

namespace moert::net {
namespace {

constexpr int kTickMs = 200;
/// So often within the patience a silent process is asked whether it is there.
constexpr double kAsks = 4;
/// So much of one connection is read before the others have their turn.
constexpr size_t kReadBytes = 1 << 16, kMostReads = 64;

double secondsSince(Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); }

} // namespace

void Star::watch() {
  while (true) {
    look();
    {
      std::lock_guard lock(mutex);
      if (stopping)
        return;
    }
    tick();
  }
}

/// Waits for a moment, and reads and writes what it can.
void Star::look() {
  std::vector<pollfd> items{{wake[0], POLLIN, 0}};
  std::vector<int64_t> processes;
  for (int64_t i = 0; i < options.count; ++i)
    if (Peer *peer = peerOf(i); peer && !peer->closed) {
      items.push_back({peer->socket.get(), static_cast<short>(POLLIN | (peer->isSending ? POLLOUT : 0)), 0});
      processes.push_back(i);
    }
  double patience = limit;
  int wait = patience > 0 ? static_cast<int>(std::clamp(patience * 1000 / (4 * kAsks), 1.0, double(kTickMs))) : kTickMs;
  {
    std::lock_guard lock(mutex);
    if (inquiry)
      wait = std::min(wait, millisecondsUntil(inquiry->deadline) + 1);
  }
  ::poll(items.data(), items.size(), wait);
  char drained[16];
  (void)!::read(wake[0], drained, sizeof drained);
  for (size_t i = 0; i < processes.size(); ++i) {
    if (items[i + 1].revents & POLLOUT)
      flush(*peerOf(processes[i]));
    if (items[i + 1].revents & ~POLLOUT)
      readFrom(processes[i]);
  }
}

void Star::readFrom(int64_t process) {
  Peer &peer = *peerOf(process);
  std::vector<char> buffer(kReadBytes);
  int64_t count = 0;
  size_t reads = 0;
  do {
    peer.socket.read(buffer.data(), buffer.size(), count);
    if (count > 0) {
      peer.reader.append(buffer.data(), static_cast<size_t>(count));
      peer.heard = Clock::now();
    }
  } while (count == static_cast<int64_t>(buffer.size()) && ++reads < kMostReads);
  Message message;
  while (peer.reader.take(message))
    handle(process, std::move(message));
  if (count < 0 || peer.reader.isBroken())
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
  case Type::Done:
    return noteDone(from);
  case Type::Explain:
    return beginInquiry(message.text);
  case Type::Query:
    return write(0, {Type::Answer, options.index, encode(ask())});
  case Type::Answer:
    return noteAnswer(from, message.text);
  case Type::Ping:
    return write(from, {Type::Pong, options.index, ""});
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

void Star::noteDone(int64_t process) {
  std::lock_guard lock(mutex);
  done.insert(process);
  changed.notify_all();
}

void Star::tick() {
  bool over;
  {
    std::lock_guard lock(mutex);
    over = inquiry && (inquiry->missing == 0 || Clock::now() > inquiry->deadline);
  }
  if (over)
    endInquiry();
  checkSilence();
  checkLeft();
}

// --- Who is silent -----------------------------------------------------------------

void Star::checkSilence() {
  double patience = limit;
  // After a pause of its own, e.g. of the whole machine, this process knows nothing of the others'.
  bool wasAway = secondsSince(lastTick) > patience / 2;
  lastTick = Clock::now();
  {
    std::lock_guard lock(mutex);
    if (patience <= 0 || !failed.ok())
      return;
  }
  for (int64_t i = 0; i < options.count; ++i) {
    Peer *peer = peerOf(i);
    if (!peer || peer->closed)
      continue;
    if (wasAway)
      peer->heard = Clock::now();
    if (double seconds = secondsSince(peer->heard); seconds > patience)
      return silent(i, seconds);
    double often = patience / kAsks;
    if (secondsSince(peer->heard) > often && secondsSince(peer->asked) > often) {
      peer->asked = Clock::now();
      write(i, {Type::Ping, options.index, ""});
    }
  }
}

void Star::silent(int64_t process, double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", seconds);
  std::string who = "rank " + std::to_string(process) + " (" + peerOf(process)->name + ")";
  // What the others wait in is worth knowing, where they can still be asked.
  if (isHub())
    return beginInquiry("rank 0: the time-out of " + secondsText(limit) + " s passed: nothing was heard of " + who +
                        " for " + text + " s");
  note(Status::error(MOERT_ERROR_HANG, "rank " + std::to_string(options.index) + ": the time-out of " +
                                           secondsText(limit) + " s passed: " + who + " does not answer for " + text +
                                           " s"));
}

Whereabouts Star::ask() {
  Whereabouts here;
  {
    std::lock_guard lock(listening);
    if (listener)
      here = listener->whereabouts();
  }
  std::lock_guard lock(mutex);
  if (waiting)
    here.waits.push_back(*waiting);
  return here;
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
    wakeUp();
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
    if (left.empty() || left.count(options.index) || !failed.ok())
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
