//===- Processors.cpp - the host runtime in virtual time ------------------===//
//
// Drives the executor's policy (moert/ExecutorPolicy.h) in virtual time: the processors of a node take jobs. A job
// issues a rank's launches, runs a stream until it has to wait, or carries out one member's share of an exchange.
// Processors that are busy at the same time slow each other.
//
//===----------------------------------------------------------------------===//
#include "Engine.h"

#include "HostClock.h"
#include "IndexedHeap.h"
#include "moert/ExecutorPolicy.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir::moe;

namespace {
/// Time from which a job is ready, and the index in `times` of the event that made it ready.
struct Note {
  double pushed = 0;
  int32_t trigger = -1;
};

struct PricedMeeting : moert::PolicyMeeting {
  MeetingId id;
  int64_t firstRank = 0;
  std::vector<double> shares; ///< seconds, by member
};

using Policy = moert::ExecutorPolicy<double, PricedMeeting, Note>;
using Job = Policy::Job;

/// Call at the head of a stream.
struct Call {
  double begin = 0;
  int32_t cause = -1;
};

struct Processor {
  Job job{};
  Resource resource = Resource::None;
  LocalWork work;
  /// Index in `times` of the last work that it was busy with. Issue and shares of running exchanges have no times.
  int32_t last = -1;
  /// Index in `times` of the event that let its present job go on.
  int32_t trigger = -1;
  bool busy = false;
};

class Executor {
public:
  explicit Executor(const Execution &execution);
  llvm::Error run();
  std::vector<SimTime> times;

private:
  // Functions of the runtime under the same names.
  void runJob(uint32_t processor);
  void advance(uint32_t processor, bool isDone);
  /// Returns whether the call takes no time.
  bool runCall(uint32_t processor, uint32_t launch);
  void arrive(uint32_t processor, uint32_t launch);
  void price(PricedMeeting &meeting);
  /// Delays streams whose emulated transfers are not over.
  bool delay(std::span<const int64_t> done);
  /// Returns the last of the times of the calls.
  int32_t complete(std::span<const int64_t> done);

  void work(uint32_t processor, Resource resource, double seconds);
  void finish(uint32_t processor);
  void dispatch();
  void updateNode(uint32_t node);
  double getSpeed(Resource resource, uint32_t numBusy);

  /// Adds the time of the call at the head of a stream.
  int32_t addTime(int64_t stream);
  bool isLater(int32_t time, int32_t than) const {
    return time >= 0 && (than < 0 || times[time].end > times[than].end);
  }
  int32_t findCause(const Processor &processor, uint32_t rank, uint32_t launch) const;
  llvm::Error hang() const;

  const Execution &execution;
  const SimWorld &world;
  const Processors &shared; ///< as the profile has them
  const uint32_t perNode;   ///< processors of a node that can be busy; each stream has one job at a time

  FirstError error;
  double now = 0;
  std::vector<moert::IssuedQueues> programs;
  Policy policy;
  std::vector<Call> calls;                  ///< by stream
  std::vector<double> issued;               ///< time of issue, by rank
  std::vector<std::vector<int32_t>> timeOf; ///< index in `times`, by rank and launch
  std::deque<PricedMeeting> meetings;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> meetingNumbers; ///< by group, instance and number
  std::vector<std::vector<uint32_t>> idle;                                     ///< idle processors, by node
  std::vector<Processor> processors;                                           ///< node by node
  std::vector<uint32_t> changedNodes;
  IndexedHeap heap; ///< for processors
};
} // namespace

static moert::IssuedQueues makeQueues(const SimProgram &program) {
  moert::IssuedQueues queues(program.streams.size());
  for (const SimOp &op : program.ops) {
    if (op.kind == SimOp::Kind::Launch)
      queues.submit(op.stream, op.index);
    else if (op.kind == SimOp::Kind::Record)
      queues.record(op.stream, op.index);
    else
      queues.wait(op.stream, op.index);
  }
  return queues;
}

Executor::Executor(const Execution &execution)
    : execution(execution), world(execution.world), shared(execution.model.getProfile().processors),
      perNode(std::min(shared.count,
                       execution.model.getProfile().devicesPerNode * int64_t(std::max(1u, world.numStreams)))),
      policy(execution.emulateLinks), issued(world.getNumRanks(), 0),
      idle(llvm::divideCeil(world.getNumRanks(), execution.model.getProfile().devicesPerNode)),
      processors(idle.size() * perNode), heap(static_cast<uint32_t>(processors.size())) {
  for (const SimProgram &program : world.programs)
    programs.push_back(makeQueues(program));
  for (int64_t rank = 0; rank < world.getNumRanks(); ++rank) {
    policy.addRank(programs[world.programOfRank[rank]], rank / execution.model.getProfile().devicesPerNode);
    timeOf.emplace_back(world.getProgram(rank).launches.size(), -1);
  }
  calls.resize(policy.indexOf(world.getNumRanks(), 0));
  // The last element is taken first, and it is the first processor.
  for (uint32_t processor = processors.size(); processor-- > 0;)
    idle[processor / perNode].push_back(processor);
}

//===----------------------------------------------------------------------===//
// Jobs
//===----------------------------------------------------------------------===//

/// Keeps a processor busy. The caller carries out work that takes no time.
void Executor::work(uint32_t index, Resource resource, double seconds) {
  Processor &processor = processors[index];
  processor.resource = resource;
  processor.work = {seconds, now};
  processor.busy = true;
}

void Executor::runJob(uint32_t index) {
  const Job &job = processors[index].job;
  if (job.type == Job::Type::Stream)
    return advance(index, false);
  bool isIssue = job.type == Job::Type::Issue;
  double seconds = isIssue ? getIssueSeconds(world.getProgram(job.index).launches, execution.model.getProfile().host)
                           : job.meeting->shares[job.index];
  work(index, isIssue || seconds == 0 ? Resource::None : Resource::Network, seconds);
}

/// Carries on the stream of a job until an item takes time or has to wait. `isDone` says whether its head is done.
void Executor::advance(uint32_t index, bool isDone) {
  int64_t stream = processors[index].job.index;
  for (bool goesOn = isDone ? policy.pass(stream) : policy.head(stream) != nullptr; goesOn;
       goesOn = policy.pass(stream)) {
    const Policy::Item &item = *policy.head(stream);
    isDone = item.type != Policy::Item::Type::Wait || !policy.mustWait(stream, item);
    if (item.type == Policy::Item::Type::Record)
      policy.setDone(stream, item, {now, processors[index].trigger});
    else if (item.type == Policy::Item::Type::Call)
      isDone = runCall(index, item.index);
    if (!isDone)
      return;
  }
  policy.leave(stream, {now, processors[index].trigger});
}

bool Executor::runCall(uint32_t index, uint32_t launch) {
  Processor &processor = processors[index];
  int64_t stream = processor.job.index, rank = policy.rankOf(stream);
  const LinkedLaunch &linked = world.getLinked(rank).launches[launch];
  if (linked.group >= 0) {
    arrive(index, launch);
    return false;
  }
  calls[stream] = {now, findCause(processor, rank, launch)};
  double seconds = execution.getSeconds(rank, launch);
  if (seconds == 0)
    processor.last = processor.trigger = addTime(stream);
  else
    work(index, linked.resource, seconds);
  return seconds == 0;
}

/// Ends the work of a processor.
void Executor::finish(uint32_t index) {
  Processor &processor = processors[index];
  const Job job = processor.job;
  processor.busy = false;
  if (job.type == Job::Type::Issue) {
    issued[job.index] = now;
    policy.endIssue(job.index, {now, processor.trigger});
  } else if (job.type == Job::Type::Share) {
    if (policy.endShare(*job.meeting) && !delay(job.meeting->streams))
      processor.last = complete(job.meeting->streams);
  } else if (!delay({&job.index, 1})) {
    processor.last = processor.trigger = addTime(job.index);
    advance(index, true);
  }
  changedNodes.push_back(index / perNode);
  if (!processor.busy)
    idle[index / perNode].push_back(index);
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

void Executor::arrive(uint32_t index, uint32_t launch) {
  const Processor &processor = processors[index];
  int64_t stream = processor.job.index, rank = policy.rankOf(stream);
  MeetingId id = world.getMeeting(rank, launch);
  auto [entry, isNew] = meetingNumbers.try_emplace({id.group, id.instance, id.number}, meetings.size());
  if (isNew)
    meetings.push_back({{std::vector<int64_t>(world.groups[id.group].size, -1)}, id, rank, {}});
  PricedMeeting &meeting = meetings[entry->second];
  error.take(checkSameExchange(world, meeting.firstRank, *world.getMeetingLaunch(meeting.firstRank, id), rank, launch));
  if (error || !policy.arrive(meeting, world.groups[id.group].getMember(rank), stream))
    return;
  for (Call call = {now, findCause(processor, rank, launch)}; int64_t other : meeting.streams)
    calls[other] = call;
  price(meeting);
  policy.startPhase(meeting, 1, {now, processor.trigger});
}

/// Shares take no time if members exchange no data, or if there is only one.
void Executor::price(PricedMeeting &meeting) {
  int64_t size = world.groups[meeting.id.group].size, first = world.getRank(meeting.id, 0);
  uint32_t launch = *world.getMeetingLaunch(first, meeting.id);
  meeting.shares.assign(size, 0);
  if (!world.getLinked(first).launches[launch].exchanges() || size == 1)
    return;
  llvm::Expected<GroupExchange> exchange = execution.exchanges.make(first, launch);
  if (!exchange)
    return error.take(exchange.takeError());
  for (int64_t member = 0; member < size; ++member)
    if (llvm::Error failed = execution.model.getShareSeconds(*exchange, member).moveInto(meeting.shares[member]))
      return error.take(addLaunch(std::move(failed), world.getProgram(first), launch));
}

bool Executor::delay(std::span<const int64_t> done) {
  return policy.delay(done, now, [this](int64_t stream) {
    const SimLaunch &launch = world.getLaunch(policy.rankOf(stream), policy.head(stream)->index);
    return calls[stream].begin + launch.transferSeconds;
  });
}

int32_t Executor::complete(std::span<const int64_t> done) {
  int32_t last = -1;
  for (int64_t stream : done) {
    last = addTime(stream);
    policy.resume(stream, {now, last});
  }
  return last;
}

//===----------------------------------------------------------------------===//
// Causes
//===----------------------------------------------------------------------===//

int32_t Executor::addTime(int64_t stream) {
  auto rank = static_cast<uint32_t>(policy.rankOf(stream)), launch = static_cast<uint32_t>(policy.head(stream)->index);
  auto index = static_cast<int32_t>(times.size());
  const Call &call = calls[stream];
  bool isCollective = world.getLinked(rank).launches[launch].group >= 0;
  times.push_back(execution.makeTime(rank, launch, isCollective, call.begin, now, call.cause));
  return timeOf[rank][launch] = index;
}

/// Finds the last event among the ends of the launch's dependencies, its issue, and the work of the processors while it
/// was ready.
int32_t Executor::findCause(const Processor &processor, uint32_t rank, uint32_t launch) const {
  int32_t cause = -1;
  for (uint32_t dep : world.getLinked(rank).launches[launch].deps)
    if (int32_t time = timeOf[rank][dep]; isLater(time, cause))
      cause = time;
  if (isLater(processor.trigger, cause))
    cause = processor.trigger;
  return cause >= 0 && times[cause].end < issued[rank] ? -1 : cause;
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

/// Idle processors take ready jobs in order.
void Executor::dispatch() {
  for (uint32_t node = 0; node < idle.size(); ++node)
    while (!error && policy.hasReady(node) && !idle[node].empty()) {
      uint32_t number = idle[node].back();
      Processor &processor = processors[number];
      processor.job = policy.take(node);
      processor.trigger = processor.job.note.trigger;
      // The job could have run earlier if the processor had been free.
      if (processor.job.note.pushed < now && isLater(processor.last, processor.trigger))
        processor.trigger = processor.last;
      runJob(number);
      if (!processor.busy)
        continue;
      idle[node].pop_back();
      changedNodes.push_back(node);
    }
}

double Executor::getSpeed(Resource resource, uint32_t numBusy) {
  const std::vector<double> &speed = shared.speed[static_cast<unsigned>(resource)];
  // Profiles do not measure issue.
  if (resource == Resource::None && speed.empty())
    return 1;
  if (numBusy <= speed.size())
    return speed[numBusy - 1];
  error.take(llvm::createStringError(
      "cluster '" + execution.model.getProfile().name + "': expected 'processors.speed." + getName(resource) +
      "' for " + llvm::Twine(numBusy) + " busy processors but got " + llvm::Twine(speed.size()) + " values"));
  return 1;
}

void Executor::updateNode(uint32_t node) {
  for (uint32_t index = node * perNode; index < (node + 1) * perNode; ++index)
    if (Processor &processor = processors[index]; processor.busy)
      if (double speed = getSpeed(processor.resource, perNode - idle[node].size()); speed != processor.work.speed)
        heap.set(index, processor.work.setSpeed(now, speed));
}

llvm::Error Executor::run() {
  for (uint32_t rank = 0; rank < world.getNumRanks(); ++rank)
    policy.start(rank);
  while (true) {
    dispatch();
    for (uint32_t node : changedNodes)
      updateNode(node);
    changedNodes.clear();
    if (error)
      return error.get();
    if (policy.hasTransfers() && policy.nextEnd() <= heap.getTime()) {
      now = policy.nextEnd();
      complete(policy.takeTransfer());
      continue;
    }
    if (std::isinf(heap.getTime()))
      return policy.isFinished() ? llvm::Error::success() : hang();
    now = heap.getTime();
    finish(heap.pop());
  }
}

llvm::Error Executor::hang() const {
  for (const PricedMeeting &meeting : meetings) {
    auto missing = llvm::find(meeting.streams, -1);
    if (missing == meeting.streams.end())
      continue;
    int64_t rank = world.getRank(meeting.id, missing - meeting.streams.begin());
    return makeHangError(world, meeting.firstRank, *world.getMeetingLaunch(meeting.firstRank, meeting.id), rank,
                         world.getMeetingLaunch(rank, meeting.id));
  }
  return llvm::createStringError("the step does not end: a launch takes infinitely long");
}

llvm::Expected<std::vector<SimTime>> mlir::moe::runOnProcessors(const Execution &execution) {
  Executor executor(execution);
  if (llvm::Error error = executor.run())
    return error;
  return std::move(executor.times);
}
