//===- Session.h - MPI in this process ------------------------------------===//
//
// MPI is started once in a process and never again. One thread of its own makes all calls of MPI: it starts
// operations, and asks again and again whether they are done, while others compute.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_MPI_SESSION_H
#define MOERT_MPI_SESSION_H

#include "core/View.h"
#include "net/Bootstrap.h"
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

/// The text of an MPI error code, as a Status; ok for MPI_SUCCESS.
Status check(int code, const char *function);

/// What runs over several of MPI's requests. Called by the session's thread alone.
class Operation {
public:
  virtual ~Operation() = default;
  /// Goes on as far as it gets without waiting; true at its end.
  virtual bool advance() = 0;
};

class Session {
public:
  /// Starts MPI, and joins the processes that mpirun started. One for the process: later calls give the same.
  static Status open(std::shared_ptr<Session> &session);
  ~Session();

  int64_t rank() const { return place.rank; }
  int64_t size() const { return place.size; }
  const net::Place &where() const { return place; }
  net::Star &processes() { return *star; }

  /// Runs `body` in the session's thread and waits for it.
  void run(const std::function<void()> &body);
  /// Has the thread advance an operation until its end.
  void start(std::shared_ptr<Operation> operation);
  /// Forgets all operations. What they wait for may never come: MPI is not to be used any more.
  void abandon();

private:
  Session() = default;
  Status begin();
  Status startMpi();
  void work();
  bool advanceAll();
  void finish();

  net::Place place;
  std::unique_ptr<net::Star> star;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  std::list<std::shared_ptr<Operation>> operations, arrived;
  bool stopping = false;
  bool broken = false;
  bool isOwner = false; ///< of MPI, which it started
  std::thread thread;
};

} // namespace moert::mpi

#endif // MOERT_MPI_SESSION_H
