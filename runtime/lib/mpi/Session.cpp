//===- Session.cpp - MPI in this process ----------------------------------===//

#include "mpi/Session.h"

#include <chrono>
#include <cstring>
#include <unistd.h>

namespace moert::mpi {
namespace {

/// How often the thread asks in vain before it lets others have the core, and for how long then. Ranks may share cores.
constexpr int kSpins = 200;
constexpr std::chrono::microseconds kPause(20);

std::string ownAddress() {
  char host[256] = "127.0.0.1";
  ::gethostname(host, sizeof host - 1);
  return host;
}

} // namespace

Status check(int code, const char *function) {
  if (code == MPI_SUCCESS)
    return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Status::error(MOERT_ERROR_INTERNAL, std::string(function) + ": " + text);
}

Status Session::open(std::shared_ptr<Session> &session) {
  // Ended when the process ends, because MPI cannot be started twice.
  static std::mutex opening;
  static std::shared_ptr<Session> only;
  static Status failure;
  std::lock_guard lock(opening);
  if (!only && failure.ok()) {
    std::shared_ptr<Session> made(new Session());
    made->thread = std::thread([raw = made.get()] { raw->work(); });
    failure = made->begin();
    only = std::move(made);
  }
  session = only;
  return failure;
}

/// Unless the program that has us started MPI itself, which then ends it too.
Status Session::startMpi() {
  int provided = 0, started = 0;
  MPI_Initialized(&started);
  isOwner = !started;
  if (Status status =
          isOwner ? check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread")
                  : check(MPI_Query_thread(&provided), "MPI_Query_thread");
      !status.ok())
    return status;
  // Who started MPI may call it while a step runs.
  int needed = isOwner ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
  if (provided >= needed)
    return {};
  return Status::error(MOERT_ERROR_UNSUPPORTED,
                       std::string("expected MPI to allow ") +
                           (isOwner ? "MPI_THREAD_SERIALIZED" : "MPI_THREAD_MULTIPLE, since the program started it") +
                           ": backend 'mpi' calls it from a thread of its own");
}

Status Session::begin() {
  Status status;
  int port = 0;
  net::Socket listener;
  net::Star::Options options;
  run([&] {
    int rank = 0, size = 1;
    if (status = startMpi(); !status.ok())
      return;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    place.rank = options.index = rank;
    place.size = options.count = size;
    if (rank == 0)
      status = net::Socket::listen(port, listener);
    char address[256] = "";
    std::strncpy(address, ownAddress().c_str(), sizeof address - 1);
    // Processes of one machine meet on its own loopback, whatever its name resolves to.
    MPI_Comm machine;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine);
    int localRank = 0, localSize = 1;
    MPI_Comm_rank(machine, &localRank);
    MPI_Comm_size(machine, &localSize);
    MPI_Comm_free(&machine);
    place.localRank = localRank;
    place.localSize = localSize;
    if (localSize == size)
      std::strcpy(address, "127.0.0.1");
    MPI_Bcast(address, sizeof address, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Bcast(&port, 1, MPI_INT, 0, MPI_COMM_WORLD);
    options.address = address;
    options.port = port;
  });
  if (!status.ok())
    return status;
  if (Status joined = net::Star::join(options, std::move(listener), star); !joined.ok())
    return joined;
  return {};
}

Session::~Session() {
  bool failed = !star || !star->failure().ok();
  star.reset();
  {
    std::lock_guard lock(mutex);
    broken |= failed;
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

void Session::run(const std::function<void()> &body) {
  std::mutex waiting;
  std::condition_variable done;
  bool ready = false;
  {
    std::lock_guard lock(mutex);
    jobs.push_back([&] {
      body();
      // Under the lock, because whoever waits takes it all away as soon as it sees `ready`.
      std::lock_guard inner(waiting);
      ready = true;
      done.notify_one();
    });
  }
  changed.notify_all();
  std::unique_lock lock(waiting);
  done.wait(lock, [&] { return ready; });
}

void Session::start(std::shared_ptr<Operation> operation) {
  {
    std::lock_guard lock(mutex);
    arrived.push_back(std::move(operation));
  }
  changed.notify_all();
}

void Session::abandon() {
  std::lock_guard lock(mutex);
  broken = true;
}

void Session::work() {
  int vain = 0;
  while (true) {
    std::deque<std::function<void()>> now;
    {
      std::unique_lock lock(mutex);
      changed.wait(
          lock, [this] { return stopping || !jobs.empty() || (!broken && (!arrived.empty() || !operations.empty())); });
      if (stopping)
        break;
      now.swap(jobs);
      operations.splice(operations.end(), arrived);
    }
    for (const std::function<void()> &job : now)
      job();
    if (advanceAll() || !now.empty())
      vain = 0;
    else if (++vain > kSpins)
      std::this_thread::sleep_for(kPause);
  }
  finish();
}

/// Whether one came to its end.
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
  // MPI_Finalize would wait for those who will not come.
  if (broken || !operations.empty())
    MPI_Abort(MPI_COMM_WORLD, 1);
  if (isOwner)
    MPI_Finalize();
}

} // namespace moert::mpi
