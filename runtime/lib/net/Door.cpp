//===- Door.cpp - how processes come to process 0 -------------------------===//

#include "net/Door.h"
#include "net/Stall.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <poll.h>
#include <set>
#include <unistd.h>

namespace moert::net {
namespace {

/// Largest message, in bytes, of a process that is not identified yet.
constexpr int64_t kMostGreeting = 4096;
/// Number of unidentified connections besides those of ranks. A new one replaces the oldest.
constexpr size_t kMostStrangers = 256;
constexpr size_t kMostAccepted = 16, kMostNotes = 4;
/// Seconds that the last message of process 0 may take to arrive.
constexpr double kOnItsWay = 1;

/// Sends a message of the handshake, which fits the system's buffer. A process that does not read it is noticed later.
void tell(const Socket &socket, const Message &message) {
  std::string bytes = encode(message);
  (void)socket.send(bytes.data(), bytes.size());
}

class Door {
public:
  Door(const JoinOptions &options, std::map<int64_t, Arrival> &arrivals) : options(options), arrivals(arrivals) {}
  Status admitAll(Socket listener);

private:
  bool areAllHere() const { return std::ssize(arrivals) == options.count - 1; }
  Status late() const;
  void lookAround();
  Status acceptSome();
  bool isDone(Arrival &guest);
  void judge(Arrival &guest, const Message &message);
  Status checkArrivals();
  void note(const std::string &text);
  void end(const Status &status);

  const JoinOptions &options;
  std::map<int64_t, Arrival> &arrivals;
  Endpoint place;
  Socket door;
  std::list<Arrival> guests;   ///< connections that are not identified yet, the oldest first
  std::set<std::string> notes; ///< processes that were refused
};

Status Door::admitAll(Socket listener) {
  Clock::time_point deadline = after(options.timeout);
  place = options.place;
  door = std::move(listener);
  if (!door)
    MOERT_RETURN_IF_ERROR(Socket::listen(place, door));
  Status status;
  while (status.ok() && !areAllHere()) {
    if (Clock::now() > deadline) {
      status = late();
      break;
    }
    lookAround();
    status = acceptSome();
    guests.remove_if([this](Arrival &guest) { return isDone(guest); });
    if (status.ok())
      status = checkArrivals();
  }
  end(status);
  return status;
}

Status Door::late() const {
  std::vector<int64_t> missing;
  for (int64_t i = 1; i < options.count; ++i)
    if (!arrivals.count(i))
      missing.push_back(i);
  std::string text = "rank 0 waited " + secondsText(options.timeout) + " s at " + place.text() +
                     (missing.size() > 1 ? " for ranks " : " for rank ") + ranksText(missing) +
                     ", which did not connect";
  for (const std::string &turnedAway : notes)
    text += "\n  refused: " + turnedAway;
  return Status::error(MOERT_ERROR_HANG, text);
}

/// Waits for connections and messages, but only briefly.
void Door::lookAround() {
  std::vector<pollfd> items{{door.get(), POLLIN, 0}};
  for (const Arrival &guest : guests)
    items.push_back({guest.socket.get(), POLLIN, 0});
  for (const auto &[process, arrival] : arrivals)
    items.push_back({arrival.socket.get(), POLLIN, 0});
  ::poll(items.data(), items.size(), 50);
}

Status Door::acceptSome() {
  for (size_t i = 0; i < kMostAccepted; ++i) {
    Arrival guest{{}, MessageReader(kMostGreeting), {}, after(options.greeting), ""};
    if (Status status = door.accept(guest.socket); !status.ok() || !guest.socket)
      return status;
    MOERT_RETURN_IF_ERROR(makeNonce(guest.nonces.first));
    tell(guest.socket, {Message::Type::Challenge, 0, guest.nonces.first});
    guests.push_back(std::move(guest));
    if (guests.size() > kMostStrangers + static_cast<size_t>(options.count))
      guests.pop_front();
  }
  return {};
}

/// Reads a guest's message. Returns whether the guest is no longer one: it was accepted or refused.
bool Door::isDone(Arrival &guest) {
  bool isOpen = guest.reader.readFrom(guest.socket);
  Message message;
  if (guest.reader.take(message)) {
    judge(guest, message);
    return true;
  }
  // Messages that are too long are refused, too: the reader knows a message's length from its header.
  return !isOpen || guest.reader.isBroken() || Clock::now() > guest.deadline;
}

void Door::judge(Arrival &guest, const Message &message) {
  Hello hello;
  if (!readHello(message, guest.nonces, options.secret, hello))
    return note("a connection that does not know the job's secret");
  guest.name = hello.name;
  std::string who = "rank " + std::to_string(hello.process) + " (" + guest.name + ")", refusal;
  if (hello.count != options.count || hello.process < 1 || hello.process >= options.count)
    refusal = who + " expects " + std::to_string(hello.count) + " processes, rank 0 " + std::to_string(options.count);
  else if (auto there = arrivals.find(hello.process); there != arrivals.end())
    refusal = who + " connected, but " + there->second.name + " already is that rank";
  if (refusal.empty()) {
    arrivals.emplace(hello.process, std::move(guest));
    return;
  }
  note(refusal);
  tell(guest.socket, {Message::Type::Failed, 0, encoded(invalid(refusal))});
}

/// Checks the accepted processes. They send nothing until all are connected, but one may die.
Status Door::checkArrivals() {
  for (auto &[process, arrival] : arrivals)
    if (!arrival.reader.readFrom(arrival.socket))
      return Status::error(MOERT_ERROR_HANG, lostText(process, arrival));
  return {};
}

void Door::note(const std::string &text) {
  if (notes.size() < kMostNotes)
    notes.insert(text);
}

void Door::end(const Status &status) {
  for (const auto &[process, arrival] : arrivals)
    tell(arrival.socket, status.ok() ? makeHello({0, options.count, ownName()}, arrival.nonces, options.secret)
                                     : Message{Message::Type::Failed, 0, encoded(status)});
}

/// Receives the next message of process 0, which must come before `deadline`. `isOpen`: whether the connection is open.
Status hear(Arrival &first, Clock::time_point deadline, bool &isOpen, Message &message) {
  while (!first.reader.take(message)) {
    if (first.reader.isBroken())
      return Status::error(MOERT_ERROR_INTERNAL, "it sent something else");
    if (!isOpen)
      return Status::error(MOERT_ERROR_INTERNAL, "the connection closed");
    if (Clock::now() > deadline)
      return Status::error(MOERT_ERROR_HANG, "it does not answer");
    pollfd item{first.socket.get(), POLLIN, 0};
    ::poll(&item, 1, millisecondsUntil(deadline, 1000));
    isOpen = first.reader.readFrom(first.socket);
  }
  return {};
}

/// Identifies this process to process 0 and waits for the answer. Process 0 answers when all processes are connected,
/// or when it refuses this one.
Status greet(const JoinOptions &options, Arrival &first, Message &answer) {
  bool isOpen = true;
  MOERT_RETURN_IF_ERROR(hear(first, first.deadline, isOpen, answer));
  if (answer.type != Message::Type::Challenge || answer.text.size() != kNonceBytes)
    return Status::error(MOERT_ERROR_INTERNAL, "it sent something else");
  first.nonces.first = answer.text;
  MOERT_RETURN_IF_ERROR(makeNonce(first.nonces.other));
  tell(first.socket, makeHello({options.index, options.count, ownName()}, first.nonces, options.secret));
  // Process 0 began to wait before this process, so its own time-out passes first, and it reports that.
  if (Status status = hear(first, after(options.timeout + kOnItsWay), isOpen, answer); !status.ok())
    return Status::error(status.code, status.message, isOpen ? "" : "; do all ranks have the same secret?");
  Hello hello;
  if (answer.type == Message::Type::Failed)
    return {};
  if (!readHello(answer, first.nonces, options.secret, hello) || hello.process != 0)
    return invalid("it does not know the job's secret");
  first.name = hello.name;
  return {};
}

} // namespace

std::string lostText(int64_t process, const Arrival &arrival) {
  const std::string who = "rank " + std::to_string(process) + " (" + arrival.name + ") ";
  const int error = arrival.reader.endedBy();
  // The system of a machine that runs closes the connections of a process that died.
  constexpr std::array kUnreachable = {ETIMEDOUT, EHOSTUNREACH, EHOSTDOWN, ENETUNREACH, ENETDOWN};
  if (std::ranges::find(kUnreachable, error) != kUnreachable.end())
    return who + "is not reachable: " + std::strerror(error);
  return who + "died: its connection closed";
}

std::string ownName() {
  char host[256] = "?";
  ::gethostname(host, sizeof host - 1);
  return "process " + std::to_string(::getpid()) + " on host '" + host + "'";
}

Status admit(const JoinOptions &options, Socket listener, std::map<int64_t, Arrival> &arrivals) {
  return Door(options, arrivals).admitAll(std::move(listener));
}

Status enter(const JoinOptions &options, std::map<int64_t, Arrival> &arrivals) {
  const std::string who = "rank " + std::to_string(options.index);
  Arrival first{{}, MessageReader(kMostGreeting), {}, after(options.timeout), ""};
  if (Status status = Socket::connect(options.place, first.deadline, first.socket); !status.ok())
    return Status::error(status.code, who, " does not reach rank 0: ", status.message);
  Message answer;
  if (Status status = greet(options, first, answer); !status.ok())
    return Status::error(status.code, "rank 0 did not let ", who, " in: ", status.message);
  if (answer.type == Message::Type::Failed)
    return decoded(answer.text);
  arrivals.emplace(0, std::move(first));
  return {};
}

} // namespace moert::net
