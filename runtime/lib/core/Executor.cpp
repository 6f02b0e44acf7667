//===- Executor.cpp - all ranks' streams on a pool of threads -------------===//

#include "core/Executor.h"
#include "core/Attributes.h"

#include <algorithm>
#include <exception>

namespace moert {

/// Time that a failed step waits for running calls before it is given up.
constexpr std::chrono::seconds kGrace(2);

Executor::Executor(std::span<const Program> programs, const std::vector<Group> &groups, int64_t rankCount,
                   std::vector<int64_t> localRanks, Client &client, const Options &options)
    : groups(groups), client(client), local(std::move(localRanks)), ranks(rankCount), bind(options.bind),
      keepsTimes(options.times), issuesOnce(options.issuesOnce), policy(options.emulate) {
  for (int64_t rank = 0; rank < rankCount; ++rank) {
    Rank &state = ranks[rank];
    state.program = &programs[programIndex(programs, rank)];
    state.own = IssuedQueues(std::ssize(state.program->streams));
    state.queues = &state.own;
    policy.addRank(state.own);
    for (size_t stream = 0; stream < state.program->streams.size(); ++stream)
      streams.emplace_back().calls = &calls[{state.program, stream}];
  }
  int64_t workerCount = options.workers;
  if (workerCount <= 0)
    workerCount = std::max(1u, std::thread::hardware_concurrency());
  for (int64_t i = 0; i < workerCount; ++i)
    workers.emplace_back([this] { work(); });
}

Executor::~Executor() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wakeup.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void Executor::submit(int64_t rank, int64_t stream, const Call &call) {
  Stream &queue = streams[indexOf(rank, stream)];
  ranks[rank].own.submit(stream, queue.count);
  Call issued = call;
  issued.rank = rank;
  if (isCollective(call.kind))
    issued.sequence = ranks[rank].issued[channelOf(rank, call)]++;
  if (!queue.calls->keep(queue.count, issued, bool(bind)))
    queue.own.emplace(queue.count, issued);
  ++queue.count;
}

/// Whether the buffers are equal. `dims` has more entries than dimensions.
static bool isAlike(const moert_buffer &a, const moert_buffer &b) {
  return a.space == b.space && a.dtype == b.dtype && a.offset == b.offset && a.rank == b.rank && a.parts == b.parts &&
         a.shift == b.shift && a.stride == b.stride && a.begin == b.begin &&
         std::equal(a.dims, a.dims + a.rank, b.dims);
}

static bool isAlike(const Repetition &a, const Repetition &b) {
  if (!a.times && !b.times)
    return true;
  return a.buffer && b.buffer && isAlike(*a.buffer, *b.buffer) && a.most == b.most && a.iteration == b.iteration;
}

/// Whether two ranks of a program issued equal calls, so that one can be bound to the other rank.
static bool isAlike(const Call &a, const Call &b) {
  if (a.viewCount != b.viewCount)
    return false;
  for (int i = 0; i < a.viewCount; ++i) {
    const moert_buffer *x = a.buffers[i], *y = b.buffers[i];
    if (bool(y) != bool(b.views[i]) || bool(x) != bool(y) || (x && !isAlike(*x, *y)))
      return false;
  }
  return !a.routing && !b.routing && isAlike(a.repetition, b.repetition) && a.kind == b.kind && a.op == b.op &&
         a.group == b.group && a.place == b.place && a.members == b.members && a.sequence == b.sequence &&
         a.ints == b.ints && a.reals == b.reals;
}

void Executor::Calls::clear() {
  count = 0;
  for (std::unique_ptr<std::byte[]> &part : parts)
    part.reset();
}

Executor::Calls::Kept *Executor::Calls::at(size_t index) const {
  const size_t part = partOf(index);
  return reinterpret_cast<Kept *>(parts[part].get()) + (index + 1 - (size_t(1) << part));
}

bool Executor::Calls::keep(size_t index, const Call &call, bool canBind) {
  if (index >= count.load(std::memory_order_acquire)) {
    std::lock_guard lock(mutex);
    if (index == count.load(std::memory_order_relaxed)) {
      if (std::unique_ptr<std::byte[]> &part = parts[partOf(index)]; !part)
        part = std::make_unique_for_overwrite<std::byte[]>(sizeof(Kept) << partOf(index));
      Kept &kept = *new (at(index)) Kept{call, {}, {}};
      auto own = [](const moert_buffer *&buffer, moert_buffer &copy) {
        if (buffer) {
          copy = *buffer;
          buffer = &copy;
        }
      };
      for (int i = 0; i < call.viewCount; ++i)
        own(kept.call.buffers[i], kept.buffers[i]);
      own(kept.call.repetition.buffer, kept.times);
      count.store(index + 1, std::memory_order_release);
      return true;
    }
  }
  // A later rank may have issued fewer calls than other ranks, but never more than one more.
  return index < count.load(std::memory_order_acquire) && canBind && isAlike(at(index)->call, call);
}

const Call &Executor::Calls::get(size_t index) const { return at(index)->call; }

const Call &Executor::issuedAt(int64_t stream, const Item &item) const {
  const Stream &queue = streams[stream];
  auto own = queue.own.find(item.index);
  return own != queue.own.end() ? own->second : queue.calls->get(item.index);
}

Status Executor::bindTo(int64_t stream, Call &call) const {
  return call.rank == rankOf(stream) ? Status{} : bind(rankOf(stream), call);
}

Status Executor::callOf(int64_t stream, const Item &item, Call &call) const {
  call = issuedAt(stream, item);
  return bindTo(stream, call);
}

Status Executor::record(int64_t rank, int64_t event, int64_t stream) {
  ranks[rank].own.record(stream, event);
  return {};
}

Status Executor::wait(int64_t rank, int64_t event, int64_t stream) {
  return invalidUnless(ranks[rank].own.wait(stream, event), streamText(indexOf(rank, stream)), " of rank ", rank,
                       " waits for event ", event, ", which was not recorded before in this step");
}

Status Executor::run(const std::function<Status(int64_t)> &issueFunction, double timeout) {
  std::unique_lock lock(mutex);
  if (stuck)
    return Status::error(MOERT_ERROR_HANG, "a task of an earlier step still runs");
  reset();
  issue = &issueFunction;
  inStep = true;
  stepBegin = Clock::now();
  for (int64_t rank : local)
    policy.start(rank);
  wakeup.notify_all();
  Status status = await(lock, timeout);
  inStep = false;
  return status;
}

Status Executor::await(std::unique_lock<std::mutex> &lock, double timeout) {
  auto over = [this] { return running == 0 && (failed || policy.isFinished()); };
  if (timeout <= 0) {
    finished.wait(lock, over);
    return failure;
  }
  auto limit = stepBegin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout));
  if (finished.wait_until(lock, limit, over))
    return failure;
  bool first = !failed;
  failLocked(Status::error(MOERT_ERROR_HANG, ""));
  stuck = !finished.wait_for(lock, kGrace, over);
  // Queues stand still only if nothing runs.
  if (first)
    failure.message = joined("the time-out of ", timeout,
                             " s passed: ", stuck ? "this does not end:\n  " + runningLocked() : stuckText());
  return failure;
}

void Executor::reset() {
  policy.reset();
  for (int64_t rank : local)
    policy.use(rank, ranks[rank].own);
  models.clear();
  for (auto &[place, shared] : calls)
    shared.clear();
  for (Stream &stream : streams) {
    stream.own.clear();
    stream.count = 0;
    stream.times.clear();
    stream.current = nullptr;
  }
  for (Rank &rank : ranks) {
    rank.own.clear();
    rank.queues = &rank.own;
    for (auto &[channel, count] : rank.issued)
      count = 0;
  }
  for (auto &[channel, sequence] : meetings)
    sequence.clear();
  remote = 0;
  failure = {};
  failed = false;
}

void Executor::work() {
  client.beginThread();
  std::unique_lock lock(mutex);
  while (true) {
    endTransfers();
    while (!stopping && !policy.hasReady()) {
      sleep(lock);
      endTransfers();
    }
    if (stopping)
      return;
    Job job = policy.take();
    ++running;
    // Another worker must take over to wait for the next transfer.
    wake(policy.hasTransfers());
    lock.unlock();
    try {
      runJob(job);
    } catch (const std::bad_alloc &) {
      fail(Status::error(MOERT_ERROR_OUT_OF_MEMORY, "out of memory while running the step"));
    } catch (const std::exception &error) {
      fail(Status::error(MOERT_ERROR_INTERNAL, error.what()));
    }
    lock.lock();
    --running;
    if (running > 0 || policy.hasReady() || policy.hasTransfers() || (remote > 0 && !failed))
      continue;
    if (!policy.isFinished() && !failed)
      failLocked(Status::error(MOERT_ERROR_HANG, stuckText()));
    finished.notify_all();
  }
}

/// Sleeps until there is something to do, or until the next transfer ends.
void Executor::sleep(std::unique_lock<std::mutex> &lock) {
  ++idle;
  if (policy.hasTransfers())
    wakeup.wait_until(lock, stepBegin + std::chrono::nanoseconds(policy.nextEnd()));
  else
    wakeup.wait(lock);
  --idle;
}

/// Wakes one worker for each of `jobs` jobs. The calling worker takes one more job itself if it does not go on.
void Executor::wake(int64_t jobs) {
  for (int64_t i = std::min(idle, jobs); i > 0; --i)
    wakeup.notify_one();
}

/// Completes transfers whose time is up.
void Executor::endTransfers() {
  int64_t ended = 0;
  for (; policy.hasTransfers() && policy.nextEnd() <= now(); ++ended)
    complete(policy.takeTransfer());
  wake(ended - 1);
}

/// Earliest end of the call at the head of a stream, with emulated links.
int64_t Executor::endOf(int64_t stream) const {
  const std::vector<Op> &ops = programOf(rankOf(stream)).ops;
  const int64_t op = streams[stream].head.op;
  double seconds = op < std::ssize(ops) ? ops[op].seconds : 0;
  return streams[stream].begin + static_cast<int64_t>(seconds * 1e9);
}

/// Returns whether these are emulated transfers whose time is not up, so that they end later.
bool Executor::delay(std::span<const int64_t> done) {
  bool isLater = policy.delay(done, now(), [this](int64_t stream) { return endOf(stream); });
  wake(isLater);
  return isLater;
}

void Executor::runJob(const Job &job) {
  switch (job.type) {
  case Job::Type::Issue:
    return issueRank(job.index);
  case Job::Type::Stream:
    return advance(job.index);
  case Job::Type::Share:
    return pull(*job.meeting, job.index);
  }
}

void Executor::issueRank(int64_t rank) {
  if (issuesOnce && issueLikeOthers(rank))
    return;
  Rank &state = ranks[rank];
  state.issuing = true;
  Status status = (*issue)(rank);
  state.issuing = false;
  std::lock_guard lock(mutex);
  if (!status.ok())
    return failLocked(std::move(status));
  bool isModel = issuesOnce;
  for (int64_t stream = indexOf(rank, 0), end = indexOf(rank + 1, 0); stream < end; ++stream)
    isModel = isModel && streams[stream].own.empty();
  if (isModel)
    models.try_emplace(state.program, &state.own);
  wake(policy.endIssue(rank) - 1);
}

/// Returns false if no rank of its program has issued calls for all.
bool Executor::issueLikeOthers(int64_t rank) {
  std::lock_guard lock(mutex);
  Rank &state = ranks[rank];
  auto model = models.find(state.program);
  if (model == models.end())
    return false;
  state.queues = model->second;
  policy.use(rank, *model->second);
  wake(policy.endIssue(rank) - 1);
  return true;
}

void Executor::advance(int64_t stream) {
  for (bool goesOn = policy.head(stream); goesOn; goesOn = policy.pass(stream)) {
    if (failed.load(std::memory_order_relaxed))
      return;
    const Item &item = *policy.head(stream);
    // When this stops, another worker may already have the stream.
    if (item.type == Item::Type::Call ? !runHead(stream, item) : !runEvent(stream, item))
      return;
  }
  std::lock_guard lock(mutex);
  policy.leave(stream);
}

/// Returns false if the stream has to stop here.
bool Executor::runEvent(int64_t stream, const Item &item) {
  bool isWait = item.type == Item::Type::Wait;
  std::unique_lock lock(mutex);
  if (isWait && policy.mustWait(stream, item))
    return false;
  lock.unlock();
  Status status = isWait ? client.wait(placeOf(stream), item.index) : client.record(placeOf(stream), item.index);
  lock.lock();
  if (!status.ok()) {
    failLocked(std::move(status));
    return false;
  }
  if (!isWait)
    wake(policy.setDone(stream, item));
  return true;
}

/// Whether the loop does not have the call's iteration. Members of a collective agree on that.
bool Executor::isSkipped(int64_t stream, const Call &call) {
  if (!call.repetition.times)
    return false;
  int64_t times = 0;
  Status status = client.readTimes(placeOf(stream), call, times);
  if (status.ok())
    status = call.repetition.check(times);
  if (status.ok())
    return call.repetition.iteration >= times;
  fail(located(status, stream, call));
  return true;
}

bool Executor::runHead(int64_t stream, const Item &item) {
  const Call &issued = issuedAt(stream, item);
  Call &head = streams[stream].head;
  auto fails = [&](Status status) {
    if (!status.ok())
      fail(located(status, stream, head));
    return !status.ok();
  };
  // Many iterations are skipped, and skipping needs only few fields of the call.
  if (issued.repetition.times && issued.rank != rankOf(stream)) {
    head = {};
    head.kind = issued.kind;
    head.op = issued.op;
    head.group = issued.group;
    head.rank = issued.rank;
    head.repetition = issued.repetition;
    if (fails(bindTo(stream, head)))
      return false;
    if (isSkipped(stream, head))
      return skip(stream, head);
  }
  return !fails(callOf(stream, item, head)) && (isSkipped(stream, head) ? skip(stream, head) : runCall(stream, head));
}

/// Returns true: the stream goes on.
bool Executor::skip(int64_t stream, const Call &call) {
  if (isCollective(call.kind) && client.isRemote(call))
    client.skip(placeOf(stream).stream, call);
  return true;
}

bool Executor::runCall(int64_t stream, const Call &call) {
  if (isCollective(call.kind) && client.isRemote(call)) {
    startRemote(stream, call);
    return false;
  }
  if (isCollective(call.kind)) {
    std::lock_guard lock(mutex);
    arrive(stream, call);
    return false;
  }
  Stream &queue = streams[stream];
  queue.begin = now();
  queue.received = -1;
  queue.current = &call;
  Status status = client.execute(placeOf(stream), call);
  queue.current = nullptr;
  if (!status.ok()) {
    fail(located(status, stream, call));
    return false;
  }
  if (policy.emulate) {
    std::lock_guard lock(mutex);
    if (delay({&stream, 1}))
      return false;
  }
  completeCall(stream, now());
  return true;
}

void Executor::startRemote(int64_t stream, const Call &call) {
  {
    std::lock_guard lock(mutex);
    streams[stream].begin = now();
    ++remote;
  }
  client.start(placeOf(stream).rank, placeOf(stream).stream, call);
}

void Executor::complete(int64_t rank, int64_t stream, int64_t received) {
  std::lock_guard lock(mutex);
  // A failed step has given up everything that it waited for.
  if (!inStep || failed)
    return;
  int64_t index = indexOf(rank, stream);
  --remote;
  streams[index].received = received;
  completeCall(index, now());
  policy.resume(index);
  wake(1);
}

/// Notes the times of the call at the head of a stream. Only the worker that runs the stream may call it.
void Executor::completeCall(int64_t stream, int64_t end) {
  Stream &queue = streams[stream];
  if (keepsTimes)
    queue.times.push_back({queue.head.op, client.rows(queue.head), queue.begin, end, queue.received});
}

Executor::Channel Executor::channelOf(int64_t rank, const Call &call) const {
  const Group &group = groups[call.group];
  Channel channel{call.group, group.instanceOf(rank)};
  if (!isPointToPoint(call.kind))
    return channel;
  channel.from = group.memberOf(rank);
  channel.to = peerOf(call);
  if (call.kind == Kind::Receive)
    std::swap(channel.from, channel.to);
  return channel;
}

/// Index of the rank among those that meet.
int64_t Executor::memberOf(int64_t rank, const Call &call) const {
  return isPointToPoint(call.kind) ? call.kind == Kind::Receive : groups[call.group].memberOf(rank);
}

int64_t Executor::sizeOf(const Channel &channel) const { return channel.isPair() ? 2 : groups[channel.group].size; }

int64_t Executor::rankOf(const Channel &channel, int64_t member) const {
  if (channel.isPair())
    member = member ? channel.to : channel.from;
  return groups[channel.group].rankOf(channel.instance, member);
}

Executor::Meeting &Executor::meetingOf(int64_t rank, const Call &call) {
  Channel channel = channelOf(rank, call);
  const int64_t size = sizeOf(channel);
  std::deque<Meeting> &sequence = meetings[channel];
  while (std::ssize(sequence) <= call.sequence) {
    Meeting &meeting = sequence.emplace_back();
    meeting.channel = channel;
    meeting.calls.resize(size);
    meeting.streams.assign(size, -1);
    meeting.places.resize(size);
    meeting.received.resize(size);
  }
  return sequence[call.sequence];
}

static bool sameOperands(const Call &a, const Call &b) {
  if (a.viewCount != b.viewCount)
    return false;
  for (int i = 0; i < a.viewCount; ++i) {
    const View &x = a.views[i], &y = b.views[i];
    if (bool(x) != bool(y) || x.dtype != y.dtype || !x.hasShapeOf(y))
      return false;
  }
  return true;
}

/// Whether the calls of two members can meet. Each program numbers its own ops.
bool Executor::agree(const Meeting &meeting, int64_t first, int64_t second) const {
  const Call &a = *meeting.calls[first], &b = *meeting.calls[second];
  if (meeting.channel.isPair())
    return sameOperands(a, b);
  bool sameProgram = &programOf(rankOf(meeting.streams[first])) == &programOf(rankOf(meeting.streams[second]));
  return a.kind == b.kind && (!sameProgram || a.op == b.op) && a.ints == b.ints && sameOperands(a, b);
}

void Executor::arrive(int64_t stream, const Call &call) {
  const int64_t rank = rankOf(stream), member = memberOf(rank, call);
  Meeting &meeting = meetingOf(rank, call);
  bool isLast = policy.arrive(meeting, member, stream);
  meeting.calls[member] = &call;
  meeting.places[member] = placeOf(stream);
  for (int64_t other = 0; other < std::ssize(meeting.calls); ++other) {
    if (!meeting.calls[other] || other == member)
      continue;
    // All earlier members agree among themselves, so one comparison is enough.
    if (!agree(meeting, other, member))
      return failLocked(invalid(mismatchText(meeting, std::min(other, member), std::max(other, member))));
    break;
  }
  if (!isLast)
    return;
  for (int64_t begin = now(); int64_t other : meeting.streams)
    streams[other].begin = begin;
  policy.startPhase(meeting, client.phases(call));
  wake(meeting.remaining - 1);
}

void Executor::pull(Meeting &meeting, int64_t member) {
  const Call &call = *meeting.calls[member];
  Gathering gathering{meeting.calls, meeting.places, meeting.received, meeting.channel.instance};
  Status status = client.pull(gathering, member, meeting.phase);
  std::lock_guard lock(mutex);
  if (!status.ok())
    return failLocked(located(status, meeting.streams[member], call));
  if (!policy.endShare(meeting))
    return;
  if (policy.startPhase(meeting, client.phases(call)))
    return wake(meeting.remaining - 1);
  for (size_t i = 0; i < meeting.streams.size(); ++i)
    streams[meeting.streams[i]].received = meeting.received[i];
  if (!delay(meeting.streams))
    complete(meeting.streams);
}

/// Completes the calls at the heads of these streams.
void Executor::complete(std::span<const int64_t> done) {
  int64_t end = now();
  for (int64_t stream : done) {
    completeCall(stream, end);
    policy.resume(stream);
  }
  wake(std::ssize(done) - 1);
}

void Executor::fail(Status status) {
  std::lock_guard lock(mutex);
  if (inStep)
    failLocked(std::move(status));
}

void Executor::failLocked(Status status) {
  if (failed)
    return;
  failure = std::move(status);
  failed = true;
  policy.stop();
  // If nothing runs, no worker will say that the step is over.
  finished.notify_all();
}

Status Executor::located(const Status &status, int64_t stream, const Call &call) const {
  return Status::error(status.code, "rank ", rankOf(stream), ", ", callText(stream, call), ": ", status.message);
}

} // namespace moert
