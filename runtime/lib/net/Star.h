//===- Star.h - processes joined through process 0 ------------------------===//
//
// Each process keeps a connection to process 0, which passes on what concerns all. A connection that closes before its
// process said that it leaves is a process that died. Process i runs rank i.
//
// One thread, the watcher, reads and writes. Nothing that is said waits for its reader: it queues. With a patience,
// processes ask each other again and again whether they are there, whatever else they do; one that does not answer for
// so long ends the job, and so does whoever waits for longer than that.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_NET_STAR_H
#define MOERT_NET_STAR_H

#include "core/Processes.h"
#include "net/Door.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
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

  double patience() const { return limit; }
  void setPatience(double seconds);
  /// Says that this process waits for nobody any more.
  void leave();
  /// Waits until all are at their end, so that none is left behind; others than process 0 until that is gone, or a
  /// second. Once, as the last call.
  Status finish();
  /// failure(), and whether anybody asked for that or got it from another call: else nobody knows.
  Status failureSoFar() const;
  bool isFailureKnown() const { return known; }

private:
  using Type = Message::Type;
  using Bytes = std::shared_ptr<const std::string>;

  /// A process at the other end of a connection: of process 0 all others, of others process 0.
  struct Peer {
    Peer(int64_t count, Arrival arrival);

    Socket socket;
    std::string name; ///< "process 4711 on host 'node1'"
    MessageReader reader;
    std::mutex writing;       ///< of the next three
    std::deque<Bytes> outbox; ///< what is not sent yet,
    size_t sent = 0;          ///< but for so many bytes of its first message
    std::atomic<bool> isSending = false;
    std::deque<std::vector<char>> inbox;
    std::atomic<bool> closed = false;
    Clock::time_point heard, asked; ///< when it last said something, and was last asked; of the watcher
  };
  struct Inquiry {
    std::string reason;
    Clock::time_point deadline;
    std::vector<std::optional<Whereabouts>> answers;
    size_t missing;
  };

  explicit Star(const Options &options);

  // What is said.
  Peer *peerOf(int64_t process) const { return peers[static_cast<size_t>(process)].get(); }
  void write(int64_t to, const Message &message);
  void write(Peer &peer, const Bytes &bytes);
  void flush(Peer &peer);
  /// Process 0: to all others but `except`; others: to process 0.
  void tell(const Message &message, int64_t except = -1);
  Status tellAndWait(const Message &message);
  template <class Condition>
  Status waitFor(std::unique_lock<std::mutex> &lock, const std::string &what, const std::vector<int64_t> &ranks,
                 Condition condition);

  // The watcher.
  void watch();
  void look();
  void readFrom(int64_t process);
  void handle(int64_t from, Message message);
  void died(int64_t process);
  void tick();
  void checkSilence();
  void silent(int64_t process, double seconds);
  void noteLeft(int64_t process);
  void noteDone(int64_t process);
  void beginInquiry(const std::string &reason);
  void noteAnswer(int64_t process, const std::string &text);
  void endInquiry();
  void checkLeft();
  Whereabouts ask();
  void wakeUp();

  bool isHub() const { return options.index == 0; }
  void note(const Status &status);

  const Options options;
  std::atomic<double> limit;                ///< options.patience, or as set later
  std::vector<std::unique_ptr<Peer>> peers; ///< by process; null where there is no connection

  mutable std::mutex mutex; ///< of what follows, and of the peers' inboxes
  std::condition_variable changed;
  Status failed;
  mutable std::atomic<bool> known = false;
  std::map<int64_t, Clock::time_point> left;
  std::set<int64_t> done;
  std::map<std::string, Clock::time_point> hopeless; ///< waits for one who left, since when
  std::optional<Wait> waiting;                       ///< of a call from outside
  std::optional<Inquiry> inquiry;
  bool stopping = false;

  std::mutex listening;
  Listener *listener = nullptr;

  int wake[2] = {-1, -1}; ///< a pipe
  Clock::time_point lastTick = {};
  std::thread watcher;
};

} // namespace moert::net

#endif // MOERT_NET_STAR_H
