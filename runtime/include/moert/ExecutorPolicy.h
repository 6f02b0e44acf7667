//===- ExecutorPolicy.h - all ranks' streams on a pool of workers ---------===//
//
// Each stream of each rank is a FIFO queue. Workers take ready heads of queues in the order in which they became ready.
// A collective is ready when its last member arrives at the head of its stream. Each member's share is then a job, in
// one or several phases, and all members' streams continue when the last share is done. A send and its receive meet in
// the same way, as two members. An emulated transfer occupies no worker: it waits in a queue for the time of its end.
//
// This policy decides nothing else. The runtime's executor drives it with threads and real time, the compiler's
// simulator in virtual time. They run calls, and have clocks, locks and errors.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_EXECUTORPOLICY_H
#define MOERT_EXECUTORPOLICY_H

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace moert {

/// Queues of a rank, one for each stream, with the items that the rank issued.
class IssuedQueues {
public:
  struct Item {
    enum class Type : uint8_t { Call, Record, Wait } type;
    int32_t index; ///< number that submit() got, or the signal's index
  };
  /// One recording of an event. Each recording of an event has its own signal.
  struct Signal {
    int64_t event, stream;
  };
  std::vector<std::vector<Item>> items; ///< by stream
  std::vector<Signal> signals;

  explicit IssuedQueues(int64_t streams = 0) : items(streams) {}
  void submit(int64_t stream, int32_t call) { add(stream, {Item::Type::Call, call}); }
  void record(int64_t stream, int64_t event) {
    lastSignal.resize(std::max(lastSignal.size(), static_cast<size_t>(event) + 1), -1);
    lastSignal[event] = static_cast<int32_t>(signals.size());
    add(stream, {Item::Type::Record, static_cast<int32_t>(signals.size())});
    signals.push_back({event, stream});
  }
  /// Returns false if the event was not recorded before.
  bool wait(int64_t stream, int64_t event) {
    auto index = static_cast<size_t>(event);
    if (index >= lastSignal.size() || lastSignal[index] < 0)
      return false;
    add(stream, {Item::Type::Wait, lastSignal[index]});
    return true;
  }
  void clear() {
    for (std::vector<Item> &queue : items)
      queue.clear();
    signals.clear();
    lastSignal.clear();
  }

private:
  void add(int64_t stream, Item item) { items[stream].push_back(item); }

  std::vector<int32_t> lastSignal; ///< by event, -1 if never recorded
};

/// A collective, or a send and its receive.
struct PolicyMeeting {
  std::vector<int64_t> streams; ///< by member, -1 until it arrives
  int64_t arrived = 0;
  int64_t remaining = 0; ///< shares of this phase that are not done
  int phase = -1;
};

/// `Meeting` is a PolicyMeeting or derives from it. Each ready job carries a `Note`.
///
/// Only the worker that has a stream may call `head` and `pass` for it. All other functions are for one thread at a
/// time.
template <class Time, class Meeting, class Note = std::monostate> class ExecutorPolicy {
public:
  using Item = IssuedQueues::Item;
  struct Job {
    enum class Type : uint8_t { Issue, Stream, Share } type;
    int64_t index; ///< rank, stream or member
    Meeting *meeting = nullptr;
    Note note{};
  };
  /// With emulated links, a stream yields to others after each call. On a device, too, a transfer ends while other
  /// streams still have work.
  const bool emulate;

  explicit ExecutorPolicy(bool emulate) : emulate(emulate) {}

  /// Adds a rank. Its items are in `queues` when endIssue() is called. The workers of `pool`, from 0 on, run its jobs.
  void addRank(const IssuedQueues &queues, int64_t pool = 0) {
    for (const std::vector<Item> &items : queues.items)
      streams.push_back({std::ssize(ranks), &items});
    ranks.push_back({&queues, pool, {}});
    firstStream.push_back(std::ssize(streams));
    ready.resize(std::max(ready.size(), static_cast<size_t>(pool) + 1));
  }
  /// Restores the state before the first start().
  void reset() {
    for (Stream &stream : streams)
      stream = {stream.rank, stream.items};
    stop();
    stopped = false;
    unfinished = 0;
  }
  /// Drops all jobs. No job becomes ready until reset().
  void stop() {
    stopped = true;
    transfers.clear();
    for (std::deque<Job> &jobs : ready)
      jobs.clear();
  }

  // Streams are numbered rank by rank.
  int64_t rankOf(int64_t stream) const { return streams[stream].rank; }
  int64_t indexOf(int64_t rank, int64_t stream) const { return firstStream[rank] + stream; }
  int64_t endOf(int64_t rank) const { return indexOf(rank + 1, 0); }

  /// Makes the job ready that issues the rank's items.
  void start(int64_t rank) {
    ++unfinished;
    push({Job::Type::Issue, rank});
  }
  /// Sets the queues of the rank's items, before the rank has issued any.
  void use(int64_t rank, const IssuedQueues &queues) {
    ranks[rank].queues = &queues;
    for (int64_t stream = indexOf(rank, 0); stream < endOf(rank); ++stream)
      streams[stream].items = &queues.items[stream - indexOf(rank, 0)];
  }
  /// Records that the rank has issued all its items. Returns the number of streams that became ready.
  int64_t endIssue(int64_t rank, const Note &note = {}) {
    ranks[rank].signals.assign(ranks[rank].queues->signals.size(), {});
    int64_t before = --unfinished;
    for (int64_t stream = indexOf(rank, 0); stream < endOf(rank); ++stream)
      if (head(stream)) {
        ++unfinished;
        makeReady(stream, note);
      }
    return unfinished - before;
  }

  /// Item at the head of the stream; null at its end.
  const Item *head(int64_t stream) const {
    const Stream &queue = streams[stream];
    return queue.head < queue.items->size() ? &(*queue.items)[queue.head] : nullptr;
  }
  /// Drops the head, which is done. Returns whether the worker continues with the next item; if not, it must leave the
  /// stream.
  bool pass(int64_t stream) {
    bool isCall = head(stream)->type == Item::Type::Call;
    ++streams[stream].head;
    return head(stream) && !(emulate && isCall);
  }
  /// Releases the stream from its worker, at its end or to yield to others.
  void leave(int64_t stream, const Note &note = {}) {
    if (head(stream))
      makeReady(stream, note);
    else
      --unfinished;
  }
  /// Drops the head, which is done, of a stream that has no worker.
  void resume(int64_t stream, const Note &note = {}) {
    ++streams[stream].head;
    makeReady(stream, note);
  }

  /// Returns whether the stream must wait for a signal. It then becomes ready with the same item.
  bool mustWait(int64_t stream, const Item &item) {
    Signal &signal = signalOf(stream, item);
    int64_t *last = &signal.firstWaiting;
    while (!signal.done && *last >= 0)
      last = &streams[*last].nextWaiting;
    if (!signal.done)
      *last = stream;
    return !signal.done;
  }
  /// Marks the item's signal as done. Returns the number of streams that became ready.
  int64_t setDone(int64_t stream, const Item &item, const Note &note = {}) {
    Signal &signal = signalOf(stream, item);
    signal.done = true;
    int64_t count = 0;
    for (int64_t waiting = signal.firstWaiting; waiting >= 0; ++count) {
      makeReady(waiting, note);
      waiting = std::exchange(streams[waiting].nextWaiting, -1);
    }
    return count;
  }

  /// Records the arrival of a member. Returns whether it is the last.
  static bool arrive(Meeting &meeting, int64_t member, int64_t stream) {
    meeting.streams[member] = stream;
    return ++meeting.arrived == std::ssize(meeting.streams);
  }
  /// Begins the next of `phases` phases, if there is one. If `phases` is 0, one job does all members' shares.
  bool startPhase(Meeting &meeting, int phases, const Note &note = {}) {
    if (++meeting.phase >= std::max(1, phases))
      return false;
    meeting.remaining = phases == 0 ? 1 : std::ssize(meeting.streams);
    for (int64_t member = 0; member < meeting.remaining; ++member)
      push({Job::Type::Share, member, &meeting, note});
    return true;
  }
  /// Ends a share. Returns whether it was the last of its phase. After the last phase, the caller resumes the members'
  /// streams.
  static bool endShare(Meeting &meeting) { return --meeting.remaining == 0; }

  /// Delays the heads of these streams, one call or the calls of a meeting, until their emulated transfer ends. Returns
  /// false if it ends by now. Members of different programs may have different ends: the latest counts.
  template <class EndOf> bool delay(std::span<const int64_t> done, Time now, EndOf endOf) {
    if (!emulate || stopped)
      return false;
    Time end = now;
    for (int64_t stream : done)
      end = std::max(end, endOf(stream));
    if (end > now)
      transfers.emplace(end, std::vector(done.begin(), done.end()));
    return end > now;
  }
  bool hasTransfers() const { return !transfers.empty(); }
  /// End of the next transfer.
  Time nextEnd() const { return transfers.begin()->first; }
  std::vector<int64_t> takeTransfer() { return transfers.extract(transfers.begin()).mapped(); }

  bool hasReady(int64_t pool = 0) const { return !ready[pool].empty(); }
  /// Takes the next job of the pool.
  Job take(int64_t pool = 0) {
    std::deque<Job> &jobs = ready[pool];
    Job job = jobs.front();
    jobs.pop_front();
    return job;
  }
  /// Returns whether all ranks have issued and all streams are at their ends.
  bool isFinished() const { return unfinished == 0; }

private:
  struct Stream {
    int64_t rank;
    const std::vector<Item> *items;
    size_t head = 0;
    int64_t nextWaiting = -1; ///< next stream that waits for the same signal
  };
  struct Signal {
    bool done = false;
    int64_t firstWaiting = -1; ///< stream
  };
  struct Rank {
    const IssuedQueues *queues;
    int64_t pool;
    std::vector<Signal> signals;
  };

  void makeReady(int64_t stream, const Note &note) { push({Job::Type::Stream, stream, nullptr, note}); }
  Signal &signalOf(int64_t stream, const Item &item) { return ranks[rankOf(stream)].signals[item.index]; }
  void push(const Job &job) {
    int64_t rank = job.index;
    if (job.type != Job::Type::Issue)
      rank = rankOf(job.meeting ? job.meeting->streams[job.index] : job.index);
    if (!stopped)
      ready[ranks[rank].pool].push_back(job);
  }

  std::vector<Stream> streams;
  std::vector<Rank> ranks;
  std::vector<int64_t> firstStream = {0};              ///< by rank, then the end
  std::vector<std::deque<Job>> ready;                  ///< by pool
  std::multimap<Time, std::vector<int64_t>> transfers; ///< streams, by the end of the calls at their heads
  int64_t unfinished = 0; ///< ranks that have not issued, and streams that are not at their ends
  bool stopped = false;
};

} // namespace moert

#endif // MOERT_EXECUTORPOLICY_H
