//===- Session.cpp - MPI in this process ----------------------------------===//

#include "mpi/Session.h"
#include "net/Stall.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <unistd.h>

namespace moert::mpi {
namespace {

/// Number of polls without a result before the thread sleeps, and the time that it sleeps. Ranks may share cores.
constexpr int kSpins = 200;
constexpr std::chrono::microseconds kPause(20);
/// Interval at which a wait for the thread checks whether another process failed.
constexpr std::chrono::milliseconds kLook(20);

std::string ownAddress() {
  char host[256] = "127.0.0.1";
  ::gethostname(host, sizeof host - 1);
  return host;
}

/// Refuses srun without a process manager, with which MPI would end the process. Open MPI may lack PMI2.
Status checkManager() {
  ProcessPlace place;
  if (!readProcessPlace(ownEnvironment, place).ok() || place.source != "srun" || place.size == 1 ||
      std::getenv("PMIX_NAMESPACE"))
    return {};
  if (!std::getenv("PMI_RANK"))
    return invalid("srun does not tell MPI of the other processes; add --mpi=pmix to srun (srun --mpi=list says what "
                   "it has), or start them by mpirun");
#ifdef OPEN_MPI
  if (place.rank == 0)
    std::cerr << "moert: warning: srun gives PMI2, which most builds of Open MPI cannot use; if MPI_INIT aborts, add "
                 "--mpi=pmix to srun\n";
#endif
  return {};
}

} // namespace

Status check(int code, const char *function) {
  if (code == MPI_SUCCESS)
    return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Status::error(MOERT_ERROR_INTERNAL, function, ": ", text);
}

Status Session::open(double timeout, std::shared_ptr<Session> &session) {
  // The session ends with the process, because MPI cannot be started twice.
  static std::mutex opening;
  static std::shared_ptr<Session> only;
  static Status failure;
  std::lock_guard lock(opening);
  if (!only && failure.ok()) {
    std::shared_ptr<Session> made(new Session(timeout));
    made->thread = std::thread([raw = made.get()] { raw->work(); });
    failure = made->begin();
    if (!failure.ok())
      made->abandon();
    only = std::move(made);
  }
  session = only;
  session->timeout = timeout;
  if (session->star)
    session->star->setPatience(timeout);
  return failure;
}

/// Starts MPI, unless the calling program has started it. That program then also ends it.
Status Session::startMpi() {
  int provided = 0, started = 0;
  MPI_Initialized(&started);
  isOwner = !started;
  MOERT_RETURN_IF_ERROR(
      isOwner ? check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread")
              : check(MPI_Query_thread(&provided), "MPI_Query_thread"));
  // A program that started MPI may call it while a step runs.
  int needed = isOwner ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
  if (provided >= needed)
    return {};
  return Status::error(MOERT_ERROR_UNSUPPORTED, "expected MPI to allow ",
                       (isOwner ? "MPI_THREAD_SERIALIZED" : "MPI_THREAD_MULTIPLE, since the program started it"),
                       ": backend 'mpi' calls it from a thread of its own");
}

/// Joins the processes before MPI starts if the launcher says where. A process that never starts MPI is then noticed,
/// too.
Status Session::begin() {
  MOERT_RETURN_IF_ERROR(checkManager());
  MOERT_RETURN_IF_ERROR(joinHere());
  struct Started {
    Status status;
    int rank = 0, size = 1, localRank = 0, localSize = 1;
  };
  auto started = std::make_shared<Started>();
  Status status = run([this, started] {
    if (started->status = startMpi(); !started->status.ok())
      return;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &started->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &started->size);
    MPI_Comm machine;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, started->rank, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &started->localRank);
    MPI_Comm_size(machine, &started->localSize);
    MPI_Comm_free(&machine);
  });
  if (status.ok())
    status = started->status;
  if (!status.ok())
    return status;
  place.rank = started->rank;
  place.size = started->size;
  place.localRank = started->localRank;
  place.localSize = started->localSize;
  if (!star)
    return joinOverMpi();
  if (star->index() == place.rank && star->count() == place.size)
    return {};
  return invalid("mpirun's variables say that this is process ", star->index(), " of ", star->count(),
                 ", but MPI says ", place.rank, " of ", place.size);
}

net::Star::Options Session::joinOptions() const {
  net::Star::Options options;
  options.patience = timeout;
  if (timeout > 0)
    options.timeout = timeout;
  return options;
}

Status Session::joinHere() {
  ProcessPlace found;
  if (!readProcessPlace(ownEnvironment, found).ok() || found.source != "mpirun" || found.size == 1 ||
      !readMeeting(ownEnvironment, found).ok() || found.endpoint.local.empty())
    return {};
  net::Star::Options options = joinOptions();
  options.index = found.rank;
  options.count = found.size;
  options.place = found.endpoint;
  options.secret = found.secret;
  return net::Star::join(options, net::Socket(), star);
}

/// Sends rank 0's address and a new secret to all over MPI.
Status Session::meet(net::Socket &listener, net::Star::Options &options) {
  auto invitation = std::make_shared<Invitation>();
  bool areAllHere = place.localSize == place.size;
  if (place.rank == 0) {
    // Processes on one machine use the loopback address, whatever the host's name resolves to.
    options.place.host = areAllHere ? "127.0.0.1" : ownAddress();
    MOERT_RETURN_IF_ERROR(net::Socket::listen(options.place, listener));
    MOERT_RETURN_IF_ERROR(net::makeNonce(options.secret));
    std::strncpy(invitation->host, options.place.host.c_str(), sizeof invitation->host - 1);
    std::copy(options.secret.begin(), options.secret.end(), invitation->secret);
    invitation->port = options.place.port;
  }
  MOERT_RETURN_IF_ERROR(
      run([invitation] { MPI_Bcast(invitation.get(), sizeof *invitation, MPI_BYTE, 0, MPI_COMM_WORLD); }));
  options.place.host = invitation->host;
  options.place.port = invitation->port;
  options.secret.assign(invitation->secret, sizeof invitation->secret);
  return {};
}

Status Session::joinOverMpi() {
  net::Socket listener;
  net::Star::Options options = joinOptions();
  options.index = place.rank;
  options.count = place.size;
  if (place.size > 1)
    MOERT_RETURN_IF_ERROR(meet(listener, options));
  return net::Star::join(options, std::move(listener), star);
}

Session::~Session() {
  Status status = end();
  if (status.ok()) {
    thread.join();
    return;
  }
  // Earlier calls have returned an error that they found. A later error is reported only here.
  if (!star || !star->isFailureKnown())
    std::cerr << "moert: error: rank " + std::to_string(place.rank) + " cannot end: " + status.message + "\n";
  std::cout.flush();
  std::fflush(nullptr);
  // The thread may be in a call of MPI that does not return. mpirun ends the other processes. 2 is the status of
  // errors.
  ::_exit(2);
}

/// Ends MPI, then waits until the other processes have finished.
Status Session::end() {
  Status failure = star ? star->failureSoFar() : Status{};
  if (star)
    star->leave();
  std::unique_lock lock(mutex);
  broken |= !failure.ok();
  stopping = true;
  changed.notify_all();
  if (stuck)
    return failure;
  Status status = waitFor(lock, ended, true);
  lock.unlock();
  if (status.ok() && star)
    status = star->finish();
  return status.ok() ? failure : status;
}

/// Waits until the thread sets `isDone`, or until a process fails. A wait has the time-out unless it is the last one,
/// when other processes may still compute.
Status Session::waitFor(std::unique_lock<std::mutex> &lock, const bool &isDone, bool isLast) {
  net::Clock::time_point deadline = net::after(timeout > 0 ? timeout : 1e9);
  while (!isDone) {
    finished.wait_for(lock, kLook);
    if (isDone)
      break;
    Status status = star ? star->failureSoFar() : Status{};
    bool isLate = !isLast && net::Clock::now() > deadline;
    if (status.ok() && !isLate)
      continue;
    stuck = true;
    if (!status.ok())
      return isLast ? status : star->failure();
    std::string reason = "rank " + std::to_string(place.rank) + ": the time-out of " + net::secondsText(timeout) +
                         " s passed in a call of MPI that all ranks must make";
    return star ? star->explain(reason) : Status::error(MOERT_ERROR_HANG, reason);
  }
  return {};
}

Status Session::run(std::function<void()> body) {
  auto job = std::make_shared<Job>(Job{std::move(body)});
  std::unique_lock lock(mutex);
  if (stuck)
    return Status::error(MOERT_ERROR_HANG, "MPI does not return from a call that was given up");
  jobs.push_back(job);
  changed.notify_all();
  return waitFor(lock, job->isDone, false);
}

void Session::start(std::shared_ptr<Operation> operation) {
  std::lock_guard lock(mutex);
  arrived.push_back(std::move(operation));
  changed.notify_all();
}

void Session::abandon() {
  std::lock_guard lock(mutex);
  broken = true;
}

void Session::work() {
  int vain = 0;
  while (true) {
    std::deque<std::shared_ptr<Job>> now;
    {
      std::unique_lock lock(mutex);
      changed.wait(
          lock, [this] { return stopping || !jobs.empty() || (!broken && (!arrived.empty() || !operations.empty())); });
      if (stopping)
        break;
      now.swap(jobs);
      operations.splice(operations.end(), arrived);
    }
    for (const std::shared_ptr<Job> &job : now) {
      job->body();
      std::lock_guard lock(mutex);
      job->isDone = true;
      finished.notify_all();
    }
    if (advanceAll() || !now.empty())
      vain = 0;
    else if (++vain > kSpins)
      std::this_thread::sleep_for(kPause);
  }
  finish();
  std::lock_guard lock(mutex);
  ended = true;
  finished.notify_all();
}

/// Advances all operations. Returns whether one ended.
bool Session::advanceAll() {
  bool any = false;
  for (auto it = operations.begin(); it != operations.end();) {
    bool done = (*it)->advance();
    any |= done;
    it = done ? operations.erase(it) : std::next(it);
  }
  return any;
}

void Session::finish() {
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (!started || ended)
    return;
  // MPI_Finalize would wait for processes that will not come.
  if (broken || !operations.empty())
    MPI_Abort(MPI_COMM_WORLD, 1);
  if (isOwner)
    MPI_Finalize();
}

} // namespace moert::mpi
