//===- Session.h - MPI in this process ------------------------------------===//
//
// MPI starts once in a process and never again. A separate thread makes all calls of MPI: it starts operations and
// polls them until they are done, while other threads compute.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_MPI_SESSION_H
#define MOERT_MPI_SESSION_H

#include "core/ProcessPlace.h"
#include "core/View.h"
#include "net/Star.h"

#include <mpi.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace moert::mpi {

/// Makes a Status of an MPI error code; ok for MPI_SUCCESS.
Status check(int code, const char *function);

/// An operation of several MPI requests. Only the session's thread calls it.
class Operation {
public:
  virtual ~Operation() = default;
  /// Makes progress without waiting. Returns true once the operation is done.
  virtual bool advance() = 0;
};

class Session {
public:
  /// Starts MPI, and joins the processes that mpirun started. A process has one session: later calls return it, and set
  /// its time-out to `timeout`, the seconds that processes wait for each other (0: no limit).
  static Status open(double timeout, std::shared_ptr<Session> &session);
  /// Waits until all processes end their sessions. If that fails, reports the error and ends this process.
  ~Session();

  int64_t rank() const { return place.rank; }
  int64_t size() const { return place.size; }
  const ProcessPlace &where() const { return place; }
  net::Star &processes() { return *star; }

  /// Runs `body` in the session's thread and waits for it. After an error, all that `body` uses must stay alive: MPI
  /// may still be in a call that other processes never make.
  Status run(std::function<void()> body);
  /// Makes the thread advance an operation until it is done.
  void start(std::shared_ptr<Operation> operation);
  /// Stops advancing operations, because they may never end. MPI must not be used any more.
  void abandon();

private:
  /// Work of the session's thread. The caller waits for it.
  struct Job {
    std::function<void()> body;
    bool isDone = false;
  };
  /// Message of rank 0 over MPI, for processes whose launcher does not say where to join.
  struct Invitation {
    char host[256];
    char secret[net::kNonceBytes];
    int32_t port;
  };

  explicit Session(double timeout) : timeout(timeout) {}
  Status begin();
  Status startMpi();
  Status joinHere();
  Status joinOverMpi();
  Status meet(net::Socket &listener, net::Star::Options &options);
  net::Star::Options joinOptions() const;
  Status waitFor(std::unique_lock<std::mutex> &lock, const bool &isDone, bool isLast);
  Status end();
  void work();
  bool advanceAll();
  void finish();

  double timeout;
  ProcessPlace place;
  std::unique_ptr<net::Star> star;

  std::mutex mutex;
  std::condition_variable changed, finished;
  std::deque<std::shared_ptr<Job>> jobs;
  std::list<std::shared_ptr<Operation>> operations, arrived;
  bool stopping = false;
  bool broken = false;
  bool stuck = false;   ///< the thread does not return from a call of MPI
  bool ended = false;   ///< the thread has ended MPI
  bool isOwner = false; ///< the session started MPI
  std::thread thread;
};

} // namespace moert::mpi

#endif // MOERT_MPI_SESSION_H
