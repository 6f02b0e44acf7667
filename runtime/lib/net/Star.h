//===- Star.h - processes joined through process 0 ------------------------===//
//
// Each process keeps a connection to process 0, which passes on what concerns all. Three things need it, with NCCL and
// with MPI alike: values for all processes outside a plan's collectives, the error of one process in all, and the
// report of one that died or stands still, which NCCL and MPI wait for without end. Process i runs rank i.
//
// A connection that closes before its process said that it leaves is a process that died. With a patience, processes
// ask each other again and again whether they are there, whatever else they do; one that does not answer for so long
// ends the job, and so does whoever waits for longer than that.
//
// One thread, the watcher, reads, and calls the listener. Nothing that is said waits for its reader: it queues.
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
    double patience = 0; ///< seconds that one is waited for, or may be silent; 0: without end
    double grace = 5;    ///< seconds that one who left may still be waited for
    double answer = 0.5; ///< seconds to answer where one is
  };

  /// Returns when all have come. `listener` (of process 0 only) already listens at the place; empty: it will.
  static Status join(const Options &options, Socket listener, std::unique_ptr<Star> &star);
  /// Says that this process leaves, and waits for nobody.
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
  /// Says that this process waits for nobody any more.
  void leave();
  /// Waits until all are at their end, so that none is left behind; others than process 0 until that one is gone. Once,
  /// as the last call.
  Status finish();
  /// failure(), and whether anybody asked for that or got it from another call: else nobody knows.
  Status failureSoFar() const;
  bool isFailureKnown() const;

private:
  using Type = Message::Type;
  using Bytes = std::shared_ptr<const std::string>;
  using Lock = std::unique_lock<std::mutex>;

  /// A process at the other end of a connection.
  struct Peer : Arrival {
    explicit Peer(Arrival arrival);

    std::deque<Bytes> outbox; ///< messages that are not sent yet,
    size_t sent = 0;          ///< but for so many bytes of the first one
    std::deque<std::vector<char>> inbox;
    bool isDone = false;     ///< it is at its end
    bool isClosed = false;   ///< its connection is
    Clock::time_point heard; ///< when it last said something
  };
  struct Inquiry {
    std::string reason;
    Clock::time_point deadline;
    std::vector<std::optional<Whereabouts>> answers;
  };

  explicit Star(const Options &options) : options(options), patience(options.patience) {}

  // All of these are called with the mutex. Those that take the lock release it while they wait or call the listener.
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

  // The watcher.
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

  Status tellAndWait(const std::vector<char> &bytes);
  bool isHub() const { return options.index == 0; }
  std::string whoIs(int64_t process) const;

  const Options options;

  mutable std::mutex mutex; ///< of what follows, up to the next one
  std::condition_variable changed;
  double patience;               ///< options.patience, or as set later
  std::map<int64_t, Peer> peers; ///< of process 0 all others, of others process 0
  Status failed;
  bool isToTell = false; ///< the listener, that it failed
  mutable bool known = false;
  std::set<int64_t> left;
  std::string hopeless; ///< the key of a wait for one who left,
  Clock::time_point hopelessSince;
  std::optional<Wait> waiting; ///< of a call from outside
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
