//===- Star.h - processes joined through process 0 ------------------------===//
//
// Each process keeps a TCP connection to process 0, which passes on what concerns all. A connection that closes before
// its process said that it leaves is a process that died. Process i runs rank i.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_NET_STAR_H
#define MOERT_NET_STAR_H

#include "core/Processes.h"
#include "net/Socket.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace moert::net {

class Star final : public Processes {
public:
  struct Options {
    int64_t index = 0;
    int64_t count = 1;
    std::string address;  ///< of process 0
    int port = 0;         ///< at which process 0 listens
    double timeout = 120; ///< seconds for all to come
    double grace = 5;     ///< seconds that one who left may still be waited for
    double answer = 2;    ///< seconds to answer where one is
  };

  /// Returns when all have come. `listener` (of process 0 only) already listens at the port; empty: it will.
  static Status join(const Options &options, Socket listener, std::unique_ptr<Star> &star);
  /// Says that this process leaves.
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

private:
  enum class Type : uint32_t { Hello, Welcome, Data, Failed, Left, Explain, Query, Answer };

  struct Header {
    uint32_t magic;
    Type type;
    int64_t process; ///< that the message is about
    int64_t bytes;
  };
  struct Message {
    Type type;
    int64_t process;
    std::string text;
  };
  /// A process at the other end of a connection: of process 0 all others, of others process 0.
  struct Peer {
    Socket socket;
    std::mutex writing;
    std::string received; ///< of a message that is not complete
    std::deque<std::vector<char>> inbox;
    std::string name; ///< "process 4711 on host 'node1'"
    std::atomic<bool> closed = false;
  };
  struct Inquiry {
    std::string reason;
    Clock::time_point deadline;
    std::vector<std::optional<Whereabouts>> answers;
    size_t missing;
  };

  explicit Star(const Options &options);

  Status gather(Socket listener);
  Status greet(Socket socket, Clock::time_point deadline, std::string &refusal);
  Status enter();
  Status readOne(Peer &peer, Clock::time_point deadline, Message &message);
  static bool takeMessage(std::string &received, Message &message, bool &broken);

  void watch();
  void readFrom(int64_t process);
  void handle(int64_t from, Message message);
  void died(int64_t process);
  void tick();
  void noteLeft(int64_t process);
  void beginInquiry(const std::string &reason);
  void noteAnswer(int64_t process, const std::string &text);
  void endInquiry();
  void checkLeft();
  Whereabouts ask();

  bool isHub() const { return options.index == 0; }
  Peer *peerOf(int64_t process) const { return peers[static_cast<size_t>(process)].get(); }
  Status write(int64_t to, const Message &message);
  static Status write(Peer &peer, const Message &message);
  /// Process 0: to all others but `except`; others: to process 0.
  void tell(const Message &message, int64_t except = -1);
  void note(const Status &status);
  static std::string encoded(const Status &status);
  static Status decoded(const std::string &text);

  const Options options;
  std::vector<std::unique_ptr<Peer>> peers; ///< by process; null where there is no connection

  mutable std::mutex mutex; ///< of what follows, and of the peers' inboxes
  std::condition_variable changed;
  Status failed;
  std::map<int64_t, Clock::time_point> left;
  std::map<std::string, Clock::time_point> hopeless; ///< waits for one who left, since when
  std::optional<Inquiry> inquiry;
  bool stopping = false;

  std::mutex listening;
  Listener *listener = nullptr;

  int wake[2] = {-1, -1}; ///< a pipe
  std::thread watcher;
};

} // namespace moert::net

#endif // MOERT_NET_STAR_H
