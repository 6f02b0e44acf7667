//===- World.cpp - the ranks of a plan and their memory -------------------===//

#include "core/World.h"
#include "core/Error.h"
#include "core/Listing.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace moert {

World::World(const WorldPrograms &run, const std::vector<Group> &groups, int64_t size, const WorldOptions &options)
    : programs(run.programs), entries(run.entries.begin(), run.entries.end()), groups(groups), worldSize(size),
      options(options) {}

/// Makes the instrument and the backend.
Status World::open() {
  MOERT_RETURN_IF_ERROR(makeInstrument(options.modes, {programs, entries}, groups, instrument));
  BackendOptions device = options.device;
  if (instrument)
    instrument->adjust(device);
  device.bind = [this](int64_t rank, Call &call) { return bindCall(ranks[rank], call); };
  device.listChannels = [this](std::vector<ChannelRanks> &channels) {
    return moert::listChannels({programs, entries}, groups, channels);
  };
  return createBackend(options.backend, programs, groups, worldSize, device, backend);
}

Status World::create(const WorldPrograms &programs, const std::vector<Group> &groups, int64_t size,
                     const WorldOptions &options, std::unique_ptr<World> &world) {
  std::unique_ptr<World> made(new World(programs, groups, size, options));
  MOERT_RETURN_IF_ERROR(made->open());
  Status status = made->checkRoom();
  if (status.ok())
    status = made->allocate();
  if (status.ok())
    status = made->prepare();
  // If one process has no room, none begins, so that nobody waits for it.
  MOERT_RETURN_IF_ERROR(made->meet(status));
  world = std::move(made);
  return {};
}

Status World::check(const WorldPrograms &programs, const std::vector<Group> &groups, int64_t size,
                    const WorldOptions &options) {
  World world(programs, groups, size, options);
  MOERT_RETURN_IF_ERROR(world.open());
  return world.meet(world.checkRoom());
}

/// Gives the device the calls of this process's programs.
Status World::prepare() const {
  if (!backend.device->wantsCalls() || (instrument && instrument->changesTypes()))
    return {};
  std::set<size_t> own;
  for (int64_t rank : backend.device->ranks())
    own.insert(programIndex(programs, rank));
  Device &device = *backend.device;
  const EventVisit events{[&](int64_t event, int64_t stream) { device.prepareRecord(event, stream); },
                          [&](int64_t event, int64_t stream) { device.prepareWait(event, stream); }};
  for (size_t i : own) {
    Status status;
    // The first step reports errors of a program itself.
    static_cast<void>(listCalls(
        programs[i], groups, entries[i], programs[i].firstRank,
        [&](const Call &call) { return status = device.prepare(call); }, events));
    if (!status.ok())
      return status;
  }
  return {};
}

/// Checks all programs, also those of other processes, so that all processes find the same.
Status World::checkKernels() const {
  for (const Program &program : programs)
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const Op &op = program.ops[i];
      const KernelInfo *kernel = findKernel(op.name);
      if (!kernel)
        continue;
      Status status = backend.device->checkKernel(static_cast<Kind>(kernel - kKernels));
      if (!status.ok())
        return Status::error(status.code, "op ", i, op.label.empty() ? "" : " '" + op.label + "'", ": ",
                             status.message);
    }
  return {};
}

bool World::isLocal(int64_t rank) const {
  return std::find(localRanks().begin(), localRanks().end(), rank) != localRanks().end();
}

int64_t World::bytesOf(const Value &value) const {
  return instrument ? instrument->bytesOf(value) : value.localBytes();
}

/// Bytes of a rank that runs `program`; in floating point, because the bytes of all ranks may not fit 64 bits.
double World::bytesOf(const Program &program) const {
  double bytes = instrument ? instrument->arenaBytes(program)
                            : static_cast<double>(program.arenaBytes[0]) + static_cast<double>(program.arenaBytes[1]);
  for (int64_t i = 0; i < program.valueCount(); ++i)
    bytes += static_cast<double>(bytesOf(program.value(i)));
  return bytes;
}

Status World::checkRoom() const {
  MOERT_RETURN_IF_ERROR(checkKernels());
  if (options.isBound)
    return {};
  std::vector<int64_t> count(programs.size());
  for (int64_t rank : localRanks())
    ++count[programIndex(programs, rank)];
  double bytes = 0;
  int64_t arena = 0;
  for (size_t i = 0; i < count.size(); ++i) {
    bytes += static_cast<double>(count[i]) * bytesOf(programs[i]);
    arena = std::max(arena, programs[i].arenaBytes[MOERT_SPACE_DEVICE]);
  }
  std::string what =
      joined("a world of ", worldSize, " ranks, ", localRanks().size(),
             " of them in this process, each with an arena of ", count.size() > 1 ? "at most " : "", arena, " bytes,");
  if (options.backend == "host" && options.otherBytes > 0) {
    bytes += static_cast<double>(options.otherBytes);
    what += joined(" beside ", options.otherBytes, " bytes of whole values,");
  }
  return backend.device->checkAvailable(static_cast<int64_t>(std::min(bytes, 9e18)), what);
}

Status World::allocate() {
  ranks.resize(worldSize);
  for (int64_t rank = 0; rank < worldSize; ++rank) {
    ranks[rank].rank = rank;
    ranks[rank].program = &programs[programIndex(programs, rank)];
  }
  for (int64_t rank : localRanks())
    MOERT_RETURN_IF_ERROR(allocateRank(ranks[rank]));
  return {};
}

Status World::allocateRank(moert_rank &state) {
  const Program &program = *state.program;
  state.device = backend.device.get();
  state.communicator = backend.communicator.get();
  state.groups = &groups;
  state.leastShadows = options.leastShadows;
  state.values.resize(program.valueCount());
  if (options.isBound)
    return {};
  if (instrument) {
    state.instrument = instrument.get();
    return instrument->allocate(*backend.device, state);
  }
  MOERT_RETURN_IF_ERROR(allocateBlock(state.rank, MOERT_SPACE_DEVICE, program.arenaBytes[MOERT_SPACE_DEVICE],
                                      "the device arena", state.arenas[MOERT_SPACE_DEVICE]));
  MOERT_RETURN_IF_ERROR(allocateBlock(state.rank, MOERT_SPACE_HOST_PINNED, program.arenaBytes[MOERT_SPACE_HOST_PINNED],
                                      "the host arena", state.arenas[MOERT_SPACE_HOST_PINNED]));
  for (size_t i = 0; i < state.values.size(); ++i) {
    const Value &value = program.value(static_cast<int64_t>(i));
    MOERT_RETURN_IF_ERROR(
        allocateBlock(state.rank, MOERT_SPACE_DEVICE, value.localBytes(), "'" + value.name + "'", state.values[i]));
  }
  return {};
}

Status World::allocateBlock(int64_t rank, int32_t space, int64_t bytes, const std::string &what, char *&data) {
  void *block = nullptr;
  Status status = backend.device->allocate(rank, space, bytes, what + " of rank " + std::to_string(rank), block);
  data = static_cast<char *>(block);
  return status;
}

Status World::checkRank(int64_t rank) const {
  return invalidUnless(rank >= 0 && rank < worldSize, "expected a rank below ", worldSize, " but got ", rank);
}

Status World::checkLocal(int64_t rank) const {
  MOERT_RETURN_IF_ERROR(checkRank(rank));
  return invalidUnless(isLocal(rank), "rank ", rank, " does not run in this process");
}

/// Gives all processes the values of `read` in the process that runs `rank`. Process i runs rank i.
template <class T, class Read> Status World::shared(int64_t rank, std::vector<T> &values, Read read) {
  MOERT_RETURN_IF_ERROR(checkRank(rank));
  if (!backend.processes)
    return read(values);
  auto give = [&](std::vector<char> &bytes) {
    Status status = read(values);
    auto *first = reinterpret_cast<const char *>(values.data());
    bytes.assign(first, first + values.size() * sizeof(T));
    return status;
  };
  std::vector<char> bytes;
  MOERT_RETURN_IF_ERROR(share(*backend.processes, rank, give, bytes));
  values.resize(bytes.size() / sizeof(T));
  std::copy_n(bytes.data(), values.size() * sizeof(T), reinterpret_cast<char *>(values.data()));
  return {};
}

template <class Read> Status World::sharedNumber(int64_t rank, int64_t &number, Read read) {
  std::vector<int64_t> values;
  MOERT_RETURN_IF_ERROR(shared(rank, values, [&](std::vector<int64_t> &local) {
    local.resize(1);
    return read(local[0]);
  }));
  number = values.at(0);
  return {};
}

Status World::locate(int64_t rank, int64_t index, int64_t bytes, std::optional<int64_t> begin, char *&data) {
  const Program &program = programOf(rank);
  if (index < 0 || index >= program.valueCount())
    return invalid("expected the index of an argument or result below ", program.valueCount(), " but got ", index);
  const Value &value = program.value(index);
  const int64_t whole = bytesOf(value);
  if (!begin && bytes != whole)
    return invalid("expected ", whole, " bytes for '", value.name, "' of one rank but got ", bytes);
  if (begin && (*begin < 0 || bytes < 0 || *begin > whole - bytes))
    return invalid("expected bytes below ", whole, " of '", value.name, "' of one rank but got ", bytes, " from ",
                   *begin);
  data = isLocal(rank) ? ranks[rank].values[index] + begin.value_or(0) : nullptr;
  return {};
}

static Status checkAddress(const void *data, int64_t multiple, const std::string &what) {
  return invalidUnless(reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(multiple) == 0, "expected ", what,
                       " at an address that is a multiple of ", multiple);
}

Status World::bind(int64_t rank, int64_t index, void *data, int64_t bytes) {
  if (!options.isBound)
    return invalid("expected a world whose memory the caller gives (bound = 1)");
  char *place;
  MOERT_RETURN_IF_ERROR(checkLocal(rank));
  MOERT_RETURN_IF_ERROR(locate(rank, index, bytes, {}, place));
  MOERT_RETURN_IF_ERROR(checkAddress(data, 16, "'" + programOf(rank).value(index).name + "'"));
  ranks[rank].values[index] = static_cast<char *>(data);
  return {};
}

Status World::bindArena(int64_t rank, int32_t space, void *data, int64_t bytes) {
  if (!options.isBound)
    return invalid("expected a world whose memory the caller gives (bound = 1)");
  MOERT_RETURN_IF_ERROR(checkLocal(rank));
  if (int64_t least = programOf(rank).arenaBytes[space]; bytes < least)
    return invalid("expected an arena of at least ", least, " bytes but got ", bytes);
  MOERT_RETURN_IF_ERROR(checkAddress(data, 256, "the arena"));
  ranks[rank].arenas[space] = static_cast<char *>(data);
  return {};
}

/// Checks that the caller has bound all memory.
Status World::checkBound() const {
  for (int64_t rank : localRanks()) {
    const moert_rank &state = ranks[rank];
    for (int64_t i = 0; i < state.program->valueCount(); ++i)
      if (!state.values[i] && state.program->value(i).localBytes() > 0)
        return invalid("'", state.program->value(i).name, "' was not bound before the step");
    for (int32_t space : {MOERT_SPACE_DEVICE, MOERT_SPACE_HOST_PINNED})
      if (!state.arenas[space] && state.program->arenaBytes[space] > 0)
        return invalid("arena ", space, " was not bound before the step");
  }
  return {};
}

Status World::write(int64_t rank, int64_t index, const void *data, int64_t bytes, std::optional<int64_t> begin) {
  MOERT_RETURN_IF_ERROR(checkLocal(rank));
  char *place;
  MOERT_RETURN_IF_ERROR(locate(rank, index, bytes, begin, place));
  return backend.device->write(place, data, bytes);
}

Status World::read(int64_t rank, int64_t index, void *data, int64_t bytes, std::optional<int64_t> begin) {
  MOERT_RETURN_IF_ERROR(checkRank(rank));
  char *place;
  MOERT_RETURN_IF_ERROR(locate(rank, index, bytes, begin, place));
  if (!backend.processes)
    return backend.device->read(data, place, bytes);
  std::vector<char> values;
  MOERT_RETURN_IF_ERROR(shared(rank, values, [&](std::vector<char> &local) {
    local.resize(bytes);
    return backend.device->read(local.data(), place, bytes);
  }));
  std::copy(values.begin(), values.end(), static_cast<char *>(data));
  return {};
}

Status World::readLocal(int64_t rank, int64_t index, void *data, int64_t bytes, int64_t begin) {
  MOERT_RETURN_IF_ERROR(checkLocal(rank));
  char *place;
  MOERT_RETURN_IF_ERROR(locate(rank, index, bytes, begin, place));
  return backend.device->read(data, place, bytes);
}

Status World::meet(const Status &own) { return backend.processes ? checkAgree(*backend.processes, "", own) : own; }

Status World::touchedBytes(int64_t rank, int32_t space, int64_t &bytes) {
  return sharedNumber(rank, bytes, [&](int64_t &local) {
    local = ranks[rank].touched[space];
    return Status{};
  });
}

Status World::otherBytes(int64_t rank, int64_t &bytes) {
  return sharedNumber(rank, bytes, [&](int64_t &local) { return backend.device->otherBytes(local); });
}

Status World::timeline(int64_t rank, std::vector<moert_op_time> &times) {
  return shared(rank, times, [&](std::vector<moert_op_time> &local) {
    for (size_t stream = 0; stream < programOf(rank).streams.size(); ++stream)
      for (const OpTime &time : backend.device->timeline(rank, static_cast<int64_t>(stream)))
        local.push_back({time.op, static_cast<int64_t>(stream), time.rows, static_cast<double>(time.begin) * 1e-9,
                         static_cast<double>(time.end) * 1e-9, time.received});
    return Status{};
  });
}

Status World::listOnce() {
  if (routings)
    return {};
  std::vector<moert_routing> found;
  MOERT_RETURN_IF_ERROR(listRoutings({programs, entries}, groups, found));
  routings = std::move(found);
  return {};
}

static bool runsIn(const moert_routing &routing, int64_t rank) {
  return rank >= routing.first_rank && rank < routing.first_rank + routing.ranks;
}

/// Finds the page of a routing op. `choices` is the number of choices of all its tokens.
Status World::findPage(int64_t rank, int64_t op, RoutingPage *&page, int64_t &choices) {
  MOERT_RETURN_IF_ERROR(checkRank(rank));
  MOERT_RETURN_IF_ERROR(listOnce());
  auto found = std::find_if(routings->begin(), routings->end(),
                            [&](const moert_routing &it) { return it.op == op && runsIn(it, rank); });
  if (found == routings->end())
    return invalid("expected a routing op but got op ", op, ", which is not one");
  page = &ranks[rank].routing.page(op);
  choices = found->tokens * found->choices;
  return {};
}

Status World::forceRouting(int64_t rank, int64_t op, std::vector<int32_t> experts) {
  MOERT_RETURN_IF_ERROR(checkLocal(rank));
  RoutingPage *page;
  int64_t choices;
  MOERT_RETURN_IF_ERROR(findPage(rank, op, page, choices));
  if (auto count = std::ssize(experts); count != 0 && count != choices)
    return invalid("expected ", choices, " experts, or none, for routing op ", op, " but got ", count);
  page->forced = std::move(experts);
  backend.device->lookIntoSteps();
  return {};
}

Status World::recordRouting(bool isRecorded, bool own) {
  backend.device->lookIntoSteps();
  MOERT_RETURN_IF_ERROR(listOnce());
  for (int64_t rank : localRanks())
    for (const moert_routing &routing : *routings)
      if (runsIn(routing, rank)) {
        RoutingPage &page = ranks[rank].routing.page(routing.op);
        page.isRecorded = isRecorded;
        page.recordsOwn = own;
      }
  return {};
}

Status World::readRouting(int64_t rank, int64_t op, std::vector<int32_t> &experts) {
  RoutingPage *page;
  int64_t choices;
  MOERT_RETURN_IF_ERROR(findPage(rank, op, page, choices));
  return shared(rank, experts, [&](std::vector<int32_t> &local) -> Status {
    if (std::ssize(page->chosen) != choices)
      return invalid("no step of routing op ", op, " was recorded");
    local = page->chosen;
    return {};
  });
}

/// Sets `seconds` to the largest of all processes.
Status World::slowest(double &seconds) {
  Processes &processes = *backend.processes;
  auto *first = reinterpret_cast<char *>(&seconds);
  std::vector<char> bytes(first, first + sizeof seconds);
  if (processes.index() != 0)
    MOERT_RETURN_IF_ERROR(processes.send(bytes));
  for (int64_t i = 1; i < processes.count() && processes.index() == 0; ++i) {
    MOERT_RETURN_IF_ERROR(processes.receive(i, bytes));
    double other = 0;
    std::copy_n(bytes.data(), std::min(bytes.size(), sizeof other), reinterpret_cast<char *>(&other));
    seconds = std::max(seconds, other);
  }
  bytes.assign(first, first + sizeof seconds);
  MOERT_RETURN_IF_ERROR(processes.broadcast(bytes));
  std::copy_n(bytes.data(), std::min(bytes.size(), sizeof seconds), first);
  return {};
}

Status World::run(double *seconds) {
  auto issue = [this](int64_t rank) -> Status {
    ProgramEntry entry = entries[programIndex(programs, rank)];
    ranks[rank].routing.beginStep();
    ranks[rank].repetition = {};
    int32_t code = entry(&ranks[rank]);
    if (code == MOERT_OK)
      return {};
    return Status::error(code, "rank ", rank, ": ", lastError());
  };
  MOERT_RETURN_IF_ERROR(options.isBound ? checkBound() : Status{});
  if (seconds && options.device.cudaCaller)
    return invalid("seconds must be null with a CUDA caller: the step goes on after the call, and events of the caller "
                   "can time it");
  auto begin = std::chrono::steady_clock::now();
  Status status = backend.device->runStep(issue, options.timeout);
  const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (status.ok() && instrument)
    status = instrument->checkMemory(*backend.device);
  if (!status.ok() || !seconds)
    return status;
  *seconds = taken;
  return backend.processes ? slowest(*seconds) : status;
}

} // namespace moert
