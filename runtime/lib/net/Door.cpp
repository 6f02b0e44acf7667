//===- Door.cpp - how processes come to process 0 -------------------------===//

#include "net/Door.h"
#include "net/Stall.h"

#include <algorithm>
#include <deque>
#include <list>
#include <memory>
#include <poll.h>
#include <thread>
#include <unistd.h>

namespace moert::net {
namespace {

/// Who has not said who it is may say no more than this.
constexpr int64_t kMostGreeting = 4096;
/// More ranks than any job has.
constexpr int64_t kMostProcesses = int64_t(1) << 24;
/// So many connections may wait at once beside those of ranks. The one that has waited longest gives way to the next.
constexpr size_t kMostGuests = 256;
constexpr size_t kMostAccepted = 16, kMostNotes = 4, kMostName = 256;
/// Those who wait for the last one hear from process 0 so often.
constexpr double kComfort = 0.25;

/// A name comes from outside and is shown to a person.
std::string readable(const std::string &name) {
  std::string text = name.substr(0, kMostName);
  for (char &c : text)
    if (c < ' ' || c > '~')
      c = '?';
  return text;
}

MessageReader greetingReader() { return {kMostProcesses, kMostGreeting, false}; }

enum class Heard { Nothing, Something, End };

/// Reads what is there.
Heard readInto(const Socket &socket, MessageReader &reader) {
  char buffer[kMostGreeting];
  int64_t count;
  socket.read(buffer, sizeof buffer, count);
  if (count > 0)
    reader.append(buffer, static_cast<size_t>(count));
  return count < 0 ? Heard::End : count > 0 ? Heard::Something : Heard::Nothing;
}

/// Short messages to one who reads fit the system's buffer. One who does not is found out later.
void tell(const Socket &socket, const Message &message) {
  std::string bytes = encode(message);
  int64_t count;
  socket.send(bytes.data(), bytes.size(), count);
}

class Door {
public:
  Door(const JoinOptions &options, std::vector<Arrival> &arrivals) : options(options), arrivals(arrivals) {
    arrivals.resize(static_cast<size_t>(options.count));
  }
  Status admitAll(Socket listener);

private:
  struct Guest {
    Socket socket;
    MessageReader reader = greetingReader();
    Nonces nonces;
    Clock::time_point deadline;
  };

  std::vector<int64_t> missing() const;
  Status acceptSome();
  Status challenge(Socket socket);
  void lookAround();
  bool isDone(Guest &guest);
  void judge(Guest &guest, const Message &message);
  void checkArrivals();
  void note(const std::string &text);
  void end(const Status &status);

  const JoinOptions &options;
  std::vector<Arrival> &arrivals;
  Socket door;
  std::list<Guest> guests; ///< who have not said who they are, the oldest first
  std::deque<std::string> notes;
  Clock::time_point nextComfort = {};
};

std::vector<int64_t> Door::missing() const {
  std::vector<int64_t> ranks;
  for (int64_t i = 1; i < options.count; ++i)
    if (!arrivals[static_cast<size_t>(i)].socket)
      ranks.push_back(i);
  return ranks;
}

Status Door::admitAll(Socket listener) {
  Clock::time_point deadline = after(options.timeout);
  Endpoint place = options.place;
  door = std::move(listener);
  if (!door)
    if (Status status = Socket::listen(place, door); !status.ok())
      return status;
  Status status;
  while (status.ok() && !missing().empty()) {
    if (Clock::now() > deadline) {
      std::string text = "rank 0 waited " + secondsText(options.timeout) + " s at " + place.text() +
                         (missing().size() > 1 ? " for ranks " : " for rank ") + ranksText(missing()) +
                         ", which did not come";
      for (const std::string &turnedAway : notes)
        text += "\n  turned away: " + turnedAway;
      status = Status::error(MOERT_ERROR_HANG, text);
      break;
    }
    lookAround();
    status = acceptSome();
    guests.remove_if([this](Guest &guest) { return isDone(guest); });
    checkArrivals();
  }
  end(status);
  return status;
}

/// Waits until something happens, a moment at most.
void Door::lookAround() {
  std::vector<pollfd> items{{door.get(), POLLIN, 0}};
  for (const Guest &guest : guests)
    items.push_back({guest.socket.get(), POLLIN, 0});
  for (const Arrival &arrival : arrivals)
    if (arrival.socket)
      items.push_back({arrival.socket.get(), POLLIN, 0});
  ::poll(items.data(), items.size(), 50);
}

Status Door::acceptSome() {
  for (size_t i = 0; i < kMostAccepted; ++i) {
    Socket socket;
    if (Status status = door.accept(socket); !status.ok() || !socket)
      return status;
    if (guests.size() >= kMostGuests)
      guests.pop_front();
    if (Status status = challenge(std::move(socket)); !status.ok())
      return status;
  }
  return {};
}

Status Door::challenge(Socket socket) {
  Guest guest;
  if (Status status = makeNonce(guest.nonces.first); !status.ok())
    return status;
  tell(socket, {Message::Type::Challenge, 0, guest.nonces.first});
  guest.socket = std::move(socket);
  guest.deadline = after(options.greeting);
  guests.push_back(std::move(guest));
  return {};
}

/// Whether there is nothing more to hear from a guest: it was let in or is turned away.
bool Door::isDone(Guest &guest) {
  Heard heard = readInto(guest.socket, guest.reader);
  Message message;
  if (guest.reader.take(message)) {
    judge(guest, message);
    return true;
  }
  // Too much of a message that does not end is a broken one to the reader, which knows its length from the beginning.
  return heard == Heard::End || guest.reader.isBroken() || Clock::now() > guest.deadline;
}

void Door::judge(Guest &guest, const Message &message) {
  Hello hello;
  if (!readHello(message, guest.nonces, options.secret, hello))
    return note("a connection that does not know the job's secret");
  hello.name = readable(hello.name);
  std::string who = "rank " + std::to_string(hello.process) + " (" + hello.name + ")", refusal;
  if (hello.count != options.count || hello.process < 1 || hello.process >= options.count)
    refusal = who + " expects " + std::to_string(hello.count) + " processes, rank 0 " + std::to_string(options.count);
  else if (const Arrival &there = arrivals[static_cast<size_t>(hello.process)]; there.socket)
    refusal = who + " came, but " + there.name + " is that rank";
  if (!refusal.empty()) {
    note(refusal);
    return tell(guest.socket,
                {Message::Type::Failed, 0, encoded(Status::error(MOERT_ERROR_INVALID_ARGUMENT, refusal))});
  }
  arrivals[static_cast<size_t>(hello.process)] = {std::move(guest.socket), hello.name, guest.nonces, ""};
}

/// Who was let in says nothing until all have come; one whose connection ends is missing again.
void Door::checkArrivals() {
  bool comfort = Clock::now() > nextComfort;
  if (comfort)
    nextComfort = after(kComfort);
  for (size_t i = 1; i < arrivals.size(); ++i) {
    Arrival &arrival = arrivals[i];
    if (!arrival.socket)
      continue;
    MessageReader reader = greetingReader();
    if (readInto(arrival.socket, reader) != Heard::Nothing) {
      note("rank " + std::to_string(i) + " (" + arrival.name + "), whose connection closed");
      arrival = {};
    } else if (comfort) {
      tell(arrival.socket, {Message::Type::Ping, 0, ""});
    }
  }
}

void Door::note(const std::string &text) {
  if (std::find(notes.begin(), notes.end(), text) != notes.end())
    return;
  notes.push_back(text);
  if (notes.size() > kMostNotes)
    notes.pop_front();
}

void Door::end(const Status &status) {
  for (const Arrival &arrival : arrivals)
    if (arrival.socket)
      tell(arrival.socket, status.ok() ? makeWelcome(ownName(), arrival.nonces, options.secret)
                                       : Message{Message::Type::Failed, 0, encoded(status)});
}

/// What arrives at one connection.
class Line {
public:
  explicit Line(const Socket &socket) : socket(socket) {}

  /// The next message, which must come before `deadline`.
  Status next(Clock::time_point deadline, Message &message) {
    while (!reader.take(message)) {
      if (reader.isBroken())
        return Status::error(MOERT_ERROR_INTERNAL, "it sent something else");
      if (hasEnded)
        return Status::error(MOERT_ERROR_INTERNAL, "the connection closed");
      if (Clock::now() > deadline)
        return Status::error(MOERT_ERROR_HANG, "it says nothing");
      pollfd item{socket.get(), POLLIN, 0};
      ::poll(&item, 1, millisecondsUntil(deadline, 1000));
      hasEnded = readInto(socket, reader) == Heard::End;
    }
    return {};
  }
  bool isClosed() const { return hasEnded; }
  std::string takeRest() { return reader.takeRest(); }

private:
  const Socket &socket;
  MessageReader reader = greetingReader();
  bool hasEnded = false;
};

/// Says hello to process 0 and waits until all have come. It says that it is there while others are missing. `again`:
/// it turned away before anything was said, as where many come at once.
Status greet(const JoinOptions &options, Clock::time_point deadline, Arrival &first, bool &again) {
  Line line(first.socket);
  Message message;
  auto refused = [&](const Status &status, const std::string &hint = "") {
    return Status::error(status.code,
                         "rank 0 did not let rank " + std::to_string(options.index) + " in: " + status.message + hint);
  };
  if (Status status = line.next(deadline, message); !status.ok()) {
    again = line.isClosed();
    return refused(status);
  }
  if (message.type != Message::Type::Challenge || message.text.size() != kNonceBytes)
    return refused(Status::error(MOERT_ERROR_INTERNAL, "it sent something else"));
  first.nonces.first = message.text;
  if (Status status = makeNonce(first.nonces.other); !status.ok())
    return status;
  std::string hello = encode(makeHello({options.index, options.count, ownName()}, first.nonces, options.secret));
  if (Status status = first.socket.write(hello.data(), hello.size(), deadline); !status.ok())
    return refused(status);
  do {
    Clock::time_point silent = after(std::max(options.timeout, 4 * kComfort));
    if (Status status = line.next(silent, message); !status.ok())
      return refused(status, line.isClosed() ? "; do all ranks have the same secret?" : "");
  } while (message.type == Message::Type::Ping);
  if (message.type == Message::Type::Failed)
    return decoded(message.text);
  first.rest = line.takeRest();
  if (readWelcome(message, first.nonces, options.secret, first.name))
    return {};
  return refused(Status::error(MOERT_ERROR_INVALID_ARGUMENT, "it does not know the job's secret"));
}

} // namespace

std::string ownName() {
  char host[256] = "?";
  ::gethostname(host, sizeof host - 1);
  return "process " + std::to_string(::getpid()) + " on host '" + host + "'";
}

Status admit(const JoinOptions &options, Socket listener, std::vector<Arrival> &arrivals) {
  return Door(options, arrivals).admitAll(std::move(listener));
}

Status enter(const JoinOptions &options, Arrival &first) {
  Clock::time_point deadline = after(options.timeout);
  while (true) {
    first = {};
    if (Status status = Socket::connect(options.place, deadline, first.socket); !status.ok())
      return Status::error(status.code,
                           "rank " + std::to_string(options.index) + " does not reach rank 0: " + status.message);
    bool again = false;
    Status status = greet(options, deadline, first, again);
    if (status.ok())
      return {};
    if (!again || Clock::now() > deadline)
      return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

} // namespace moert::net
