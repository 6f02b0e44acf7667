//===- Engine.cpp - devices in virtual time -------------------------------===//
//
// A *slot* is the head of one stream of one rank. Every event happens at a slot or in the network. A launch is ready
// when the last of its dependencies ends, begins when its host has issued it, and ends when its work is done. The
// engine handles all events of one time before it computes the speeds of the devices that they touch. So the order of
// simultaneous events has no effect.
//
//===----------------------------------------------------------------------===//
#include "Engine.h"

#include "HostClock.h"
#include "IndexedHeap.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir::moe;

namespace {
/// Number of sets of resources, with a bit for each resource.
constexpr unsigned numMasks = 1u << kNumResources;

struct Slot {
  enum class State : uint8_t { Idle, Unissued, Issuing, Arrived, Working, Exchanging } state = State::Idle;
  Resource resource = Resource::None;
  uint32_t launch = 0;
  int32_t cause = -1;
  uint32_t exchange = 0; ///< number in the network
  double begin = 0;
  LocalWork work; ///< an exchange uses only the speed
};

/// Members that have arrived at a meeting.
struct Arrivals {
  uint32_t arrived = 0;
  uint32_t firstRank = 0;
};

/// An exchange that runs, with the slot that arrived last.
struct Running {
  MeetingId id;
  uint32_t slot = 0;
};

class Engine {
public:
  explicit Engine(const Execution &execution);
  llvm::Error run();
  std::vector<SimTime> times;

private:
  void beginAll();
  void step();
  void advanceNetwork();
  void settle();
  llvm::Error hang() const;

  void makeReady(uint32_t rank, uint32_t launch, int32_t cause);
  void issue(uint32_t slot);
  void begin(uint32_t slot);
  void arrive(uint32_t slot);
  void startExchange(uint32_t slot);
  void joinExchange(uint32_t slot, uint32_t exchange, int32_t cause);
  void end(uint32_t slot);

  void changeBusy(uint32_t rank, Resource resource, int change);
  void updateDevice(uint32_t rank);
  void updateSlot(uint32_t slot, unsigned mask);

  uint32_t getRankOf(uint32_t slot) const { return slot / numStreams; }
  const LinkedProgram &getLinked(uint32_t rank) const { return world.linked[ranks[rank].program]; }
  const LinkedLaunch &getLaunch(uint32_t slot) const { return getLinked(getRankOf(slot)).launches[slots[slot].launch]; }
  MeetingId getMeeting(uint32_t slot) const {
    return world.getMeeting(ranks[getRankOf(slot)].rank, slots[slot].launch);
  }
  uint32_t getMember(uint32_t slot) const {
    return world.groups[getLaunch(slot).group].getMember(ranks[getRankOf(slot)].rank);
  }
  uint32_t getMemberSlot(const MeetingId &id, int64_t member) const;
  /// Index in `ranks` of the rank that stands for `rank`.
  uint32_t getIndex(int64_t rank) const;
  /// Whether the arriving rank stands for all members. The two members of a channel are of different classes.
  bool isAlone(const MeetingId &id) const { return representative && !world.groups[id.group].isChannel(); }

  const Execution &execution;
  const SimWorld &world;
  llvm::ArrayRef<SimRank> ranks;
  const uint32_t numStreams;
  /// Whether each rank stands for its class. The other members of its groups do the same at the same time.
  const bool representative;
  std::unique_ptr<Network> network;

  FirstError error;
  double now = 0;
  size_t numLaunches = 0; ///< on all ranks
  IndexedHeap heap;       ///< for slots
  std::vector<Slot> slots;
  std::vector<HostProgram> hostPrograms;      ///< parallel to the world's programs
  std::vector<HostClock> hosts;               ///< by rank
  std::vector<std::vector<uint32_t>> missing; ///< dependencies that have not ended, by rank and launch
  /// Meetings that wait for members, by group, instance and number.
  llvm::DenseMap<std::tuple<uint32_t, uint32_t, uint32_t>, Arrivals> meetings;
  std::vector<Running> running;                          ///< by number in the network
  std::vector<std::array<uint16_t, kNumResources>> busy; ///< number of launches that use each resource, by rank
  std::array<std::array<double, numMasks>, kNumResources> speeds; ///< NaN until asked for

  // Events of the present time.
  std::vector<uint32_t> ended; ///< slots
  std::vector<uint32_t> touchedRanks;
  std::vector<bool> isTouched; ///< by rank
  llvm::SmallVector<Network::Completion> completions;
};
} // namespace

//===----------------------------------------------------------------------===//
// Set-up
//===----------------------------------------------------------------------===//

Engine::Engine(const Execution &execution)
    : execution(execution), world(execution.world), ranks(execution.ranks), numStreams(std::max(1u, world.numStreams)),
      representative(static_cast<int64_t>(ranks.size()) < world.getNumRanks()),
      network(execution.model.createNetwork()), heap(static_cast<uint32_t>(ranks.size()) * numStreams),
      slots(ranks.size() * numStreams), busy(ranks.size()), isTouched(ranks.size()) {
  for (auto &bySet : speeds)
    bySet.fill(std::nan(""));
  const HostIssue &host = execution.model.getProfile().host;
  for (const SimProgram &program : world.programs)
    hostPrograms.emplace_back(program, host);
  for (const SimRank &rank : ranks) {
    hosts.emplace_back(hostPrograms[rank.program], host.countsSeconds.value_or(0));
    std::vector<uint32_t> &numbers = missing.emplace_back();
    for (const LinkedLaunch &launch : world.linked[rank.program].launches)
      numbers.push_back(launch.deps.size());
    numLaunches += numbers.size();
  }
  times.reserve(numLaunches);
}

void Engine::beginAll() {
  for (uint32_t rank = 0; rank < ranks.size(); ++rank)
    for (auto [launch, linked] : llvm::enumerate(getLinked(rank).launches))
      if (linked.deps.empty())
        makeReady(rank, launch, -1);
  settle();
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

void Engine::makeReady(uint32_t rank, uint32_t launch, int32_t cause) {
  uint32_t index = rank * numStreams + getLinked(rank).launches[launch].stream;
  slots[index].launch = launch;
  slots[index].cause = cause;
  issue(index);
}

/// Begins the launch at the slot once it is issued.
void Engine::issue(uint32_t index) {
  Slot &slot = slots[index];
  const HostClock &host = hosts[getRankOf(index)];
  std::optional<double> issued = host.getIssued(slot.launch);
  bool isLate = slot.state == Slot::State::Unissued || !issued || *issued > now;
  if (isLate)
    slot.cause = host.getCause();
  if (issued && *issued <= now)
    return begin(index);
  slot.state = issued ? Slot::State::Issuing : Slot::State::Unissued;
  if (issued)
    heap.set(index, *issued);
}

void Engine::begin(uint32_t index) {
  const LinkedLaunch &launch = getLaunch(index);
  Slot &slot = slots[index];
  slot.begin = now;
  slot.resource = launch.resource;
  if (launch.exchanges() && world.groups[launch.group].size > 1)
    return arrive(index);
  uint32_t rank = getRankOf(index);
  double seconds = execution.getSeconds(rank, slot.launch);
  if (seconds == 0 || launch.exchanges()) {
    slot.state = Slot::State::Idle;
    ended.push_back(index);
    return;
  }
  slot.state = Slot::State::Working;
  slot.work = {seconds, now};
  changeBusy(rank, slot.resource, 1);
}

void Engine::end(uint32_t index) {
  Slot &slot = slots[index];
  uint32_t rank = getRankOf(index), launch = slot.launch;
  auto time = static_cast<int32_t>(times.size());
  times.push_back(execution.makeTime(rank, launch, getLaunch(index).exchanges(), slot.begin, now, slot.cause));
  if (slot.state != Slot::State::Idle)
    changeBusy(rank, slot.resource, -1);
  slot.state = Slot::State::Idle;
  for (uint32_t next : getLinked(rank).launches[launch].successors)
    if (--missing[rank][next] == 0)
      makeReady(rank, next, time);
  if (!hosts[rank].end(launch, now, time))
    return;
  for (uint32_t waiting = rank * numStreams; waiting < (rank + 1) * numStreams; ++waiting)
    if (slots[waiting].state == Slot::State::Unissued)
      issue(waiting);
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

uint32_t Engine::getIndex(int64_t rank) const {
  if (!representative)
    return rank;
  // Each class has consecutive ranks.
  auto next = llvm::partition_point(ranks, [&](const SimRank &it) { return it.rank <= rank; });
  return std::prev(next) - ranks.begin();
}

uint32_t Engine::getMemberSlot(const MeetingId &id, int64_t member) const {
  uint32_t index = getIndex(world.getRank(id, member));
  uint32_t launch = *world.getMeetingLaunch(ranks[index].rank, id);
  return index * numStreams + getLinked(index).launches[launch].stream;
}

void Engine::arrive(uint32_t index) {
  MeetingId id = getMeeting(index);
  if (isAlone(id))
    return startExchange(index);
  slots[index].state = Slot::State::Arrived;
  int64_t rank = ranks[getRankOf(index)].rank;
  // If ranks stand for classes, the class of the first member stands for the instance.
  uint32_t instance = representative ? getIndex(world.getRank(id, 0)) : id.instance;
  Arrivals &meeting = meetings[{id.group, instance, id.number}];
  if (meeting.arrived == 0)
    meeting.firstRank = rank;
  else
    error.take(checkSameExchange(world, meeting.firstRank, *world.getMeetingLaunch(meeting.firstRank, id), rank,
                                 slots[index].launch));
  if (++meeting.arrived == world.groups[id.group].size && !error)
    startExchange(index);
}

/// Starts an exchange when its last member has arrived, at slot `index`.
void Engine::startExchange(uint32_t index) {
  MeetingId id = getMeeting(index);
  int64_t rank = representative ? ranks[getRankOf(index)].rank : world.getRank(id, 0);
  uint32_t launch = *world.getMeetingLaunch(rank, id);
  llvm::Expected<GroupExchange> exchange = execution.exchanges.make(rank, launch);
  if (!exchange)
    return error.take(exchange.takeError());
  llvm::Expected<uint32_t> number = network->start(now, *exchange);
  if (!number)
    return error.take(addLaunch(number.takeError(), world.getProgram(rank), launch));
  running.resize(std::max<size_t>(running.size(), *number + size_t(1)));
  running[*number] = {id, index};
  int32_t cause = slots[index].cause;
  if (isAlone(id))
    return joinExchange(index, *number, cause);
  for (int64_t member = 0; member < world.groups[id.group].size; ++member)
    joinExchange(getMemberSlot(id, member), *number, cause);
}

void Engine::joinExchange(uint32_t index, uint32_t exchange, int32_t cause) {
  Slot &slot = slots[index];
  slot.state = Slot::State::Exchanging;
  slot.begin = now;
  slot.cause = cause;
  slot.exchange = exchange;
  slot.work.speed = 1;
  changeBusy(getRankOf(index), Resource::Network, 1);
}

//===----------------------------------------------------------------------===//
// Speeds
//===----------------------------------------------------------------------===//

void Engine::changeBusy(uint32_t rank, Resource resource, int change) {
  busy[rank][static_cast<unsigned>(resource)] += change;
  if (isTouched[rank])
    return;
  isTouched[rank] = true;
  touchedRanks.push_back(rank);
}

/// Adapts the slot's speed to the set `mask` of resources that its device uses from now on.
void Engine::updateSlot(uint32_t index, unsigned mask) {
  Slot &slot = slots[index];
  bool exchanging = slot.state == Slot::State::Exchanging;
  if (!exchanging && slot.state != Slot::State::Working)
    return;
  double &known = speeds[static_cast<unsigned>(slot.resource)][mask];
  if (std::isnan(known))
    error.take(execution.model.getSpeed(slot.resource, mask).moveInto(known));
  // Launches of one kind share the device. The network divides links itself.
  double speed = exchanging ? known : known / busy[getRankOf(index)][static_cast<unsigned>(slot.resource)];
  if (error || speed == slot.work.speed)
    return;
  double end = slot.work.setSpeed(now, speed);
  if (exchanging)
    network->setSpeed(now, slot.exchange, getMember(index), speed);
  else
    heap.set(index, end);
}

void Engine::updateDevice(uint32_t rank) {
  unsigned mask = 0;
  for (unsigned resource = 0; resource < kNumResources; ++resource)
    mask |= busy[rank][resource] > 0 ? 1u << resource : 0;
  for (uint32_t index = rank * numStreams; index < (rank + 1) * numStreams; ++index)
    updateSlot(index, mask);
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

/// Carries out all events that follow at the present time from the slots in `ended`.
void Engine::settle() {
  // Ends let other launches begin, and some of those end at once.
  for (size_t i = 0; i < ended.size() && !error; ++i)
    end(ended[i]);
  ended.clear();
  for (uint32_t rank : touchedRanks) {
    isTouched[rank] = false;
    updateDevice(rank);
  }
  touchedRanks.clear();
}

void Engine::advanceNetwork() {
  completions.clear();
  network->advance(now, completions);
  for (const Network::Completion &it : completions) {
    const Running &exchange = running[it.exchange];
    if (!isAlone(exchange.id))
      ended.push_back(getMemberSlot(exchange.id, it.member));
    else if (getMember(exchange.slot) == it.member)
      ended.push_back(exchange.slot);
  }
}

void Engine::step() {
  double networkTime = network->getNextTime();
  now = std::max(now, std::min(networkTime, heap.getTime()));
  if (networkTime <= heap.getTime())
    advanceNetwork();
  else if (uint32_t index = heap.pop(); slots[index].state == Slot::State::Working)
    ended.push_back(index);
  else
    begin(index);
  settle();
}

llvm::Error Engine::run() {
  beginAll();
  while (!error && !(std::isinf(heap.getTime()) && std::isinf(network->getNextTime())))
    step();
  return error || times.size() == numLaunches ? error.get() : hang();
}

/// Names the first rank that waits in a meeting, and the first member that does not come.
llvm::Error Engine::hang() const {
  for (uint32_t index = 0; index < slots.size(); ++index) {
    const Slot &slot = slots[index];
    if (slot.state != Slot::State::Arrived)
      continue;
    MeetingId id = getMeeting(index);
    for (int64_t member = 0; member < world.groups[id.group].size; ++member) {
      int64_t other = world.getRank(id, member);
      std::optional<uint32_t> launch = world.getMeetingLaunch(other, id);
      if (launch) {
        const Slot &otherSlot = slots[getMemberSlot(id, member)];
        if (otherSlot.state == Slot::State::Arrived && otherSlot.launch == *launch)
          continue;
      }
      return makeHangError(world, ranks[getRankOf(index)].rank, slot.launch, other, launch);
    }
  }
  return llvm::createStringError("the step does not end: a launch takes infinitely long");
}

llvm::Expected<std::vector<SimTime>> mlir::moe::runOnDevices(const Execution &execution) {
  Engine engine(execution);
  if (llvm::Error error = engine.run())
    return error;
  return std::move(engine.times);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

llvm::Error mlir::moe::makeHangError(const SimWorld &world, int64_t rank, uint32_t launch, int64_t other,
                                     std::optional<uint32_t> otherLaunch) {
  const SimProgram &program = world.getProgram(rank);
  const SimGroup &group = world.groups[world.getMeeting(rank, launch).group];
  std::string text = "the programs hang: rank " + std::to_string(rank) + " waits in " + describe(program, launch) +
                     " over group '" + group.name + "' for rank " + std::to_string(other);
  if (otherLaunch)
    return llvm::createStringError(text + ", which never reaches " + describe(world.getProgram(other), *otherLaunch));
  return llvm::createStringError(text + ", whose program has no such collective");
}

llvm::Error mlir::moe::checkSameExchange(const SimWorld &world, int64_t rank, uint32_t launch, int64_t other,
                                         uint32_t otherLaunch) {
  const SimProgram &program = world.getProgram(rank), &otherProgram = world.getProgram(other);
  if (&program == &otherProgram && launch == otherLaunch)
    return llvm::Error::success();
  const SimLaunch &a = program.launches[launch], &b = otherProgram.launches[otherLaunch];
  auto getAll = [](const SimLaunch &it) {
    return std::tie(it.cost.collective, it.cost.payload, it.cost.root, it.cost.phase, it.cost.phases, it.cost.copies,
                    it.dtype);
  };
  if (getAll(a) == getAll(b))
    return llvm::Error::success();
  const SimGroup &group = world.groups[world.getMeeting(rank, launch).group];
  auto exchange = [](const SimLaunch &it) {
    std::string text = (getName(it.cost.collective) + " of " + llvm::Twine(it.cost.payload) + " bytes of '").str();
    text += it.dtype + "'";
    if (it.cost.phases > 1)
      text += (" in phase " + llvm::Twine(it.cost.phase) + " of " + llvm::Twine(it.cost.phases)).str();
    return it.cost.copies > 1 ? (text + " in " + llvm::Twine(it.cost.copies) + " copies").str() : text;
  };
  return llvm::createStringError("the programs hang: over group '" + group.name + "' rank " + llvm::Twine(rank) +
                                 " reaches " + describe(program, launch) + " with " + exchange(a) + " but rank " +
                                 llvm::Twine(other) + " reaches " + describe(otherProgram, otherLaunch) + " with " +
                                 exchange(b));
}
