//===- Processors.cpp - the host runtime in virtual time ------------------===//
//
// What runtime/lib/host/Executor.cpp does, on a clock that does not tick: a node's processors take jobs from a queue. A
// job issues a rank's launches, carries a stream on until it has to wait, or carries out one member's share of an
// exchange. Processors that are busy at once slow each other.
//
//===----------------------------------------------------------------------===//
#include "Engine.h"

#include "IndexedHeap.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <deque>
#include <queue>

using namespace mlir::moe;

namespace {
/// An entry of a stream, as the executor keeps it.
struct Item {
  SimOp::Kind kind;
  uint32_t index; ///< of the launch, or of the record that is made or waited for
};

/// The streams of a program. Each record is its own; a wait is for the last one of its event before it.
struct Streams {
  explicit Streams(const SimProgram &program);
  std::vector<std::vector<Item>> items; ///< by stream
  uint32_t numRecords = 0;
};

struct Job {
  enum class Type : uint8_t { Issue, Stream, Share } type;
  uint32_t index;       ///< rank, slot, or member
  uint32_t meeting = 0; ///< of a share
  double pushed = 0;
  int32_t trigger = -1; ///< into times: why it was pushed then and not before
};

/// A slot is a stream of a rank.
struct Slot {
  size_t head = 0;
  /// The next in the list of those that wait for a record.
  int32_t nextWaiting = -1;
};

struct Record {
  bool done = false;
  int32_t firstWaiting = -1; ///< slot
};

struct Meeting {
  MeetingId id;
  uint32_t arrived = 0, remaining = 0;
  uint32_t firstRank = 0;
  double begin = 0;
  int32_t cause = -1;
  std::vector<double> shares; ///< by member: seconds
};

struct Processor {
  Job job{};
  Resource resource = Resource::None;
  uint32_t launch = 0;
  double begin = 0;
  double remaining = 0, since = 0, speed = 0;
  int32_t cause = -1;
  /// Into times: what it was busy with last, of what has a time; issuing and shares of exchanges under way have none.
  int32_t last = -1;
  /// Into times: why its present job goes on now and not before.
  int32_t trigger = -1;
  bool busy = false;
};

/// A transfer whose work is done and whose links are not: an exchange, or a launch of one stream.
struct Timer {
  double due;
  int32_t meeting = -1; ///< else the stream's
  uint32_t slot = 0, launch = 0;
  double begin = 0;
  int32_t cause = -1;

  bool operator>(const Timer &other) const { return due > other.due; }
};

struct Node {
  std::deque<Job> ready;
  std::vector<uint32_t> idle; ///< processors
  uint32_t numBusy = 0;
};

class Executor {
public:
  explicit Executor(const Execution &execution);
  llvm::Error run();
  std::vector<SimTime> times;

private:
  // The runtime's functions, by the same names.
  llvm::Error runJob(uint32_t processor);
  void issueRank(uint32_t processor);
  llvm::Error advance(uint32_t processor);
  llvm::Error runItem(uint32_t processor, const Item &item, bool &goesOn);
  llvm::Error runCall(uint32_t processor, uint32_t launch, bool &goesOn);
  void wake(uint32_t processor, Record &record);
  llvm::Error arrive(uint32_t processor, uint32_t launch);
  llvm::Error price(Meeting &meeting) const;
  /// The last of the members' times.
  int32_t complete(const Meeting &meeting);
  /// Where links are emulated: when a transfer that began at `begin` is over at the earliest.
  double getDue(uint32_t rank, uint32_t launch, double begin) const;
  void expire();

  void push(uint32_t rank, Job job, int32_t trigger);
  void work(uint32_t processor, Resource resource, double seconds);
  llvm::Error finish(uint32_t processor);
  llvm::Error dispatch();
  llvm::Error updateNode(Node &node, uint32_t first);
  llvm::Expected<double> getSpeed(Resource resource, uint32_t numBusy) const;

  int32_t addTime(uint32_t rank, uint32_t launch, double begin, int32_t cause);
  bool isLater(int32_t time, int32_t than) const {
    return time >= 0 && (than < 0 || times[time].end > times[than].end);
  }
  int32_t findCause(const Processor &processor, uint32_t rank, uint32_t launch) const;
  llvm::Error hang() const;

  uint32_t getNode(uint32_t rank) const { return rank / execution.model.getProfile().devicesPerNode; }
  uint32_t getRankOf(uint32_t slot) const { return slot / numStreams; }
  const Streams &getStreams(uint32_t rank) const { return streams[world.programOfRank[rank]]; }
  const std::vector<Item> &getItems(uint32_t slot) const {
    return getStreams(getRankOf(slot)).items[slot % numStreams];
  }

  const Execution &execution;
  const World &world;
  const Processors &shared; ///< of the profile
  const uint32_t numStreams;
  const uint32_t perNode;       ///< processors that can ever be busy: each stream has one job at a time
  std::vector<Streams> streams; ///< by program

  double now = 0;
  std::vector<Slot> slots;
  std::vector<std::vector<Record>> records; ///< by rank
  std::vector<double> issued;               ///< by rank: when it was
  std::vector<std::vector<int32_t>> timeOf; ///< by rank and launch, into times
  std::vector<Meeting> meetings;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> meetingNumbers; ///< by group, instance and number
  std::vector<Node> nodes;
  std::vector<Processor> processors; ///< node by node
  std::vector<uint32_t> changedNodes;
  IndexedHeap heap; ///< of processors
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers;
};
} // namespace

Streams::Streams(const SimProgram &program) : items(std::max<size_t>(1, program.streams.size())) {
  llvm::DenseMap<uint32_t, uint32_t> lastRecord;
  for (const SimOp &op : program.ops) {
    uint32_t index = op.index;
    if (op.kind == SimOp::Kind::Record)
      index = lastRecord[op.index] = numRecords++;
    else if (op.kind == SimOp::Kind::Wait)
      index = lastRecord.lookup(op.index);
    items[op.stream].push_back({op.kind, index});
  }
}

static uint32_t getNumNodes(const World &world, const ClusterProfile &profile) {
  return llvm::divideCeil(world.getNumRanks(), profile.devicesPerNode);
}

Executor::Executor(const Execution &execution)
    : execution(execution), world(execution.world), shared(execution.model.getProfile().processors),
      numStreams(std::max(1u, world.numStreams)),
      perNode(std::min(shared.count, execution.model.getProfile().devicesPerNode * int64_t(numStreams))),
      slots(world.getNumRanks() * numStreams), issued(world.getNumRanks(), 0),
      nodes(getNumNodes(world, execution.model.getProfile())), processors(nodes.size() * perNode),
      heap(static_cast<uint32_t>(processors.size())) {
  for (const SimProgram &program : world.programs)
    streams.emplace_back(program);
  for (int64_t rank = 0; rank < world.getNumRanks(); ++rank) {
    records.emplace_back(getStreams(rank).numRecords);
    timeOf.emplace_back(world.getProgram(rank).launches.size(), -1);
  }
  // The first processor is taken first.
  for (uint32_t processor = processors.size(); processor-- > 0;)
    nodes[processor / perNode].idle.push_back(processor);
}

//===----------------------------------------------------------------------===//
// Jobs
//===----------------------------------------------------------------------===//

void Executor::push(uint32_t rank, Job job, int32_t trigger) {
  job.pushed = now;
  job.trigger = trigger;
  nodes[getNode(rank)].ready.push_back(job);
}

/// Keeps a processor busy. What takes no time is for the caller to do at once.
void Executor::work(uint32_t index, Resource resource, double seconds) {
  Processor &processor = processors[index];
  processor.resource = resource;
  processor.begin = processor.since = now;
  processor.remaining = seconds;
  processor.speed = 0;
  processor.busy = true;
}

llvm::Error Executor::runJob(uint32_t index) {
  const Job &job = processors[index].job;
  switch (job.type) {
  case Job::Type::Issue: {
    double seconds =
        execution.model.getProfile().launchSeconds * static_cast<double>(world.getProgram(job.index).launches.size());
    work(index, Resource::None, seconds);
    return llvm::Error::success();
  }
  case Job::Type::Stream:
    return advance(index);
  case Job::Type::Share: {
    const Meeting &meeting = meetings[job.meeting];
    double seconds = meeting.shares[job.index];
    work(index, seconds > 0 ? Resource::Network : Resource::None, seconds);
    return llvm::Error::success();
  }
  }
  return llvm::Error::success();
}

void Executor::issueRank(uint32_t index) {
  uint32_t rank = processors[index].job.index;
  issued[rank] = now;
  for (uint32_t slot = rank * numStreams; slot < rank * numStreams + getStreams(rank).items.size(); ++slot)
    if (!getItems(slot).empty())
      push(rank, {Job::Type::Stream, slot}, processors[index].trigger);
}

/// Runs a stream's items until one takes time or has to wait.
llvm::Error Executor::advance(uint32_t index) {
  uint32_t slot = processors[index].job.index;
  const std::vector<Item> &items = getItems(slot);
  bool goesOn = true;
  while (slots[slot].head < items.size()) {
    if (llvm::Error error = runItem(index, items[slots[slot].head], goesOn))
      return error;
    if (!goesOn)
      return llvm::Error::success();
    ++slots[slot].head;
  }
  return llvm::Error::success();
}

llvm::Error Executor::runItem(uint32_t index, const Item &item, bool &goesOn) {
  uint32_t slot = processors[index].job.index, rank = getRankOf(slot);
  if (item.kind == SimOp::Kind::Launch)
    return runCall(index, item.index, goesOn);
  Record &record = records[rank][item.index];
  if (item.kind == SimOp::Kind::Record) {
    wake(index, record);
    return llvm::Error::success();
  }
  goesOn = record.done;
  if (goesOn)
    return llvm::Error::success();
  int32_t *last = &record.firstWaiting;
  while (*last >= 0)
    last = &slots[*last].nextWaiting;
  *last = slot;
  return llvm::Error::success();
}

void Executor::wake(uint32_t index, Record &record) {
  record.done = true;
  while (record.firstWaiting >= 0) {
    uint32_t slot = record.firstWaiting;
    record.firstWaiting = slots[slot].nextWaiting;
    slots[slot].nextWaiting = -1;
    ++slots[slot].head;
    push(getRankOf(slot), {Job::Type::Stream, slot}, processors[index].trigger);
  }
}

llvm::Error Executor::runCall(uint32_t index, uint32_t launch, bool &goesOn) {
  Processor &processor = processors[index];
  uint32_t rank = getRankOf(processor.job.index);
  const LinkedLaunch &linked = world.getLinked(rank).launches[launch];
  goesOn = false;
  if (linked.group >= 0)
    return arrive(index, launch);
  int32_t cause = findCause(processor, rank, launch);
  double seconds = execution.costs.get(rank)[launch].seconds * execution.slowdown[rank];
  if (seconds == 0) {
    goesOn = true;
    processor.last = processor.trigger = addTime(rank, launch, now, cause);
    return llvm::Error::success();
  }
  processor.launch = launch;
  processor.cause = cause;
  work(index, linked.resource, seconds);
  return llvm::Error::success();
}

/// What a processor was busy with is over.
llvm::Error Executor::finish(uint32_t index) {
  Processor &processor = processors[index];
  Job job = processor.job;
  processor.busy = false;
  if (job.type == Job::Type::Stream) {
    if (double due = getDue(getRankOf(job.index), processor.launch, processor.begin); due > now) {
      timers.push({due, -1, job.index, processor.launch, processor.begin, processor.cause});
    } else {
      processor.last = processor.trigger =
          addTime(getRankOf(job.index), processor.launch, processor.begin, processor.cause);
      ++slots[job.index].head;
      // Where links are emulated, a stream lets others go first after each call.
      if (execution.emulateLinks)
        push(getRankOf(job.index), {Job::Type::Stream, job.index}, processor.last);
      else if (llvm::Error error = advance(index))
        return error;
    }
  } else if (job.type == Job::Type::Issue) {
    issueRank(index);
  } else if (Meeting &meeting = meetings[job.meeting]; --meeting.remaining == 0) {
    if (double due = getDue(meeting.firstRank, *world.getMeetingLaunch(meeting.firstRank, meeting.id), meeting.begin);
        due > now)
      timers.push({due, static_cast<int32_t>(job.meeting)});
    else
      processor.last = complete(meeting);
  }
  uint32_t node = index / perNode;
  changedNodes.push_back(node);
  if (!processor.busy) {
    --nodes[node].numBusy;
    nodes[node].idle.push_back(index);
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

llvm::Error Executor::arrive(uint32_t index, uint32_t launch) {
  const Processor &processor = processors[index];
  uint32_t rank = getRankOf(processor.job.index);
  MeetingId id = world.getMeeting(rank, launch);
  auto [entry, isNew] = meetingNumbers.try_emplace({id.group, id.instance, id.number}, meetings.size());
  if (isNew)
    meetings.push_back({id, 0, 0, rank, 0, -1, {}});
  Meeting &meeting = meetings[entry->second];
  if (llvm::Error error =
          checkSameExchange(world, meeting.firstRank, *world.getMeetingLaunch(meeting.firstRank, id), rank, launch))
    return error;
  meeting.remaining = world.groups[id.group].size;
  if (++meeting.arrived < meeting.remaining)
    return llvm::Error::success();
  meeting.begin = now;
  meeting.cause = findCause(processor, rank, launch);
  if (llvm::Error error = price(meeting))
    return error;
  for (uint32_t member = 0; member < meeting.remaining; ++member)
    push(world.getRank(id, member), {Job::Type::Share, member, entry->second}, processor.trigger);
  return llvm::Error::success();
}

/// Where members only say something of their values, or one is alone, shares take no time.
llvm::Error Executor::price(Meeting &meeting) const {
  int64_t size = world.groups[meeting.id.group].size, first = world.getRank(meeting.id, 0);
  uint32_t launch = *world.getMeetingLaunch(first, meeting.id);
  meeting.shares.assign(size, 0);
  if (!world.getLinked(first).launches[launch].exchanges() || size == 1)
    return llvm::Error::success();
  llvm::Expected<Exchange> exchange = execution.exchanges.make(first, launch);
  if (!exchange)
    return exchange.takeError();
  for (int64_t member = 0; member < size; ++member) {
    llvm::Expected<double> share = execution.model.getShareSeconds(*exchange, member);
    if (!share)
      return addLaunch(share.takeError(), world.getProgram(first), launch);
    meeting.shares[member] = *share;
  }
  return llvm::Error::success();
}

int32_t Executor::complete(const Meeting &meeting) {
  int32_t last = -1;
  for (int64_t member = 0; member < world.groups[meeting.id.group].size; ++member) {
    auto rank = static_cast<uint32_t>(world.getRank(meeting.id, member));
    uint32_t launch = *world.getMeetingLaunch(rank, meeting.id);
    uint32_t slot = rank * numStreams + world.getLinked(rank).launches[launch].stream;
    last = addTime(rank, launch, meeting.begin, meeting.cause);
    ++slots[slot].head;
    push(rank, {Job::Type::Stream, slot}, last);
  }
  return last;
}

//===----------------------------------------------------------------------===//
// Emulated links
//===----------------------------------------------------------------------===//

double Executor::getDue(uint32_t rank, uint32_t launch, double begin) const {
  return execution.emulateLinks ? begin + world.getLaunch(rank, launch).transferSeconds : begin;
}

/// The links of the first timer are done.
void Executor::expire() {
  Timer timer = timers.top();
  timers.pop();
  if (timer.meeting >= 0) {
    complete(meetings[timer.meeting]);
    return;
  }
  uint32_t rank = getRankOf(timer.slot);
  int32_t time = addTime(rank, timer.launch, timer.begin, timer.cause);
  ++slots[timer.slot].head;
  push(rank, {Job::Type::Stream, timer.slot}, time);
}

//===----------------------------------------------------------------------===//
// Causes
//===----------------------------------------------------------------------===//

int32_t Executor::addTime(uint32_t rank, uint32_t launch, double begin, int32_t cause) {
  const LaunchCost &cost = execution.costs.get(rank)[launch];
  auto index = static_cast<int32_t>(times.size());
  times.push_back({rank, launch, begin, now, cause, cost.rows, cost.flops, cost.bytes});
  return timeOf[rank][launch] = index;
}

/// What ended last of the launch's dependencies, its issue, and what kept the processors busy while it was ready.
int32_t Executor::findCause(const Processor &processor, uint32_t rank, uint32_t launch) const {
  int32_t cause = -1;
  for (uint32_t dep : world.getLinked(rank).getDeps(launch))
    if (int32_t time = timeOf[rank][dep]; isLater(time, cause))
      cause = time;
  if (isLater(processor.trigger, cause))
    cause = processor.trigger;
  return cause >= 0 && times[cause].end < issued[rank] ? -1 : cause;
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

/// Idle processors take what is ready, in its order.
llvm::Error Executor::dispatch() {
  for (uint32_t index = 0; index < nodes.size(); ++index) {
    Node &node = nodes[index];
    while (!node.ready.empty() && !node.idle.empty()) {
      uint32_t number = node.idle.back();
      Processor &processor = processors[number];
      processor.job = node.ready.front();
      processor.trigger = processor.job.trigger;
      // It could have run before, had the processor been free.
      if (processor.job.pushed < now && isLater(processor.last, processor.trigger))
        processor.trigger = processor.last;
      node.ready.pop_front();
      if (llvm::Error error = runJob(number))
        return error;
      if (!processor.busy)
        continue;
      node.idle.pop_back();
      ++node.numBusy;
      changedNodes.push_back(index);
    }
  }
  return llvm::Error::success();
}

llvm::Expected<double> Executor::getSpeed(Resource resource, uint32_t numBusy) const {
  const std::vector<double> &speed = shared.speed[static_cast<unsigned>(resource)];
  // Issuing is no kind of work that a profile measures.
  if (resource == Resource::None && speed.empty())
    return 1;
  if (numBusy > speed.size())
    return makeError("cluster '" + execution.model.getProfile().name + "': expected 'processors.speed." +
                     getName(resource) + "' for " + llvm::Twine(numBusy) + " busy processors but got " +
                     llvm::Twine(speed.size()) + " values");
  return speed[numBusy - 1];
}

llvm::Error Executor::updateNode(Node &node, uint32_t first) {
  for (uint32_t index = first; index < first + perNode; ++index) {
    Processor &processor = processors[index];
    if (!processor.busy)
      continue;
    llvm::Expected<double> speed = getSpeed(processor.resource, node.numBusy);
    if (!speed)
      return speed.takeError();
    if (*speed == processor.speed)
      continue;
    processor.remaining = std::max(0.0, processor.remaining - (now - processor.since) * processor.speed);
    processor.since = now;
    processor.speed = *speed;
    heap.set(index, now + processor.remaining / *speed);
  }
  return llvm::Error::success();
}

llvm::Error Executor::run() {
  for (uint32_t rank = 0; rank < world.getNumRanks(); ++rank)
    push(rank, {Job::Type::Issue, rank}, -1);
  while (true) {
    if (llvm::Error error = dispatch())
      return error;
    for (uint32_t node : changedNodes)
      if (llvm::Error error = updateNode(nodes[node], node * perNode))
        return error;
    changedNodes.clear();
    if (!timers.empty() && timers.top().due <= heap.getTime()) {
      now = timers.top().due;
      expire();
      continue;
    }
    if (std::isinf(heap.getTime()))
      break;
    now = heap.getTime();
    if (llvm::Error error = finish(heap.pop()))
      return error;
  }
  size_t numLaunches = 0;
  for (const std::vector<int32_t> &launches : timeOf)
    numLaunches += launches.size();
  return times.size() == numLaunches ? llvm::Error::success() : hang();
}

llvm::Error Executor::hang() const {
  for (const Meeting &meeting : meetings) {
    if (meeting.arrived == world.groups[meeting.id.group].size)
      continue;
    uint32_t launch = *world.getMeetingLaunch(meeting.firstRank, meeting.id);
    for (int64_t member = 0; member < world.groups[meeting.id.group].size; ++member) {
      auto rank = static_cast<uint32_t>(world.getRank(meeting.id, member));
      std::optional<uint32_t> other = world.getMeetingLaunch(rank, meeting.id);
      if (other) {
        uint32_t slot = rank * numStreams + world.getLinked(rank).launches[*other].stream;
        size_t head = slots[slot].head;
        if (head < getItems(slot).size() && getItems(slot)[head].kind == SimOp::Kind::Launch &&
            getItems(slot)[head].index == *other)
          continue;
      }
      return makeHangError(world, meeting.firstRank, launch, rank, other);
    }
  }
  return makeError("the step does not end: a launch takes infinitely long");
}

llvm::Expected<std::vector<SimTime>> mlir::moe::runOnProcessors(const Execution &execution) {
  Executor executor(execution);
  if (llvm::Error error = executor.run())
    return error;
  return std::move(executor.times);
}
