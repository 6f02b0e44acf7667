//===- Executor.cpp - all ranks' streams on a pool of threads -------------===//

#include "core/Executor.h"
#include "core/Attributes.h"

#include <algorithm>
#include <exception>

namespace moert {

/// How long a step that has failed waits for what runs before it is given up.
constexpr std::chrono::seconds kGrace(2);

Executor::Executor(std::span<const Program> programs, const std::vector<Group> &groups, int64_t rankCount,
                   std::vector<int64_t> localRanks, Client &client, const Options &options)
    : groups(groups), rankCount(rankCount), client(client), emulate(options.emulate), local(std::move(localRanks)),
      ranks(static_cast<size_t>(rankCount)) {
  for (int64_t rank = 0; rank < rankCount; ++rank) {
    Rank &state = ranks[static_cast<size_t>(rank)];
    state.program = &programs[programIndex(programs, rank)];
    state.firstStream = static_cast<int64_t>(streams.size());
    for (size_t stream = 0; stream < state.program->streams.size(); ++stream)
      streams.emplace_back().rank = rank;
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
  Stream &queue = streams[static_cast<size_t>(indexOf(rank, stream))];
  queue.items.push_back({Item::Type::Call, static_cast<int64_t>(queue.calls.size())});
  queue.calls.push_back(call);
  if (isCollective(call.kind))
    queue.calls.back().sequence = ranks[static_cast<size_t>(rank)].issued[channelOf(rank, call)]++;
}

Status Executor::record(int64_t rank, int64_t event, int64_t stream) {
  Rank &state = ranks[static_cast<size_t>(rank)];
  auto signal = static_cast<int64_t>(state.signals.size());
  state.signals.push_back({event, stream, false, {}});
  state.lastSignal[static_cast<size_t>(event)] = signal;
  streams[static_cast<size_t>(indexOf(rank, stream))].items.push_back({Item::Type::Record, signal});
  return {};
}

Status Executor::wait(int64_t rank, int64_t event, int64_t stream) {
  int64_t signal = ranks[static_cast<size_t>(rank)].lastSignal[static_cast<size_t>(event)];
  if (signal < 0)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                         streamText(indexOf(rank, stream)) + " of rank " + std::to_string(rank) + " waits for event " +
                             std::to_string(event) + ", which was not recorded before in this step");
  streams[static_cast<size_t>(indexOf(rank, stream))].items.push_back({Item::Type::Wait, signal});
  return {};
}

Status Executor::run(const std::function<Status(int64_t)> &issueFunction, double timeout) {
  std::unique_lock lock(mutex);
  if (stuck)
    return Status::error(MOERT_ERROR_HANG, "a task of an earlier step still runs");
  reset();
  issue = &issueFunction;
  inStep = true;
  unfinished = static_cast<int64_t>(local.size());
  stepBegin = Clock::now();
  for (int64_t rank : local)
    push({Job::Type::Issue, rank});
  wakeup.notify_all();
  Status status = await(lock, timeout);
  inStep = false;
  return status;
}

Status Executor::await(std::unique_lock<std::mutex> &lock, double timeout) {
  auto over = [this] { return running == 0 && (failed || unfinished == 0); };
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
  // Queues stand still only where nothing runs.
  if (first)
    failure.message = "the time-out of " + std::to_string(timeout) +
                      " s passed: " + (stuck ? "this does not end:\n  " + runningLocked() : stuckText());
  return failure;
}

void Executor::reset() {
  for (Stream &stream : streams) {
    stream.items.clear();
    stream.calls.clear();
    stream.times.clear();
    stream.head = 0;
    stream.current = nullptr;
  }
  for (Rank &rank : ranks) {
    rank.signals.clear();
    rank.lastSignal.assign(static_cast<size_t>(rank.program->events), -1);
    for (auto &[channel, count] : rank.issued)
      count = 0;
  }
  for (auto &[channel, sequence] : meetings)
    sequence.clear();
  ready.clear();
  transfers.clear();
  remote = 0;
  failure = {};
  failed = false;
}

void Executor::work() {
  client.beginThread();
  std::unique_lock lock(mutex);
  while (true) {
    endTransfers();
    while (!stopping && ready.empty()) {
      sleep(lock);
      endTransfers();
    }
    if (stopping)
      return;
    Job job = ready.front();
    ready.pop_front();
    ++running;
    // This worker may have been the one that looked after the next transfer to end.
    if (!transfers.empty() && idle > 0)
      wakeup.notify_one();
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
    if (running > 0 || !ready.empty() || !transfers.empty() || (remote > 0 && !failed))
      continue;
    if (unfinished > 0 && !failed)
      failLocked(Status::error(MOERT_ERROR_HANG, stuckText()));
    finished.notify_all();
  }
}

/// Until there is something to do, or the next transfer ends.
void Executor::sleep(std::unique_lock<std::mutex> &lock) {
  ++idle;
  if (transfers.empty())
    wakeup.wait(lock);
  else
    wakeup.wait_until(lock, stepBegin + std::chrono::nanoseconds(transfers.begin()->first));
  --idle;
}

/// Completes the transfers whose time is up.
void Executor::endTransfers() {
  int64_t ended = 0;
  for (; !transfers.empty() && transfers.begin()->first <= now(); ++ended) {
    Transfer transfer = transfers.begin()->second;
    transfers.erase(transfers.begin());
    if (transfer.meeting) {
      complete(*transfer.meeting);
      continue;
    }
    completeCall(transfer.stream, transfer.begin);
    ++streams[static_cast<size_t>(transfer.stream)].head;
    push({Job::Type::Stream, transfer.stream});
  }
  // This worker takes what one of them left.
  if (ended > 1 && idle > 0)
    wakeup.notify_all();
}

/// How long the call takes at least: 0 where it is no emulated transfer.
double Executor::secondsOf(int64_t stream, const Call &call) const {
  const std::vector<Op> &ops = programOf(rankOf(stream)).ops;
  auto op = static_cast<size_t>(call.op);
  return emulate && op < ops.size() ? ops[op].seconds : 0;
}

/// Whether the transfer's time is not up, so that it ends later.
bool Executor::delay(double seconds, const Transfer &transfer) {
  int64_t end = transfer.begin + static_cast<int64_t>(seconds * 1e9);
  if (failed || seconds <= 0 || end <= now())
    return false;
  transfers.emplace(end, transfer);
  if (idle > 0)
    wakeup.notify_one();
  return true;
}

/// The same for a meeting. Members of different programs may know different times: the longest counts.
bool Executor::delayMeeting(Meeting &meeting) {
  double seconds = 0;
  for (size_t member = 0; emulate && member < meeting.calls.size(); ++member)
    seconds = std::max(seconds, secondsOf(meeting.streams[member], *meeting.calls[member]));
  return delay(seconds, {&meeting, -1, meeting.begin});
}

void Executor::runJob(const Job &job) {
  switch (job.type) {
  case Job::Type::Issue:
    return issueRank(job.index);
  case Job::Type::Stream:
    return advance(job.index);
  case Job::Type::Pull:
    return pull(*job.meeting, job.index);
  }
}

void Executor::issueRank(int64_t rank) {
  std::atomic<bool> &issuing = ranks[static_cast<size_t>(rank)].issuing;
  issuing = true;
  Status status = (*issue)(rank);
  issuing = false;
  std::lock_guard lock(mutex);
  if (!status.ok())
    return failLocked(std::move(status));
  --unfinished;
  int64_t pushed = 0;
  for (int64_t stream = indexOf(rank, 0); stream < endOf(rank); ++stream) {
    if (streams[static_cast<size_t>(stream)].items.empty())
      continue;
    ++unfinished;
    if (++pushed > 1 && idle > 0)
      wakeup.notify_one();
    push({Job::Type::Stream, stream});
  }
}

void Executor::advance(int64_t stream) {
  Stream &queue = streams[static_cast<size_t>(stream)];
  while (queue.head < queue.items.size()) {
    if (failed.load(std::memory_order_relaxed))
      return;
    // Where this stops, another worker may already have taken the stream on.
    const Item item = queue.items[queue.head];
    if (!runItem(stream, item))
      return;
    ++queue.head;
    if (emulate && item.type == Item::Type::Call && queue.head < queue.items.size())
      return giveWay(stream);
  }
  std::lock_guard lock(mutex);
  --unfinished;
}

/// On a device a transfer whose time is up does not wait until the other streams have nothing to do. So where links are
/// emulated, a stream lets others go first after each call.
void Executor::giveWay(int64_t stream) {
  std::lock_guard lock(mutex);
  push({Job::Type::Stream, stream});
}

/// False where the stream has to stop here.
bool Executor::runItem(int64_t stream, const Item &item) {
  if (item.type == Item::Type::Call)
    return runCall(stream, streams[static_cast<size_t>(stream)].calls[static_cast<size_t>(item.index)]);
  return runEvent(stream, item);
}

bool Executor::runEvent(int64_t stream, const Item &item) {
  bool isWait = item.type == Item::Type::Wait;
  std::unique_lock lock(mutex);
  Signal &signal = ranks[static_cast<size_t>(rankOf(stream))].signals[static_cast<size_t>(item.index)];
  if (isWait && !signal.done) {
    // When it is done the stream comes here again.
    signal.waiting.push_back(stream);
    return false;
  }
  lock.unlock();
  Status status = isWait ? client.wait(placeOf(stream), item.index) : client.record(placeOf(stream), item.index);
  lock.lock();
  if (!status.ok()) {
    failLocked(std::move(status));
    return false;
  }
  if (isWait)
    return true;
  signal.done = true;
  for (int64_t waiting : signal.waiting) {
    push({Job::Type::Stream, waiting});
    if (idle > 0)
      wakeup.notify_one();
  }
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
  int64_t begin = now();
  std::atomic<const Call *> &current = streams[static_cast<size_t>(stream)].current;
  current = &call;
  Status status = client.execute(placeOf(stream), call);
  current = nullptr;
  if (!status.ok()) {
    fail(located(std::move(status), stream, call));
    return false;
  }
  if (emulate) {
    std::lock_guard lock(mutex);
    if (delay(secondsOf(stream, call), {nullptr, stream, begin}))
      return false;
  }
  completeCall(stream, begin);
  return true;
}

void Executor::startRemote(int64_t stream, const Call &call) {
  Stream &queue = streams[static_cast<size_t>(stream)];
  {
    std::lock_guard lock(mutex);
    queue.begin = now();
    ++remote;
  }
  client.start(queue.rank, stream - indexOf(queue.rank, 0), call);
}

void Executor::complete(int64_t rank, int64_t stream, int64_t received) {
  std::lock_guard lock(mutex);
  // A step that failed has been given up with all that it waited for.
  if (!inStep || failed)
    return;
  int64_t index = indexOf(rank, stream);
  --remote;
  completeCall(index, streams[static_cast<size_t>(index)].begin);
  streams[static_cast<size_t>(index)].times.back().received = received;
  ++streams[static_cast<size_t>(index)].head;
  push({Job::Type::Stream, index});
  wakeup.notify_one();
}

/// Notes when the call at the head of a stream ran. Only who runs the stream may do so.
void Executor::completeCall(int64_t stream, int64_t begin) {
  Stream &queue = streams[static_cast<size_t>(stream)];
  const Call &call = queue.calls[static_cast<size_t>(queue.items[queue.head].index)];
  queue.times.push_back({call.op, client.rows(call), begin, now()});
}

Executor::Channel Executor::channelOf(int64_t rank, const Call &call) const {
  const Group &group = groups[static_cast<size_t>(call.group)];
  Channel channel{call.group, group.instanceOf(rank)};
  if (!isPointToPoint(call.kind))
    return channel;
  channel.from = group.memberOf(rank);
  channel.to = peerOf(call);
  if (call.kind == Kind::Receive)
    std::swap(channel.from, channel.to);
  return channel;
}

/// Which member of those that meet the rank is.
int64_t Executor::memberOf(int64_t rank, const Call &call) const {
  return isPointToPoint(call.kind) ? call.kind == Kind::Receive
                                   : groups[static_cast<size_t>(call.group)].memberOf(rank);
}

int64_t Executor::sizeOf(const Channel &channel) const {
  return channel.isPair() ? 2 : groups[static_cast<size_t>(channel.group)].size;
}

int64_t Executor::rankOf(const Channel &channel, int64_t member) const {
  if (channel.isPair())
    member = member ? channel.to : channel.from;
  return groups[static_cast<size_t>(channel.group)].rankOf(channel.instance, member);
}

Executor::Meeting &Executor::meetingOf(int64_t rank, const Call &call) {
  Channel channel = channelOf(rank, call);
  auto size = static_cast<size_t>(sizeOf(channel));
  std::deque<Meeting> &sequence = meetings[channel];
  while (static_cast<int64_t>(sequence.size()) <= call.sequence) {
    Meeting &meeting = sequence.emplace_back();
    meeting.channel = channel;
    meeting.calls.resize(size);
    meeting.streams.resize(size);
    meeting.places.resize(size);
    meeting.received.resize(size);
  }
  return sequence[static_cast<size_t>(call.sequence)];
}

static bool sameOperands(const Call &a, const Call &b) {
  if (a.viewCount != b.viewCount)
    return false;
  for (size_t i = 0; i < static_cast<size_t>(a.viewCount); ++i) {
    const View &x = a.views[i], &y = b.views[i];
    if (bool(x) != bool(y) || x.dtype != y.dtype || x.rank != y.rank || x.dims != y.dims)
      return false;
  }
  return true;
}

/// Whether two members issue what can meet. Ops are numbered by program.
bool Executor::agree(const Meeting &meeting, size_t first, size_t second) const {
  const Call &a = *meeting.calls[first], &b = *meeting.calls[second];
  if (meeting.channel.isPair())
    return sameOperands(a, b);
  bool sameProgram = &programOf(rankOf(meeting.streams[first])) == &programOf(rankOf(meeting.streams[second]));
  return a.kind == b.kind && (!sameProgram || a.op == b.op) && a.ints == b.ints && sameOperands(a, b);
}

void Executor::arrive(int64_t stream, const Call &call) {
  int64_t rank = rankOf(stream);
  Meeting &meeting = meetingOf(rank, call);
  auto member = static_cast<size_t>(memberOf(rank, call));
  meeting.calls[member] = &call;
  meeting.streams[member] = stream;
  meeting.places[member] = placeOf(stream);
  for (size_t other = 0; other < meeting.calls.size(); ++other) {
    if (!meeting.calls[other] || other == member)
      continue;
    // All that arrived before agree among themselves, so one comparison is enough.
    if (!agree(meeting, other, member))
      return failLocked(Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                                      mismatchText(meeting, static_cast<int64_t>(std::min(other, member)),
                                                   static_cast<int64_t>(std::max(other, member)))));
    break;
  }
  if (++meeting.arrived < static_cast<int64_t>(meeting.calls.size()))
    return;
  meeting.begin = now();
  startPhase(meeting);
}

void Executor::startPhase(Meeting &meeting) {
  bool joint = client.phases(*meeting.calls[0]) == 0;
  auto size = joint ? 1 : static_cast<int64_t>(meeting.calls.size());
  meeting.remaining = size;
  for (int64_t member = 0; member < size; ++member)
    push({Job::Type::Pull, member, &meeting});
  // This worker takes one itself.
  for (int64_t i = std::min(idle, size - 1); i > 0; --i)
    wakeup.notify_one();
}

void Executor::pull(Meeting &meeting, int64_t member) {
  const Call &call = *meeting.calls[static_cast<size_t>(member)];
  Gathering gathering{meeting.calls, meeting.places, meeting.received, meeting.channel.instance};
  Status status = client.pull(gathering, member, meeting.phase);
  std::lock_guard lock(mutex);
  if (!status.ok())
    return failLocked(located(std::move(status), meeting.streams[static_cast<size_t>(member)], call));
  if (--meeting.remaining > 0)
    return;
  if (++meeting.phase < client.phases(call))
    startPhase(meeting);
  else if (!delayMeeting(meeting))
    complete(meeting);
}

void Executor::complete(Meeting &meeting) {
  int64_t end = now();
  for (size_t member = 0; member < meeting.calls.size(); ++member) {
    int64_t stream = meeting.streams[member];
    Stream &queue = streams[static_cast<size_t>(stream)];
    const Call &call = *meeting.calls[member];
    queue.times.push_back({call.op, client.rows(call), meeting.begin, end, meeting.received[member]});
    ++queue.head;
    push({Job::Type::Stream, stream});
  }
  for (int64_t i = std::min<int64_t>(idle, static_cast<int64_t>(meeting.calls.size()) - 1); i > 0; --i)
    wakeup.notify_one();
}

void Executor::push(const Job &job) {
  if (!failed)
    ready.push_back(job);
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
  ready.clear();
  transfers.clear();
  // Where nothing runs, no worker will say that the step is over.
  finished.notify_all();
}

Status Executor::located(Status status, int64_t stream, const Call &call) const {
  status.message = "rank " + std::to_string(rankOf(stream)) + ", " + callText(stream, call) + ": " + status.message;
  return status;
}

} // namespace moert
