//===- Star.h - processes joined through process 0 ------------------------===//
//
// Each process keeps a connection to process 0, which forwards messages. With NCCL and with MPI alike, the connections
// carry values outside a plan's collectives, the error of one process to all, and the report of a process that died or
// does not respond. NCCL and MPI would wait for such a process without end. Process i runs rank i.
//
// A process died if its connection closes before it announced that it leaves. If there is a time-out (`patience`),
// processes regularly ask each other whether they respond, even while they compute. The job ends if a process is silent
// for that long, or if a wait lasts longer.
//
// One thread, the watcher, reads messages and calls the listener. Messages are queued: only send() waits until its
// message is sent.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_NET_STAR_H
#define MOERT_NET_STAR_H

#include "core/Processes.h"
#include "net/Door.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace moert::net {

class Star final : public Processes {
public:
  struct Options : JoinOptions {
    double patience = 0; ///< time-out in seconds of each wait for a process, and of its silence; 0: no limit
    double grace = 5;    ///< seconds that a wait may last if its process has left
    double answer = 0.5; ///< seconds to answer a question
  };

  /// Connects the processes, and returns when all are connected. `listener`, only for process 0, already listens at
  /// `options.place`, or is empty.
  static Status join(const Options &options, Socket listener, std::unique_ptr<Star> &star);
  /// Announces that this process leaves, and does not wait for others.
  ~Star() override;

  int64_t index() const override { return options.index; }
  int64_t count() const override { return options.count; }
  void listen(Listener *listener) override;
  Status failure() const override;
  Status send(const std::vector<char> &bytes) override;
  Status receive(int64_t from, std::vector<char> &bytes) override;
  Status broadcast(std::vector<char> &bytes) override;
  void fail(const Status &status) override;
  Status explain(const std::string &reason) override;

  void setPatience(double seconds);
  /// Announces that this process takes part in no further exchange.
  void leave();
  /// Waits until all processes have finished. Processes other than 0 wait until process 0 has closed its connection. No
  /// other call follows.
  Status finish();
  /// Returns the first failure, and does not mark it as reported.
  Status failureSoFar() const;
  /// Whether failure() or another call has reported the failure.
  bool isFailureKnown() const;

private:
  using Type = Message::Type;
  using Bytes = std::shared_ptr<const std::string>;
  using Lock = std::unique_lock<std::mutex>;

  /// A process at the other end of a connection.
  struct Peer : Arrival {
    explicit Peer(Arrival arrival);

    std::deque<Bytes> outbox; ///< messages that are not sent yet
    size_t sent = 0;          ///< number of sent bytes of the first message
    std::deque<std::vector<char>> inbox;
    bool isDone = false;     ///< the process has finished
    bool isClosed = false;   ///< its connection is closed
    Clock::time_point heard; ///< time of its last message
  };
  struct Inquiry {
    std::string reason;
    Clock::time_point deadline;
    std::vector<std::optional<Whereabouts>> answers;
  };

  explicit Star(const Options &options) : options(options), patience(options.patience) {}

  // These functions are called with the mutex held. Those that take the lock release it while they wait or call the
  // listener.
  void write(Peer &peer, const Bytes &bytes);
  void write(Peer &peer, const Message &message);
  void flush(Peer &peer);
  void tell(const Message &message, int64_t except = -1);
  Status waitFor(Lock &lock, int64_t process, bool (*condition)(const Peer &));
  Status explain(Lock &lock, const std::string &reason);
  Status knownFailure() const;
  void note(const Status &status);
  void spread(const Status &status);
  void beginInquiry(const std::string &reason);

  // Only the watcher calls these functions, except wakeUp().
  void watch();
  void look(Lock &lock);
  void hear(Lock &lock, int64_t from);
  void handle(Lock &lock, int64_t from, const Message &message);
  void died(int64_t process);
  void callListener(Lock &lock, const std::function<void(Listener &)> &call);
  Whereabouts ask(Lock &lock);
  void checkInquiry(Lock &lock);
  void checkSilence();
  void silent(int64_t process, double seconds);
  void checkLeft(Lock &lock);
  void wakeUp();

  bool isHub() const { return options.index == 0; }
  std::string whoIs(int64_t process) const;

  const Options options;

  mutable std::mutex mutex; ///< guards the members below
  std::condition_variable changed;
  double patience;               ///< options.patience, or a later value
  std::map<int64_t, Peer> peers; ///< process 0 has all others, and they have process 0
  Status failed;
  bool isToTell = false; ///< the listener does not know the failure yet
  mutable bool known = false;
  std::set<int64_t> left;
  std::string hopeless; ///< key of a wait for a process that left
  Clock::time_point hopelessSince;
  std::optional<Wait> waiting; ///< the wait of a call from another thread
  std::optional<Inquiry> inquiry;
  Clock::time_point lastTick;
  bool stopping = false;

  std::mutex listening;
  Listener *listener = nullptr;

  Socket wake; ///< an eventfd
  std::thread watcher;
};

} // namespace moert::net

#endif // MOERT_NET_STAR_H
