//===- Executor.cpp - all ranks' streams on a pool of threads -------------===//

#include "host/Executor.h"

#include <algorithm>
#include <exception>

namespace moert::host {

Executor::Executor(const Program &program, const std::vector<Group> &groups, int64_t ranks, int64_t workerCount,
                   Client &client, bool emulate)
    : program(program), groups(groups), rankCount(ranks), streamCount(static_cast<int64_t>(program.streams.size())),
      client(client), emulate(emulate), ranks(static_cast<size_t>(ranks)),
      streams(static_cast<size_t>(ranks * streamCount)), meetings(groups.size()) {
  for (size_t g = 0; g < groups.size(); ++g)
    meetings[g].resize(static_cast<size_t>(std::max<int64_t>(1, ranks / groups[g].size)));
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
  Stream &queue = streams[static_cast<size_t>(rank * streamCount + stream)];
  queue.items.push_back({Item::Type::Call, static_cast<int64_t>(queue.calls.size())});
  queue.calls.push_back(call);
  if (isCollective(call.kind))
    queue.calls.back().sequence = ranks[static_cast<size_t>(rank)].issued[static_cast<size_t>(call.group)]++;
}

Status Executor::record(int64_t rank, int64_t event, int64_t stream) {
  Rank &state = ranks[static_cast<size_t>(rank)];
  auto signal = static_cast<int64_t>(state.signals.size());
  state.signals.push_back({event, stream, false, {}});
  state.lastSignal[static_cast<size_t>(event)] = signal;
  streams[static_cast<size_t>(rank * streamCount + stream)].items.push_back({Item::Type::Record, signal});
  return {};
}

Status Executor::wait(int64_t rank, int64_t event, int64_t stream) {
  int64_t signal = ranks[static_cast<size_t>(rank)].lastSignal[static_cast<size_t>(event)];
  if (signal < 0)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "stream '" + program.streams[static_cast<size_t>(stream)] +
                                                           "' of rank " + std::to_string(rank) + " waits for event " +
                                                           std::to_string(event) +
                                                           ", which was not recorded before in this step");
  streams[static_cast<size_t>(rank * streamCount + stream)].items.push_back({Item::Type::Wait, signal});
  return {};
}

Status Executor::run(const std::function<Status(int64_t)> &issueFunction, double timeout) {
  std::unique_lock lock(mutex);
  reset();
  issue = &issueFunction;
  unfinished = rankCount;
  stepBegin = Clock::now();
  for (int64_t rank = 0; rank < rankCount; ++rank)
    push({Job::Type::Issue, rank});
  wakeup.notify_all();

  auto done = [this] { return running == 0 && (unfinished == 0 || failed); };
  if (timeout <= 0) {
    finished.wait(lock, done);
  } else if (!finished.wait_for(lock, std::chrono::duration<double>(timeout), done)) {
    bool first = !failed;
    failLocked(Status::error(MOERT_ERROR_HANG, ""));
    finished.wait(lock, done);
    if (first)
      failure.message = "the time-out of " + std::to_string(timeout) + " s passed: " + stuckText();
  }
  return failure;
}

void Executor::reset() {
  for (Stream &stream : streams) {
    stream.items.clear();
    stream.calls.clear();
    stream.times.clear();
    stream.head = 0;
  }
  for (Rank &rank : ranks) {
    rank.signals.clear();
    rank.lastSignal.assign(static_cast<size_t>(program.events), -1);
    rank.issued.assign(groups.size(), 0);
  }
  for (auto &instances : meetings)
    for (auto &sequence : instances)
      sequence.clear();
  ready.clear();
  transfers.clear();
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
    if (running > 0 || !ready.empty() || !transfers.empty())
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

/// Whether the transfer is emulated and its time not up, so that it ends later.
bool Executor::delay(const Call &call, int64_t begin, const Transfer &transfer) {
  auto op = static_cast<size_t>(call.op);
  double seconds = emulate && op < program.ops.size() ? program.ops[op].seconds : 0;
  int64_t end = begin + static_cast<int64_t>(seconds * 1e9);
  if (failed || seconds <= 0 || end <= now())
    return false;
  transfers.emplace(end, transfer);
  if (idle > 0)
    wakeup.notify_one();
  return true;
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
  Status status = (*issue)(rank);
  std::lock_guard lock(mutex);
  if (!status.ok())
    return failLocked(std::move(status));
  --unfinished;
  int64_t pushed = 0;
  for (int64_t stream = rank * streamCount; stream < (rank + 1) * streamCount; ++stream) {
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
  std::lock_guard lock(mutex);
  Signal &signal = ranks[static_cast<size_t>(rankOf(stream))].signals[static_cast<size_t>(item.index)];
  if (item.type == Item::Type::Wait) {
    if (!signal.done)
      signal.waiting.push_back(stream);
    return signal.done;
  }
  signal.done = true;
  for (int64_t waiting : signal.waiting) {
    ++streams[static_cast<size_t>(waiting)].head;
    push({Job::Type::Stream, waiting});
    if (idle > 0)
      wakeup.notify_one();
  }
  return true;
}

bool Executor::runCall(int64_t stream, const Call &call) {
  if (isCollective(call.kind)) {
    std::lock_guard lock(mutex);
    arrive(stream, call);
    return false;
  }
  int64_t begin = now();
  if (Status status = client.execute(call); !status.ok()) {
    fail(located(std::move(status), stream, call));
    return false;
  }
  if (emulate) {
    std::lock_guard lock(mutex);
    if (delay(call, begin, {nullptr, stream, begin}))
      return false;
  }
  completeCall(stream, begin);
  return true;
}

/// Notes when the call at the head of a stream ran. Only who runs the stream may do so.
void Executor::completeCall(int64_t stream, int64_t begin) {
  Stream &queue = streams[static_cast<size_t>(stream)];
  const Call &call = queue.calls[static_cast<size_t>(queue.items[queue.head].index)];
  queue.times.push_back({call.op, usedRows(call), begin, now()});
}

Executor::Meeting &Executor::meetingOf(int64_t rank, const Call &call) {
  const Group &group = groups[static_cast<size_t>(call.group)];
  int64_t instance = group.instanceOf(rank);
  auto &sequence = meetings[static_cast<size_t>(call.group)][static_cast<size_t>(instance)];
  while (static_cast<int64_t>(sequence.size()) <= call.sequence) {
    Meeting &meeting = sequence.emplace_back();
    meeting.group = call.group;
    meeting.instance = instance;
    meeting.calls.resize(static_cast<size_t>(group.size));
    meeting.streams.resize(static_cast<size_t>(group.size));
    meeting.received.resize(static_cast<size_t>(group.size));
  }
  return sequence[static_cast<size_t>(call.sequence)];
}

static bool sameCollective(const Call &a, const Call &b) {
  if (a.kind != b.kind || a.op != b.op || a.ints != b.ints || a.viewCount != b.viewCount)
    return false;
  for (size_t i = 0; i < static_cast<size_t>(a.viewCount); ++i) {
    const View &x = a.views[i], &y = b.views[i];
    if (bool(x) != bool(y) || x.dtype != y.dtype || x.rank != y.rank || x.dims != y.dims)
      return false;
  }
  return true;
}

void Executor::arrive(int64_t stream, const Call &call) {
  int64_t rank = rankOf(stream);
  Meeting &meeting = meetingOf(rank, call);
  auto member = static_cast<size_t>(groups[static_cast<size_t>(call.group)].memberOf(rank));
  meeting.calls[member] = &call;
  meeting.streams[member] = stream;
  for (size_t other = 0; other < meeting.calls.size(); ++other) {
    if (!meeting.calls[other] || other == member)
      continue;
    // All that arrived before agree among themselves, so one comparison is enough.
    if (!sameCollective(*meeting.calls[other], call))
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
  auto size = static_cast<int64_t>(meeting.calls.size());
  meeting.remaining = size;
  for (int64_t member = 0; member < size; ++member)
    push({Job::Type::Pull, member, &meeting});
  // This worker takes one itself.
  for (int64_t i = std::min(idle, size - 1); i > 0; --i)
    wakeup.notify_one();
}

void Executor::pull(Meeting &meeting, int64_t member) {
  const Call &call = *meeting.calls[static_cast<size_t>(member)];
  int64_t received = 0;
  Status status = client.pull(meeting.calls, member, meeting.phase, meeting.instance, received);
  std::lock_guard lock(mutex);
  if (!status.ok())
    return failLocked(located(std::move(status), meeting.streams[static_cast<size_t>(member)], call));
  meeting.received[static_cast<size_t>(member)] += received;
  if (--meeting.remaining > 0)
    return;
  if (++meeting.phase < client.phases(call))
    startPhase(meeting);
  else if (!delay(call, meeting.begin, {&meeting, -1, meeting.begin}))
    complete(meeting);
}

void Executor::complete(Meeting &meeting) {
  int64_t end = now();
  for (size_t member = 0; member < meeting.calls.size(); ++member) {
    int64_t stream = meeting.streams[member];
    Stream &queue = streams[static_cast<size_t>(stream)];
    const Call &call = *meeting.calls[member];
    queue.times.push_back({call.op, usedRows(call), meeting.begin, end, meeting.received[member]});
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

} // namespace moert::host
