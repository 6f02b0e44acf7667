//===- ExecutorPolicy.h - all ranks' streams on a pool of workers ---------===//
//
// Each stream of each rank is a FIFO queue. Workers carry on whatever is at the head of a queue and ready, in the order
// in which it got ready. A collective gets ready when its last member arrives at the head of its stream; each member's
// share is then a job of its own, in as many phases as it takes, and all members' streams go on when the last of these
// is done. A send and its receive meet likewise, as two members. An emulated transfer waits for its end in a queue of
// times, and no worker is held meanwhile.
//
// The policy decides this and no more. The runtime's executor drives it with threads and real time, the compiler's
// simulator in virtual time: they carry out calls, and have clocks, locks and errors.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_EXECUTORPOLICY_H
#define MOERT_EXECUTORPOLICY_H

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <variant>
#include <vector>

namespace moert {

/// A collective, or a send and its receive.
struct PolicyMeeting {
  std::vector<int64_t> streams; ///< by member, -1 until it arrives
  int64_t arrived = 0;
  int64_t remaining = 0; ///< shares of this phase
  int phase = -1;
};

/// `Meeting` is a PolicyMeeting, or derives from it. A `Note` goes with each job that gets ready.
///
/// `head` and `pass` of a stream are for the worker alone that carries it on, `submit`, `record` and `wait` for who
/// issues its rank. All else is for one thread at a time.
template <class Time, class Meeting, class Note = std::monostate> class ExecutorPolicy {
public:
  struct Item {
    enum class Type : uint8_t { Call, Record, Wait } type;
    int64_t index; ///< as the call was submitted, or of the rank's signals
  };
  struct Job {
    enum class Type : uint8_t { Issue, Stream, Share } type;
    int64_t index; ///< rank, stream or member
    Meeting *meeting = nullptr;
    Note note{};
  };
  /// One recording of an event; an event that is recorded again gets a new one.
  struct Signal {
    int64_t event;
    int64_t stream;
    bool done = false;
    std::vector<int64_t> waiting; ///< streams
  };
  /// Where links are emulated, a stream lets others go first after each call: on a device a transfer whose time is up
  /// does not wait until the other streams have nothing to do.
  const bool emulate;

  explicit ExecutorPolicy(bool emulate) : emulate(emulate) {}

  /// The next rank. Its jobs are for the workers of `pool`; pools are numbered from 0.
  void addRank(int64_t streamCount, int64_t pool = 0) {
    streams.resize(streams.size() + static_cast<size_t>(streamCount), {static_cast<int64_t>(ranks.size()), {}});
    ranks.push_back({pool, {}, {}});
    firstStream.push_back(static_cast<int64_t>(streams.size()));
    ready.resize(std::max(ready.size(), static_cast<size_t>(pool) + 1));
  }
  /// Forgets what was issued, and how far it came.
  void reset() {
    for (Stream &stream : streams) {
      stream.items.clear();
      stream.head = 0;
    }
    for (Rank &rank : ranks) {
      rank.signals.clear();
      rank.lastSignal.clear();
    }
    stop();
    stopped = false;
    unfinished = 0;
  }
  /// From now on nothing gets ready.
  void stop() {
    stopped = true;
    transfers.clear();
    for (std::deque<Job> &jobs : ready)
      jobs.clear();
  }

  // Streams are numbered rank by rank.
  int64_t rankOf(int64_t stream) const { return streams[static_cast<size_t>(stream)].rank; }
  int64_t indexOf(int64_t rank, int64_t stream) const { return firstStream[static_cast<size_t>(rank)] + stream; }
  int64_t endOf(int64_t rank) const { return indexOf(rank + 1, 0); }

  // What a rank issues.
  void submit(int64_t stream, int64_t call) { itemsOf(stream).push_back({Item::Type::Call, call}); }
  void record(int64_t stream, int64_t event) {
    Rank &rank = ranks[static_cast<size_t>(rankOf(stream))];
    itemsOf(stream).push_back({Item::Type::Record, static_cast<int64_t>(rank.signals.size())});
    rank.lastSignal[event] = static_cast<int64_t>(rank.signals.size());
    rank.signals.push_back({event, stream, false, {}});
  }
  /// False where the event was not recorded before.
  bool wait(int64_t stream, int64_t event) {
    const std::map<int64_t, int64_t> &last = ranks[static_cast<size_t>(rankOf(stream))].lastSignal;
    auto signal = last.find(event);
    if (signal == last.end())
      return false;
    itemsOf(stream).push_back({Item::Type::Wait, signal->second});
    return true;
  }

  /// A rank is to issue.
  void start(int64_t rank) {
    ++unfinished;
    push({Job::Type::Issue, rank});
  }
  /// It has. Returns how many streams got ready.
  int64_t endIssue(int64_t rank, const Note &note = {}) {
    int64_t before = --unfinished;
    for (int64_t stream = indexOf(rank, 0); stream < endOf(rank); ++stream)
      if (head(stream)) {
        ++unfinished;
        makeReady(stream, note);
      }
    return unfinished - before;
  }

  /// What the stream is at; null at its end.
  const Item *head(int64_t stream) const {
    const Stream &queue = streams[static_cast<size_t>(stream)];
    return queue.head < queue.items.size() ? &queue.items[queue.head] : nullptr;
  }
  /// The head is done. Whether the worker goes on with the next item; else it leaves the stream.
  bool pass(int64_t stream) {
    bool isCall = head(stream)->type == Item::Type::Call;
    ++streams[static_cast<size_t>(stream)].head;
    return head(stream) && !(emulate && isCall);
  }
  /// At the stream's end, or to let others go first.
  void leave(int64_t stream, const Note &note = {}) {
    if (head(stream))
      makeReady(stream, note);
    else
      --unfinished;
  }
  /// The head is done, and no worker has the stream.
  void resume(int64_t stream, const Note &note = {}) {
    ++streams[static_cast<size_t>(stream)].head;
    makeReady(stream, note);
  }

  /// Of a Record or a Wait of the stream.
  const Signal &signalOf(int64_t stream, const Item &item) const {
    return ranks[static_cast<size_t>(rankOf(stream))].signals[static_cast<size_t>(item.index)];
  }
  /// Whether the stream has to wait. It comes to this item again.
  bool mustWait(int64_t stream, const Item &item) {
    Signal &signal = getSignal(stream, item);
    if (!signal.done)
      signal.waiting.push_back(stream);
    return !signal.done;
  }
  /// Returns how many streams got ready.
  int64_t setDone(int64_t stream, const Item &item, const Note &note = {}) {
    Signal &signal = getSignal(stream, item);
    signal.done = true;
    for (int64_t waiting : signal.waiting)
      makeReady(waiting, note);
    return static_cast<int64_t>(signal.waiting.size());
  }

  /// Whether the member is the last.
  static bool arrive(Meeting &meeting, int64_t member, int64_t stream) {
    meeting.streams[static_cast<size_t>(member)] = stream;
    return ++meeting.arrived == static_cast<int64_t>(meeting.streams.size());
  }
  /// Begins the next of so many phases, if there is one. 0: one job does all members' shares.
  bool startPhase(Meeting &meeting, int phases, const Note &note = {}) {
    if (++meeting.phase >= std::max(1, phases))
      return false;
    meeting.remaining = phases == 0 ? 1 : static_cast<int64_t>(meeting.streams.size());
    for (int64_t member = 0; member < meeting.remaining; ++member)
      push({Job::Type::Share, member, &meeting, note});
    return true;
  }
  /// Whether it was the last share of the phase. Behind the last phase the members' streams are to be resumed.
  static bool endShare(Meeting &meeting) { return --meeting.remaining == 0; }

  /// Whether the calls at the heads of these streams, which meet or are one, end later than now as emulated transfers.
  /// Members of different programs may know different ends: the last counts.
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
  /// When the next one ends.
  Time nextEnd() const { return transfers.begin()->first; }
  std::vector<int64_t> takeTransfer() { return transfers.extract(transfers.begin()).mapped(); }

  bool hasReady(int64_t pool = 0) const { return !ready[static_cast<size_t>(pool)].empty(); }
  /// The job for a worker of the pool that is free.
  Job take(int64_t pool = 0) {
    std::deque<Job> &jobs = ready[static_cast<size_t>(pool)];
    Job job = jobs.front();
    jobs.pop_front();
    return job;
  }
  /// Whether all ranks have issued and all streams are at their ends.
  bool isFinished() const { return unfinished == 0; }

private:
  struct Stream {
    int64_t rank;
    std::vector<Item> items;
    size_t head = 0;
  };
  struct Rank {
    int64_t pool;
    std::vector<Signal> signals;
    std::map<int64_t, int64_t> lastSignal; ///< by event
  };

  void makeReady(int64_t stream, const Note &note) { push({Job::Type::Stream, stream, nullptr, note}); }
  std::vector<Item> &itemsOf(int64_t stream) { return streams[static_cast<size_t>(stream)].items; }
  Signal &getSignal(int64_t stream, const Item &item) { return const_cast<Signal &>(signalOf(stream, item)); }
  void push(const Job &job) {
    int64_t rank = job.index;
    if (job.type != Job::Type::Issue)
      rank = rankOf(job.meeting ? job.meeting->streams[static_cast<size_t>(job.index)] : job.index);
    if (!stopped)
      ready[static_cast<size_t>(ranks[static_cast<size_t>(rank)].pool)].push_back(job);
  }

  std::vector<Stream> streams;
  std::vector<Rank> ranks;
  std::vector<int64_t> firstStream = {0};              ///< by rank, then the end
  std::vector<std::deque<Job>> ready;                  ///< by pool
  std::multimap<Time, std::vector<int64_t>> transfers; ///< streams, by when the calls at their heads end
  int64_t unfinished = 0; ///< ranks that have not issued, and streams that are not at their ends
  bool stopped = false;
};

} // namespace moert

#endif // MOERT_EXECUTORPOLICY_H
