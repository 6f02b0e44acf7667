//===- MpiBackend.cpp - the host device, and MPI between its processes ----===//
//
// Runs one rank per process. Kernels, streams and events are the host's. A collective over several ranks is given to
// MPI when it reaches the head of its stream.
//
//===----------------------------------------------------------------------===//

#include "core/Attributes.h"
#include "core/ExecutorCommunicator.h"
#include "core/Module.h"
#include "core/ProcessPlace.h"
#include "host/HostBackend.h"
#include "mpi/Transfer.h"

#include <cstring>
#include <map>

namespace moert::mpi {
namespace {

/// Communicators of this rank's instances of the groups. All ranks make them in the same order.
class Groups {
public:
  static Status create(const std::vector<Group> &groups, Session &session, std::unique_ptr<Groups> &made) {
    made.reset(new Groups(session));
    auto state = made->state;
    auto rank = static_cast<int>(session.rank());
    state->comms.assign(groups.size(), MPI_COMM_NULL);
    return session.run([state, groups, rank] {
      for (size_t i = 0; i < groups.size(); ++i) {
        if (groups[i].size == 1)
          continue;
        MPI_Comm_split(MPI_COMM_WORLD, static_cast<int>(groups[i].instanceOf(rank)),
                       static_cast<int>(groups[i].memberOf(rank)), &state->comms[i]);
        MPI_Comm_set_errhandler(state->comms[i], MPI_ERRORS_RETURN);
      }
      state->sums = std::make_unique<SumOps>();
    });
  }
  ~Groups() {
    // Freeing waits for the others, which may not come after a failure. The session reports that.
    if (session.processes().failureSoFar().ok())
      (void)session.run([state = state] {
        state->sums.reset();
        for (MPI_Comm &comm : state->comms)
          if (comm != MPI_COMM_NULL)
            MPI_Comm_free(&comm);
      });
    else
      (void)state->sums.release();
  }
  MPI_Comm of(int32_t group) const { return state->comms[static_cast<size_t>(group)]; }
  const SumOps *sumOps() const { return state->sums.get(); }

private:
  /// State that the session's thread may still use after a call of MPI that others did not make.
  struct State {
    std::vector<MPI_Comm> comms;
    std::unique_ptr<SumOps> sums;
  };

  explicit Groups(Session &session) : session(session), state(std::make_shared<State>()) {}

  Session &session;
  std::shared_ptr<State> state;
};

/// Runs kernels at once, and gives collectives to the session in the order in which the program issues them, because
/// MPI matches the members' calls by their order.
class MpiClient final : public host::HostClient, public Processes::Listener {
public:
  MpiClient(std::span<const Program> programs, const std::vector<Group> &groups, std::shared_ptr<Session> session,
            std::unique_ptr<Groups> comms)
      : HostClient(groups), program(programs[programIndex(programs, session->rank())]), groups(groups),
        session(std::move(session)), comms(std::move(comms)) {
    this->session->processes().listen(this);
  }
  bool isRemote(const Call &call) const override { return groupOf(call).size > 1; }
  void start(int64_t rank, int64_t stream, const Call &call) override;
  void skip(int64_t stream, const Call &call) override;

  void failed(const Status &status) override {
    if (executor)
      executor->fail(status);
  }
  Whereabouts whereabouts() override;

  void beginStep();
  void endStep();

  Executor *executor = nullptr;

private:
  /// Collectives of one group or channel, in the order of the program.
  struct Line {
    int64_t next = 0;
    std::map<int64_t, std::shared_ptr<Transfer>> early;
  };
  /// Group, sender and receiver of a channel; the last two are -1 for a group.
  using Place = std::array<int64_t, 3>;

  const Group &groupOf(const Call &call) const { return groups[static_cast<size_t>(call.group)]; }
  Place placeOf(const Call &call) const;
  Channel channelOf(const Call &call) const;
  Wait waitOf(const Call &call, const Channel &channel) const;
  void queue(const Call &call, std::shared_ptr<Transfer> transfer);
  void ended(int64_t stream, const Wait &wait, const Status &status, int64_t received);

  const Program &program;
  const std::vector<Group> &groups;
  std::shared_ptr<Session> session;
  std::unique_ptr<Groups> comms;

  std::mutex mutex;
  bool inStep = false;
  std::map<Place, Line> lines;
  std::map<std::string, Wait> waits;
};

MpiClient::Place MpiClient::placeOf(const Call &call) const {
  if (!isPointToPoint(call.kind))
    return {call.group, -1, -1};
  int64_t me = groupOf(call).memberOf(session->rank()), peer = peerOf(call);
  return call.kind == Kind::Send ? Place{call.group, me, peer} : Place{call.group, peer, me};
}

Channel MpiClient::channelOf(const Call &call) const {
  // Tags distinguish messages of successive calls, and channels from collectives.
  constexpr int kTags = 1 << 15;
  const Group &group = groupOf(call);
  Place place = placeOf(call);
  Channel channel{comms->of(call.group),
                  comms->sumOps(),
                  &group,
                  group.instanceOf(session->rank()),
                  group.size,
                  group.memberOf(session->rank()),
                  {},
                  static_cast<int>(call.sequence % kTags)};
  if (place[1] < 0) {
    for (int64_t member = 0; member < group.size; ++member)
      channel.ranks.push_back(static_cast<int>(member));
    return channel;
  }
  channel.size = 2;
  channel.member = call.kind == Kind::Receive;
  channel.ranks = {static_cast<int>(place[1]), static_cast<int>(place[2])};
  channel.tag += kTags;
  return channel;
}

Wait MpiClient::waitOf(const Call &call, const Channel &channel) const {
  Place place = placeOf(call);
  Wait wait{callName(program, call) + " on group '" + channel.group->name + "'",
            std::to_string(place[0]) + "/" + std::to_string(channel.instance) + "/" + std::to_string(place[1]) + "/" +
                std::to_string(place[2]) + "/" + std::to_string(call.sequence),
            {}};
  for (int member : channel.ranks)
    wait.ranks.push_back(channel.group->rankOf(channel.instance, member));
  return wait;
}

void MpiClient::start(int64_t rank, int64_t stream, const Call &call) {
  Channel channel = channelOf(call);
  Wait wait = waitOf(call, channel);
  auto done = [this, stream, wait](const Status &status, int64_t received) { ended(stream, wait, status, received); };
  auto transfer = std::make_shared<Transfer>(call, std::move(channel), done);
  std::lock_guard lock(mutex);
  waits.emplace(wait.key, wait);
  queue(call, std::move(transfer));
}

void MpiClient::skip(int64_t, const Call &call) {
  std::lock_guard lock(mutex);
  queue(call, nullptr);
}

/// Adds a transfer to its call's line, and starts those whose turn has come. Null stands for a call that all members
/// skip.
void MpiClient::queue(const Call &call, std::shared_ptr<Transfer> transfer) {
  Line &line = lines[placeOf(call)];
  line.early.emplace(call.sequence, std::move(transfer));
  for (auto it = line.early.begin(); it != line.early.end() && it->first == line.next; ++line.next) {
    if (it->second)
      session->start(std::move(it->second));
    it = line.early.erase(it);
  }
}

void MpiClient::ended(int64_t stream, const Wait &wait, const Status &status, int64_t received) {
  {
    std::lock_guard lock(mutex);
    waits.erase(wait.key);
  }
  if (status.ok())
    return executor->complete(session->rank(), stream, received);
  session->processes().fail(
      Status::error(status.code, "rank ", session->rank(), ", ", wait.what, ": ", status.message));
}

Whereabouts MpiClient::whereabouts() {
  std::lock_guard lock(mutex);
  Whereabouts result{inStep, {}, executor ? executor->runningText() : ""};
  for (const auto &[key, wait] : waits)
    result.waits.push_back(wait);
  return result;
}

void MpiClient::beginStep() {
  std::lock_guard lock(mutex);
  lines.clear();
  waits.clear();
  inStep = true;
}

void MpiClient::endStep() {
  std::lock_guard lock(mutex);
  inStep = false;
}

class MpiDevice final : public host::HostDevice {
public:
  MpiDevice(std::unique_ptr<MpiClient> client, std::unique_ptr<Executor> executor, std::shared_ptr<Session> session)
      : HostDevice(*executor), session(std::move(session)), client(std::move(client)), executor(std::move(executor)) {}

  // Removes the listener first: it uses the client and the executor to answer other processes.
  ~MpiDevice() override { session->processes().listen(nullptr); }

  Status runStep(const std::function<Status(int64_t)> &issue, double timeout) override;

private:
  Status explain(const Status &status);

  std::shared_ptr<Session> session;
  std::unique_ptr<MpiClient> client;
  std::unique_ptr<Executor> executor;
};

Status MpiDevice::runStep(const std::function<Status(int64_t)> &issue, double timeout) {
  MOERT_RETURN_IF_ERROR(session->processes().failure());
  client->beginStep();
  Status status = executor->run(issue, timeout);
  if (!status.ok()) {
    status = explain(status);
    session->abandon();
  }
  client->endStep();
  return status;
}

/// Ends this process's failed step in all others, too. Adds to the error the collectives in which this process waited.
Status MpiDevice::explain(const Status &status) {
  Processes &processes = session->processes();
  Status failure = processes.failure();
  if (failure.ok() && status.code == MOERT_ERROR_HANG)
    failure = processes.explain("rank " + std::to_string(session->rank()) + ": " +
                                status.message.substr(0, status.message.find(": ")));
  if (failure.ok()) {
    processes.fail(status);
    return status;
  }
  for (const Wait &wait : client->whereabouts().waits)
    if (failure.message.find(wait.what) == std::string::npos)
      failure.message += "\n  rank " + std::to_string(session->rank()) + " waited in " + wait.what;
  return failure;
}

/// Checks that MPI knows the processes of the launcher. An MPI that another one's launcher started takes each process
/// for the only one.
Status checkLauncher(const Session &session) {
  ProcessPlace place;
  if (!readProcessPlace(ownEnvironment, place).ok() || place.size == 1 ||
      (place.rank == session.rank() && place.size == session.size()))
    return {};
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  const std::string name(version, std::strcspn(version, ",\n"));
  return invalid(place.source, " says that this is process ", place.rank, " of ", place.size, ", but MPI says ",
                 session.rank(), " of ", session.size(), "; start the processes by the mpirun of ", name,
                 ", with which backend 'mpi' was built");
}

Status create(const std::string &, std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
              const BackendOptions &options, Backend &backend) {
  std::shared_ptr<Session> session;
  MOERT_RETURN_IF_ERROR(Session::open(options.timeout, session));
  MOERT_RETURN_IF_ERROR(checkLauncher(*session));
  Status ready;
  if (session->size() != world)
    ready = invalid("the plan has ", world, " ranks, but there are ", session->size(),
                    " processes; start them by mpirun -n ", world, " or srun --mpi=pmix -n ", world);
  else if (options.emulate)
    ready = Status::error(MOERT_ERROR_UNSUPPORTED, "only backend 'host' emulates links");
  MOERT_RETURN_IF_ERROR(checkAgree(session->processes(), options.identity, ready));
  std::unique_ptr<Groups> comms;
  MOERT_RETURN_IF_ERROR(Groups::create(groups, *session, comms));
  auto client = std::make_unique<MpiClient>(programs, groups, session, std::move(comms));
  int64_t workers = options.workers;
  if (workers <= 0)
    workers = std::max<int64_t>(1, std::thread::hardware_concurrency() / session->where().localSize);
  auto executor = std::make_unique<Executor>(programs, groups, world, std::vector<int64_t>{session->rank()}, *client,
                                             Executor::Options{workers, false});
  client->executor = executor.get();
  auto communicator = std::make_unique<ExecutorCommunicator>(*executor, groups, options.verify);
  backend.processes = std::shared_ptr<Processes>(session, &session->processes());
  backend.device = std::make_unique<MpiDevice>(std::move(client), std::move(executor), std::move(session));
  backend.communicator = std::move(communicator);
  return {};
}

} // namespace
} // namespace moert::mpi

MOERT_BACKEND_MODULE(moert::mpi::create)
