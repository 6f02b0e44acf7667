//===- Door.cpp - how processes come to process 0 -------------------------===//

#include "net/Door.h"
#include "net/Stall.h"

#include <list>
#include <poll.h>
#include <set>
#include <unistd.h>

namespace moert::net {
namespace {

/// Most bytes of a message from a process that has not said who it is.
constexpr int64_t kMostGreeting = 4096;
/// Number of connections that may wait at once besides those of ranks. The oldest one gives way to a new one.
constexpr size_t kMostStrangers = 256;
constexpr size_t kMostAccepted = 16, kMostNotes = 4;
/// Seconds that the last message of process 0 may take to arrive.
constexpr double kOnItsWay = 1;

/// Sends a message of a greeting. It is short and fits the system's buffer. A process that does not read it is found
/// out later.
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
  std::list<Arrival> guests;   ///< connections that have not said who they are, the oldest first
  std::set<std::string> notes; ///< processes that were turned away
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

/// Waits until something happens, or for a moment.
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

/// Whether a guest is done: it was let in or is turned away.
bool Door::isDone(Arrival &guest) {
  bool isOpen = guest.reader.readFrom(guest.socket);
  Message message;
  if (guest.reader.take(message)) {
    judge(guest, message);
    return true;
  }
  // The reader knows a message's length from its beginning, so it also refuses a message that is too long.
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

/// Checks the processes that were let in. They send nothing until all have come, but one may die.
Status Door::checkArrivals() {
  for (auto &[process, arrival] : arrivals)
    if (!arrival.reader.readFrom(arrival.socket))
      return Status::error(MOERT_ERROR_HANG, diedText(process, arrival));
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

/// Gets the next message of process 0, which must come before `deadline`. `isOpen`: whether it can send more.
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

/// Says hello to process 0 and waits for its answer, which comes when all have come or when it turns this process away.
Status greet(const JoinOptions &options, Arrival &first, Message &answer) {
  bool isOpen = true;
  MOERT_RETURN_IF_ERROR(hear(first, first.deadline, isOpen, answer));
  if (answer.type != Message::Type::Challenge || answer.text.size() != kNonceBytes)
    return Status::error(MOERT_ERROR_INTERNAL, "it sent something else");
  first.nonces.first = answer.text;
  MOERT_RETURN_IF_ERROR(makeNonce(first.nonces.other));
  tell(first.socket, makeHello({options.index, options.count, ownName()}, first.nonces, options.secret));
  // Process 0 began to wait before this process, and reports when its time is over.
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

std::string diedText(int64_t process, const Arrival &arrival) {
  return "rank " + std::to_string(process) + " (" + arrival.name + ") died: its connection closed";
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
