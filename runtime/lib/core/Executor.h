//===- Executor.h - all ranks' streams on a pool of threads ---------------===//
//
// Drives the policy of moert/ExecutorPolicy.h with one worker per core, so that any number of ranks runs on any number
// of cores. A hang is seen at once: nothing runs, nothing is ready, and some queue is not empty.
//
// Ranks may run in other processes too. A collective with members there goes to the client when it comes to the head of
// its stream, and the stream goes on when the client says that the collective is done.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_EXECUTOR_H
#define MOERT_CORE_EXECUTOR_H

#include "core/Device.h"
#include "moert/ExecutorPolicy.h"

#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>

namespace moert {

class Executor {
public:
  /// A stream of a rank.
  struct Place {
    int64_t rank;
    int64_t stream;
  };
  /// Members of a collective on an instance of its group, or of a channel. On a channel member 0 sends and member 1
  /// receives.
  struct Gathering {
    std::span<const Call *const> calls; ///< by member
    std::span<const Place> places;
    std::span<int64_t> received; ///< bytes that came from other members
    int64_t instance;
  };

  /// Carries out the calls.
  class Client {
  public:
    virtual ~Client() = default;
    /// Called once by each worker.
    virtual void beginThread() {}
    virtual Status execute(const Place &place, const Call &call) = 0;
    /// Number of times that pull is called for each member. A phase begins when all members have done the one before.
    /// 0: pull is called once, for all members.
    virtual int phases(const Call &call) const = 0;
    /// Does the share of member `member` in a collective.
    virtual Status pull(const Gathering &gathering, int64_t member, int phase) = 0;

    /// Gets the number of iterations of the loop that a call is in, when its turn has come.
    virtual Status readTimes(const Place &, const Call &call, int64_t &times) {
      times = *call.repetition.times.as<const int32_t>();
      return {};
    }

    /// Number of rows that a ragged call used, or -1 if that is not known.
    virtual int64_t rows(const Call &call) const { return usedRows(call); }

    /// Called when an event was recorded, or waited for; `signal` numbers the recordings of a rank. They are for a
    /// client whose calls go on after they return.
    virtual Status record(const Place &place, int64_t signal) { return {}; }
    virtual Status wait(const Place &place, int64_t signal) { return {}; }

    /// Whether the members of the collective meet outside this process. The executor then calls `start` instead of pull
    /// when the collective's turn has come. `start` returns at once, and the client later calls `complete`.
    virtual bool isRemote(const Call &call) const { return false; }
    virtual void start(int64_t rank, int64_t stream, const Call &call) {}
    /// Called instead of `start` if the loop does not have the collective's iteration. No member comes to it.
    virtual void skip(int64_t stream, const Call &call) {}
  };

  struct Options {
    int64_t workers = 0;     ///< 0: one for each core
    bool emulate = false;    ///< see BackendOptions
    BindCall bind = {};      ///< see BackendOptions
    bool times = true;       ///< whether to keep timelines
    bool issuesOnce = false; ///< see BackendOptions
  };

  /// Runs `localRanks` of `ranks` ranks. `programs`, in the order of their ranks, `groups` and `client` must outlive
  /// the executor.
  Executor(std::span<const Program> programs, const std::vector<Group> &groups, int64_t ranks,
           std::vector<int64_t> localRanks, Client &client, const Options &options);
  ~Executor();
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  /// Enqueues at the end of a stream. Only allowed while `issue` runs for that rank.
  void submit(int64_t rank, int64_t stream, const Call &call);
  Status record(int64_t rank, int64_t event, int64_t stream);
  Status wait(int64_t rank, int64_t event, int64_t stream);

  /// See Device::runStep.
  Status run(const std::function<Status(int64_t)> &issue, double timeout);
  /// Ends the running step, if there is one, with an error. May be called from any thread.
  void fail(Status status);
  /// Says that the collective that `start` got is done and received `received` bytes. May be called from any thread.
  void complete(int64_t rank, int64_t stream, int64_t received);

  /// Whether a task still runs after its step failed and was given up. Its worker uses the executor, the client and the
  /// operands, so none of them may be destroyed.
  bool isStuck() const { return stuck; }
  /// Text of the calls that this process's ranks run now: "rank 2: op 4 matmul 'layer0' on stream 'compute'". May be
  /// called from any thread.
  std::string runningText() const;
  const std::vector<int64_t> &localRanks() const { return local; }

  const std::vector<OpTime> &timeline(int64_t rank, int64_t stream) const {
    return streams[indexOf(rank, stream)].times;
  }

private:
  using Clock = std::chrono::steady_clock;

  /// Calls of one stream of a program, which its ranks share.
  class Calls {
  public:
    void clear();
    /// Keeps call number `index`, which a rank issued. Returns false if another rank issued a different call.
    bool keep(size_t index, const Call &call, bool canBind);
    /// Returns a call as the first rank issued it. Its `buffers` live as long as the step.
    const Call &get(size_t index) const;

  private:
    struct Kept {
      Call call;
      std::array<moert_buffer, 12> buffers;
      moert_buffer times;
    };
    static_assert(std::is_trivially_destructible_v<Kept>);
    /// Part i has room for 2^i calls. So no call ever moves, and calls are read without a lock.
    static size_t partOf(size_t index) { return static_cast<size_t>(std::bit_width(index + 1)) - 1; }
    Kept *at(size_t index) const;

    std::mutex mutex; ///< held to add a call
    std::atomic<size_t> count = 0;
    std::array<std::unique_ptr<std::byte[]>, 48> parts; ///< memory of the calls
  };
  struct Stream {
    Calls *calls = nullptr;
    std::unordered_map<int64_t, Call> own; ///< calls that differ from those in `calls`, by number
    int32_t count = 0;                     ///< number of calls
    Call head;                             ///< call at the head, once its turn has come
    std::vector<OpTime> times;
    int64_t begin = 0;     ///< begin of the call at the head
    int64_t received = -1; ///< bytes that it received, see OpTime
    std::atomic<const Call *> current = nullptr;
  };
  /// Ranks that meet: all members of an instance of a group, or if `from` is not -1 a sender and a receiver among them.
  struct Channel {
    int64_t group;
    int64_t instance;
    int64_t from = -1;
    int64_t to = -1;

    bool isPair() const { return from >= 0; }
    auto operator<=>(const Channel &) const = default;
  };
  struct Rank {
    const Program *program = nullptr;
    IssuedQueues own;                     ///< calls that the rank issued itself
    const IssuedQueues *queues = nullptr; ///< calls that the rank runs, perhaps issued by another rank
    std::map<Channel, int64_t> issued;    ///< number of collectives, by channel
    std::atomic<bool> issuing = false;
  };
  struct Meeting : PolicyMeeting {
    Channel channel;
    std::vector<const Call *> calls; ///< by member; null until it arrives
    std::vector<Place> places;
    std::vector<int64_t> received; ///< bytes by member
  };
  using Policy = ExecutorPolicy<int64_t, Meeting>; ///< times are nanoseconds since the step began
  using Item = Policy::Item;
  using Job = Policy::Job;

  int64_t rankOf(int64_t stream) const { return policy.rankOf(stream); }
  Place placeOf(int64_t stream) const { return {rankOf(stream), stream - indexOf(rankOf(stream), 0)}; }
  int64_t indexOf(int64_t rank, int64_t stream) const { return policy.indexOf(rank, stream); }
  /// Returns a call as it was issued, perhaps by another rank.
  const Call &issuedAt(int64_t stream, const Item &item) const;
  Status bindTo(int64_t stream, Call &call) const;
  Status callOf(int64_t stream, const Item &item, Call &call) const;
  const Program &programOf(int64_t rank) const { return *ranks[rank].program; }
  Channel channelOf(int64_t rank, const Call &call) const;
  int64_t memberOf(int64_t rank, const Call &call) const;
  int64_t sizeOf(const Channel &channel) const;
  int64_t rankOf(const Channel &channel, int64_t member) const;
  int64_t endOf(int64_t stream) const;
  int64_t now() const { return std::chrono::nanoseconds(Clock::now() - stepBegin).count(); }

  void reset();
  void work();
  void runJob(const Job &job);
  void issueRank(int64_t rank);
  bool issueLikeOthers(int64_t rank);
  void advance(int64_t stream);
  void startRemote(int64_t stream, const Call &call);
  bool runEvent(int64_t stream, const Item &item);
  bool runHead(int64_t stream, const Item &item);
  bool runCall(int64_t stream, const Call &call);
  bool skip(int64_t stream, const Call &call);
  bool isSkipped(int64_t stream, const Call &call);
  void pull(Meeting &meeting, int64_t member);

  // These functions are called with the mutex held.
  void wake(int64_t jobs);
  Status await(std::unique_lock<std::mutex> &lock, double timeout);
  void arrive(int64_t stream, const Call &call);
  bool delay(std::span<const int64_t> done);
  void complete(std::span<const int64_t> done);
  void completeCall(int64_t stream, int64_t end);
  void endTransfers();
  void sleep(std::unique_lock<std::mutex> &lock);
  void failLocked(Status status);
  std::string stuckText() const;
  std::string runningLocked() const;
  std::string waitText(int64_t stream) const;
  std::string eventText(int64_t stream, const Item &item) const;
  std::string missingText(const Channel &channel, const Call &call) const;

  Meeting &meetingOf(int64_t rank, const Call &call);
  bool agree(const Meeting &meeting, int64_t first, int64_t second) const;
  std::string streamText(int64_t stream) const;
  std::string callText(int64_t stream, const Call &call) const;
  std::string mismatchText(const Meeting &meeting, int64_t first, int64_t second) const;
  Status located(const Status &status, int64_t stream, const Call &call) const;

  const std::vector<Group> &groups;
  Client &client;
  const std::vector<int64_t> local; ///< ranks of this process
  const std::function<Status(int64_t)> *issue = nullptr;
  Clock::time_point stepBegin;

  std::vector<Rank> ranks;
  std::deque<Stream> streams; ///< streams of all ranks, rank by rank
  std::map<std::pair<const Program *, size_t>, Calls> calls;
  const BindCall bind;
  const bool keepsTimes;
  const bool issuesOnce;
  /// By program: calls that all its ranks share, once a rank issued them.
  std::map<const Program *, const IssuedQueues *> models;
  /// By channel, in the order in which they were issued.
  std::map<Channel, std::deque<Meeting>> meetings;

  mutable std::mutex mutex;
  std::condition_variable wakeup;
  std::condition_variable finished;
  Policy policy;
  int64_t running = 0;
  int64_t remote = 0; ///< number of collectives that the client has
  int64_t idle = 0;
  bool stopping = false;
  Status failure;
  std::atomic<bool> failed = false;
  std::atomic<bool> stuck = false;
  bool inStep = false;
  std::vector<std::thread> workers;
};

} // namespace moert

#endif // MOERT_CORE_EXECUTOR_H
