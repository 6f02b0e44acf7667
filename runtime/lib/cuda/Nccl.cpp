//===- Nccl.cpp - collectives between processes ---------------------------===//

#include "cuda/Nccl.h"
#include "core/Attributes.h"
#include "cuda/Copies.h"
#include "cuda/NcclLibrary.h"
#include "host/Collectives.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <set>
#include <span>

namespace moert::cuda {
namespace {

ncclDataType_t typeOf(int32_t dtype) {
  switch (dtype) {
  case MOERT_F64:
    return ncclFloat64;
  case MOERT_BF16:
    return ncclBfloat16;
  case MOERT_F16:
    return ncclFloat16;
  case MOERT_I32:
    return ncclInt32;
  default:
    return ncclFloat32;
  }
}

char *at(const View &view, int64_t bytes) { return view.as<char>() + bytes; }

/// Calls `body` and starts all of its transfers together.
template <class Body> Status grouped(ncclComm_t comm, Body body) {
  MOERT_RETURN_IF_ERROR(check(ncclGroupStart(), "ncclGroupStart", comm));
  Status status = body();
  Status ended = check(ncclGroupEnd(), "ncclGroupEnd", comm);
  return status.ok() ? ended : status;
}

/// Distributes an id for each of `count` communicators. Process 0 makes them.
Status makeIds(size_t count, net::Star &processes, std::vector<ncclUniqueId> &ids) {
  std::vector<char> bytes(count * sizeof(ncclUniqueId));
  ids.resize(count);
  if (processes.index() == 0) {
    for (ncclUniqueId &id : ids)
      MOERT_RETURN_IF_ERROR(check(ncclGetUniqueId(&id), "ncclGetUniqueId"));
    std::ranges::copy(std::as_bytes(std::span(ids)), std::as_writable_bytes(std::span(bytes)).begin());
  }
  MOERT_RETURN_IF_ERROR(processes.broadcast(bytes));
  if (bytes.size() != count * sizeof(ncclUniqueId))
    return invalid("the processes do not agree on the communicators: do all run the same plan?");
  std::ranges::copy(std::as_bytes(std::span(bytes)), std::as_writable_bytes(std::span(ids)).begin());
  return {};
}

/// Whether a rank of the program uses several communicators on several streams.
bool overlapsCommunicators(const Program &program, const std::vector<Group> &groups) {
  std::set<std::pair<int64_t, std::string>> communicators; ///< group, and the direction of a channel
  std::set<int64_t> streams;
  for (const Op &op : program.ops) {
    if (op.group < 0 || groups[static_cast<size_t>(op.group)].size == 1)
      continue;
    const bool isChannel = op.name == kindName(Kind::Send) || op.name == kindName(Kind::Receive);
    communicators.emplace(op.group, isChannel ? op.name : "");
    streams.insert(op.stream);
  }
  return communicators.size() > 1 && streams.size() > 1;
}

/// Orders the launches of NCCL's kernels. Kernels of two communicators, on two streams, may start in different orders
/// on two devices and then wait for each other. From 2.26 on, NCCL can start all kernels of a device in the order in
/// which the host issues them ("Using multiple NCCL communicators concurrently", NCCL User Guide). That order is the
/// same on all ranks of a program. Programs of different stages meet over channels, each in its own order, so their
/// kernels must not wait for each other's ends. In graphs of drivers before CUDA 12.9 they would.
Status orderLaunches(const Nccl::Uses &uses) {
  constexpr int kOrdersGraphs = 12090; // driver for CUDA 12.9
  ::setenv(kOrderVariable, "1", 0);
  auto overlaps = [&](const Program &program) { return overlapsCommunicators(program, uses.groups); };
  if (std::ranges::none_of(uses.programs, overlaps))
    return {};
  MOERT_RETURN_IF_ERROR(checkOrder());
  int driver = 0;
  MOERT_RETURN_IF_ERROR(check(cudaDriverGetVersion(&driver), "cannot read the driver's version"));
  if (uses.channels.empty() || driver >= kOrdersGraphs)
    return {};
  return Status::error(MOERT_ERROR_UNSUPPORTED,
                       "the plan's pipeline uses several communicators on several streams, whose kernels may wait for "
                       "each other for ever; expected a driver for CUDA 12.9 or newer but got one for ",
                       driver / 1000, ".", driver % 1000 / 10);
}

/// Settings of communicators. If a program has several streams, transfers run beside kernels. NCCL's kernels then have
/// no more blocks than kernels leave multiprocessors free (Target::freeProcessors), because blocks that wait for the
/// end of another kernel would hold up all ranks. From 2.28 on, NCCL moves data by copy engines where it can, without
/// any multiprocessor (NCCL_CTA_POLICY_ZERO). Splits of a communicator have its settings.
ncclConfig_t configOf(std::span<const Program> programs, int processors) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  auto hasStreams = [](const Program &program) { return program.streams.size() > 1; };
  if (processors == 0 || std::ranges::none_of(programs, hasStreams))
    return config;
  config.maxCTAs = processors;
  int version = 0;
  if (ncclGetVersion(&version) == ncclSuccess && version >= NCCL_VERSION(2, 28, 0))
    config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  return config;
}

/// Whether a program exchanges messages in the group. Its members then need connections to each other.
bool hasMessages(std::span<const Program> programs, size_t group) {
  auto isMessage = [&](const Op &op) {
    return op.group == static_cast<int64_t>(group) &&
           (op.name == kindName(Kind::AllToAll) || op.name == kindName(Kind::AllToAllV) ||
            op.name == kindName(Kind::BroadcastExperts));
  };
  return std::any_of(programs.begin(), programs.end(), [&](const Program &program) {
    return std::any_of(program.ops.begin(), program.ops.end(), isMessage);
  });
}

/// Whether members of the group, who all run one program, gain if they share memory: kernels exchange rows by counts,
/// and copy engines gather values and exchange messages of one size.
bool wantsPeers(const Nccl::Uses &uses, size_t group, int64_t rank, bool hasEngines) {
  const Group &its = uses.groups[group];
  const size_t program = programIndex(uses.programs, rank);
  for (int64_t member = 0; member < its.size; ++member)
    if (programIndex(uses.programs, its.rankOf(its.instanceOf(rank), member)) != program)
      return false;
  return std::ranges::any_of(uses.programs[program].ops, [&](const Op &op) {
    return op.group == static_cast<int64_t>(group) &&
           (op.name == kindName(Kind::AllToAllV) ||
            (hasEngines && (op.name == kindName(Kind::AllGather) || op.name == kindName(Kind::AllToAll))));
  });
}

/// Whether all members of an all_to_all take part, and each receives a message of its own.
bool isWhole(const Call &call) {
  if (call.kind != Kind::AllToAll)
    return false;
  const auto options = attributes::AllToAll::of(call);
  return options.phases == 1 && options.copies == 1;
}

/// Exchanges messages with all other members at once. The part that a member keeps is not a message.
Status swapMessages(const Messages &messages, int64_t self, ncclComm_t comm, cudaStream_t stream) {
  const auto size = static_cast<int64_t>(messages.sent.size());
  auto move = [&](auto function, const char *name, const Messages::Message &message, int64_t peer) {
    if (message.bytes == 0)
      return Status();
    const auto bytes = static_cast<size_t>(message.bytes);
    return check(function(message.data, bytes, ncclUint8, static_cast<int>(peer), comm, stream), name, comm);
  };
  return grouped(comm, [&]() -> Status {
    for (int64_t i = 1; i < size; ++i) {
      // Each member begins with another one, so that they do not all send to the same first.
      const int64_t to = (self + i) % size, from = (self + size - i) % size;
      MOERT_RETURN_IF_ERROR(move(ncclSend, "ncclSend", messages.sent[static_cast<size_t>(to)], to));
      MOERT_RETURN_IF_ERROR(move(ncclRecv, "ncclRecv", messages.received[static_cast<size_t>(from)], from));
    }
    return {};
  });
}

/// Exchanges messages by one call, which needs messages of one size without gaps on all members.
Status swapEven(const Messages &messages, ncclComm_t comm, cudaStream_t stream) {
  if (!messages.areEven())
    return Status::error(MOERT_ERROR_INTERNAL, "expected messages of one size");
  return check(findAllToAll()(messages.sent[0].data, messages.received[0].data,
                              static_cast<size_t>(messages.sent[0].bytes), ncclUint8, comm, stream),
               "ncclAlltoAll", comm);
}

} // namespace

// --- Communicators -------------------------------------------------------------

Status checkOrder() {
  const char *order = std::getenv(kOrderVariable);
  if (order && std::string(order) == "1")
    return {};
  return invalid("kernels of several communicators may start in different orders on two GPUs and then wait for each "
                 "other for ever; expected ",
                 kOrderVariable, "=1 before the process uses NCCL (2.26 or newer) but got ",
                 order ? "'" + std::string(order) + "'" : "no such variable");
}

Status Nccl::create(const Uses &uses, Lanes &lanes, net::Star &processes, std::unique_ptr<Nccl> &nccl) {
  std::unique_ptr<Nccl> made(new Nccl());
  made->rank = processes.index();
  const Status ordered = orderLaunches(uses);
  const ncclConfig_t config = configOf(uses.programs, lanes.device().transferProcessors);
  made->hasEngines = config.CTAPolicy == NCCL_CTA_POLICY_ZERO;
  MOERT_RETURN_IF_ERROR(made->createAll(uses, config, processes));
  // All ranks end together. A rank that ends first would seem to have died.
  MOERT_RETURN_IF_ERROR(checkAgree(processes, "", ordered));
  MOERT_RETURN_IF_ERROR(made->prepareMemory(processes));
  MOERT_RETURN_IF_ERROR(made->preparePeers(uses, lanes, processes));
  MOERT_RETURN_IF_ERROR(made->connectAll(uses, lanes.lanes()[0]));
  nccl = std::move(made);
  return {};
}

std::unique_ptr<Nccl> Nccl::borrow(int64_t rank, std::vector<ncclComm_t> comms) {
  std::unique_ptr<Nccl> made(new Nccl());
  made->rank = rank;
  made->comms = std::move(comms);
  made->isBorrowed = true;
  return made;
}

Status Nccl::createAll(const Uses &uses, ncclConfig_t config, net::Star &processes) {
  std::vector<ncclUniqueId> ids;
  MOERT_RETURN_IF_ERROR(makeIds(1, processes, ids));
  MOERT_RETURN_IF_ERROR(check(
      ncclCommInitRankConfig(&world, static_cast<int>(processes.count()), ids[0], static_cast<int>(rank), &config),
      "ncclCommInitRankConfig"));
  comms.resize(uses.groups.size());
  for (size_t i = 0; i < uses.groups.size(); ++i)
    if (const Group &group = uses.groups[i]; group.size > 1)
      MOERT_RETURN_IF_ERROR(check(ncclCommSplit(world, static_cast<int>(group.instanceOf(rank)),
                                                static_cast<int>(group.memberOf(rank)), &comms[i], nullptr),
                                  "ncclCommSplit", world));
  return createChannels(uses.channels, config, processes);
}

/// Creates channels in the order that all ranks share, so that they cannot wait in a circle.
Status Nccl::createChannels(const std::vector<Channel> &channels, ncclConfig_t config, net::Star &processes) {
  std::vector<ncclUniqueId> ids;
  MOERT_RETURN_IF_ERROR(makeIds(channels.size(), processes, ids));
  for (size_t i = 0; i < channels.size(); ++i) {
    int member = channels[i][0] == rank ? 0 : channels[i][1] == rank ? 1 : -1;
    if (member >= 0)
      MOERT_RETURN_IF_ERROR(
          check(ncclCommInitRankConfig(&pairs[channels[i]], 2, ids[i], member, &config), "ncclCommInitRankConfig"));
  }
  return {};
}

std::vector<ncclComm_t> Nccl::allComms() const {
  std::vector<ncclComm_t> all;
  std::copy_if(comms.begin(), comms.end(), std::back_inserter(all), [](ncclComm_t comm) { return comm; });
  for (const auto &[channel, comm] : pairs)
    all.push_back(comm);
  return all;
}

/// Connects all members. They otherwise connect when they first send to each other, and their hosts wait for each
/// other. In a step, ranks of two programs that issue their transfers in different orders would wait for ever. Here all
/// ranks have the same order.
Status Nccl::connectAll(const Uses &uses, Lane &lane) {
  for (size_t i = 0; i < uses.groups.size(); ++i)
    if (const Group &group = uses.groups[i]; comms[i] && hasMessages(uses.programs, i))
      MOERT_RETURN_IF_ERROR(connect(comms[i], group.size, group.memberOf(rank), lane));
  for (size_t i = 0; i < uses.groups.size(); ++i)
    if (hasEngines && peers[i])
      MOERT_RETURN_IF_ERROR(startEngines(comms[i], uses.groups[i], lane));
  for (const Channel &channel : uses.channels)
    if (auto pair = pairs.find(channel); pair != pairs.end())
      MOERT_RETURN_IF_ERROR(connect(pair->second, 2, channel[1] == rank, lane));
  return check(cudaStreamSynchronize(lane.context.stream), "the ranks cannot reach each other");
}

Status Nccl::connect(ncclComm_t comm, int64_t size, int64_t member, Lane &lane) {
  const bool isChannel = std::find(comms.begin(), comms.end(), comm) == comms.end();
  Messages messages;
  char *data;
  MOERT_RETURN_IF_ERROR(reserve(lane, 2 * size, /*isEven=*/false, data));
  for (int64_t other = 0; other < size; ++other) {
    // In a channel, only member 0 sends, to member 1.
    messages.sent.push_back({data + other, !isChannel || member == 0});
    messages.received.push_back({data + size + other, !isChannel || member == 1});
  }
  return swapMessages(messages, member, comm, lane.context.stream);
}

/// Lets NCCL prepare its copy engines, for which hosts wait for each other.
Status Nccl::startEngines(ncclComm_t comm, const Group &group, Lane &lane) {
  void *data;
  MOERT_RETURN_IF_ERROR(allocate(group.size, "a trial of copy engines", data));
  return check(
      ncclAllGather(static_cast<char *>(data) + group.memberOf(rank), data, 1, ncclUint8, comm, lane.context.stream),
      "ncclAllGather", comm);
}

Nccl::~Nccl() {
  if (aborted)
    for (const std::unique_ptr<Peers> &group : peers)
      if (group)
        group->forget();
  if (aborted || isBorrowed)
    return;
  peers.clear();
  registered.deregister();
  for (ncclComm_t comm : allComms())
    ncclCommDestroy(comm);
  if (world)
    ncclCommDestroy(world);
}

// --- Failures ------------------------------------------------------------------

Nccl::Use::Use(Nccl &nccl) : nccl(nccl) {
  std::lock_guard lock(nccl.mutex);
  if (nccl.aborted)
    status = Status::error(MOERT_ERROR_INTERNAL, "NCCL's communicators were aborted");
  nccl.inUse = true;
}

Nccl::Use::~Use() {
  std::lock_guard lock(nccl.mutex);
  nccl.inUse = false;
  nccl.unused.notify_all();
}

/// Aborts the communicators. "Make sure no thread is calling any NCCL operations while calling ncclCommAbort" ("Fault
/// Tolerance", NCCL User Guide). Calls only enqueue. A call that does not return waits for a rank that is gone, and
/// only an abort ends it.
///
/// NCCL frees a communicator when no graph holds it any more, and the thread that owns the graph may wait for another
/// communicator. In a group, all transfers end before NCCL waits for the first graph.
void Nccl::abort() {
  constexpr std::chrono::seconds kPatience(5);
  std::unique_lock lock(mutex);
  if (aborted)
    return;
  aborted = true;
  for (const std::unique_ptr<Peers> &group : peers)
    if (group)
      group->abort();
  unused.wait_for(lock, kPatience, [this] { return !inUse; });
  lock.unlock();
  ncclGroupStart();
  for (ncclComm_t comm : allComms())
    ncclCommAbort(comm);
  if (world)
    ncclCommAbort(world);
  ncclGroupEnd();
}

Status Nccl::failure() {
  // The lock keeps other threads from aborting, which would free the communicator that is asked.
  std::lock_guard lock(mutex);
  if (aborted)
    return {};
  for (ncclComm_t comm : allComms()) {
    ncclResult_t result = ncclSuccess;
    MOERT_RETURN_IF_ERROR(check(ncclCommGetAsyncError(comm, &result), "ncclCommGetAsyncError", comm));
    if (result != ncclInProgress)
      MOERT_RETURN_IF_ERROR(check(result, "a transfer failed", comm));
  }
  return {};
}

// --- Memory --------------------------------------------------------------------

/// Decides whether memory is NCCL's own: in all processes or in none.
Status Nccl::prepareMemory(net::Star &processes) {
  void *data;
  Status status = registered.allocate(1, "a trial", allComms(), data);
  isRegistered = status.ok();
  if (!status.ok())
    std::cerr << "moert: note: rank " + std::to_string(rank) +
                     " cannot register memory with NCCL, so NCCL copies the exchanges of all ranks: " + status.message +
                     "\n";
  return agreeOnAll(processes, isRegistered);
}

/// Finds the groups whose members can write into each other's memory, in all processes or in none.
Status Nccl::preparePeers(const Uses &uses, Lanes &lanes, net::Star &processes) {
  const char *given = std::getenv("MOERT_PEER_EXCHANGE");
  const std::string_view wanted = given ? given : "1";
  MOERT_RETURN_IF_ERROR(checkAgree(
      processes, "",
      invalidUnless(wanted == "0" || wanted == "1", "MOERT_PEER_EXCHANGE: expected 0 or 1 but got '", wanted, "'")));
  bool canShare = isRegistered && wanted == "1";
  MOERT_RETURN_IF_ERROR(agreeOnAll(processes, canShare));
  peers.resize(comms.size());
  if (!canShare)
    return {};
  for (size_t i = 0; i < comms.size(); ++i)
    if (comms[i] && wantsPeers(uses, i, rank, hasEngines))
      // Members that cannot reach each other exchange messages.
      if (Status status = Peers::create(comms[i], uses.groups[i].size, uses.groups[i].memberOf(rank), peers[i]);
          !status.ok() && status.code != MOERT_ERROR_UNSUPPORTED)
        return status;
  std::vector<Peers *> found;
  for (const std::unique_ptr<Peers> &group : peers)
    if (group)
      found.push_back(group.get());
  if (found.empty())
    return {};
  registered.shareWith(found);
  const auto count = static_cast<int64_t>(lanes.lanes().size());
  for (Peers *group : found) {
    void *slots = nullptr;
    MOERT_RETURN_IF_ERROR(allocate(count * static_cast<int64_t>(sizeof(PeerSlot)), "signals of other devices", slots));
    MOERT_RETURN_IF_ERROR(group->useSlots(static_cast<PeerSlot *>(slots), count));
  }
  std::erase_if(found, [](const Peers *group) { return !group->hasSlots(); });
  registered.shareWith(found);
  for (std::unique_ptr<Peers> &group : peers)
    if (group && !group->hasSlots())
      group.reset();
  return {};
}

Status Nccl::allocate(int64_t bytes, const std::string &what, void *&data, bool isOwn) {
  if (isRegistered)
    return registered.allocate(bytes, what, allComms(), data, isOwn);
  MOERT_RETURN_IF_ERROR(allocateDevice(bytes, what, plain.emplace_back()));
  data = plain.back().get();
  return {};
}

/// Reserves a buffer that only grows. Enqueued work may still use the smaller ones. If it `isEven`, all members of the
/// group reserve as much.
Status Nccl::reserve(Lane &lane, int64_t bytes, bool isEven, char *&data) {
  Buffer &buffer = (isEven ? evenBuffers : buffers)[&lane];
  if (bytes > buffer.bytes) {
    MOERT_RETURN_IF_ERROR(lane.context.checkMayWait());
    const int64_t size = std::max({bytes, 2 * buffer.bytes, int64_t(1) << 20});
    void *memory;
    MOERT_RETURN_IF_ERROR(allocate(size, "messages of a stream", memory, /*isOwn=*/true));
    buffer = {static_cast<char *>(memory), size};
  }
  data = buffer.data;
  return {};
}

Status Nccl::shareBuffers(Lanes &lanes) {
  if (!hasEngines || !registered.isShared())
    return {};
  for (Lane &lane : lanes.lanes()) {
    Buffer &buffer = evenBuffers[&lane];
    if (buffer.isShared || buffer.bytes == 0)
      continue;
    MOERT_RETURN_IF_ERROR(registered.release(buffer.data));
    void *memory;
    MOERT_RETURN_IF_ERROR(allocate(buffer.bytes, "messages of a stream", memory));
    buffer = {static_cast<char *>(memory), buffer.bytes, true};
  }
  return {};
}

// --- Collectives ---------------------------------------------------------------

Status Nccl::run(Lanes &lanes, Lane &lane, const Call &call, const Group &group, int64_t &received) {
  Place place{lanes,
              lane,
              call,
              {comms[static_cast<size_t>(call.group)], lane.context.stream, group.size, group.memberOf(rank)}};
  received = 0;
  // The host waits for the values that it compares.
  if (call.kind == Kind::AssumeReplicated) {
    received = place.members.member ? sentOperand(call).bytes() : 0;
    return compare(place, group);
  }
  Use use(*this);
  return use.status.ok() ? enqueue(place, group, received) : use.status;
}

Status Nccl::enqueue(const Place &place, const Group &group, int64_t &received) {
  const Call &call = place.call;
  const Members &members = place.members;
  if (isPointToPoint(call.kind))
    return transfer(place, group, received);
  const View &in = sentOperand(call);
  if (call.kind == Kind::ReduceScatter || call.kind == Kind::Reduce)
    received = summedBytes(call, members.size, members.member, in.elements());
  switch (call.kind) {
  case Kind::AllGather:
    received = (members.size - 1) * in.bytes();
    return gather(place);
  case Kind::AllReduce:
    return allReduce(call, members, received);
  case Kind::ReduceScatter:
    return reduceScatter(place);
  case Kind::Broadcast:
    return broadcast(call, members, received);
  case Kind::Reduce:
    return reduce(call, members);
  case Kind::ReduceExperts:
    return reduceExperts(place, received);
  default:
    return exchange(place, received);
  }
}

/// Transfers through the channel of the two ranks.
Status Nccl::transfer(const Place &place, const Group &group, int64_t &received) {
  const bool receives = place.call.kind == Kind::Receive;
  const int64_t other = group.rankOf(group.instanceOf(rank), peerOf(place.call));
  auto pair = pairs.find(receives ? Channel{other, rank} : Channel{rank, other});
  if (pair == pairs.end())
    return Status::error(MOERT_ERROR_INTERNAL, "the channel was not found before");
  return exchange({place.lanes, place.lane, place.call, {pair->second, place.members.stream, 2, receives}}, received);
}

Status Nccl::broadcast(const Call &call, const Members &members, int64_t &received) {
  const View &in = sentOperand(call);
  const int64_t root = attributes::Broadcast::of(call).root;
  received = members.member == root ? 0 : in.bytes();
  return check(ncclBroadcast(in.data, receivedOperand(call).data, static_cast<size_t>(in.bytes()), ncclUint8,
                             static_cast<int>(root), members.comm, members.stream),
               "ncclBroadcast", members.comm);
}

Status Nccl::reduce(const Call &call, const Members &members) {
  const View &in = sentOperand(call), &out = receivedOperand(call);
  const int64_t root = attributes::Reduce::of(call).root;
  MOERT_RETURN_IF_ERROR(check(ncclReduce(in.data, out.data, static_cast<size_t>(in.elements()), typeOf(in.dtype),
                                         ncclSum, static_cast<int>(root), members.comm, members.stream),
                              "ncclReduce", members.comm));
  return members.member == root ? Status{} : clearBytes(members.stream, out.data, out.bytes());
}

Status Nccl::makeMessages(const Place &place, Messages::Own own, Messages &messages) {
  const bool isEven = own == Messages::Own::Message;
  const auto reserveIn = [&](int64_t bytes, char *&data) { return reserve(place.lane, bytes, isEven, data); };
  return Messages::create(place.call, place.members.size, place.members.member, own, reserveIn, messages);
}

bool Nccl::needsNoCounts(const Lanes &lanes, const Call &call) const {
  return call.kind == Kind::AllToAllV && !lanes.isTimed && hasPeers(call.group) &&
         peers[static_cast<size_t>(call.group)]->canReach(call);
}

/// Sends one message to each other member, all at once.
Status Nccl::exchange(const Place &place, int64_t &received) {
  const Members &members = place.members;
  if (needsNoCounts(place.lanes, place.call)) {
    const std::deque<Lane> &lanes = place.lanes.lanes();
    const auto slot = std::ranges::find(lanes, &place.lane, [](const Lane &lane) { return &lane; }) - lanes.begin();
    return peers[static_cast<size_t>(place.call.group)]->exchange(place.target(), slot, place.call);
  }
  const bool isEven = isWhole(place.call) && findAllToAll();
  Messages messages;
  MOERT_RETURN_IF_ERROR(makeMessages(place, isEven ? Messages::Own::Message : Messages::Own::Copied, messages));
  received = messages.receivedBytes();
  MOERT_RETURN_IF_ERROR(messages.pack(place.target()));
  MOERT_RETURN_IF_ERROR(isEven ? swapEven(messages, members.comm, members.stream)
                               : swapMessages(messages, members.member, members.comm, members.stream));
  MOERT_RETURN_IF_ERROR(messages.unpack(place.target()));
  return fillUnsent(members.stream, place.call, members.size, members.member);
}

/// Gathers. If the value is divided along an inner dimension, the parts are gathered one after the other and then moved
/// to their places.
Status Nccl::gather(const Place &place) {
  const Members &members = place.members;
  const View &in = sentOperand(place.call);
  Messages messages;
  MOERT_RETURN_IF_ERROR(makeMessages(place, Messages::Own::Message, messages));
  MOERT_RETURN_IF_ERROR(check(ncclAllGather(in.data, messages.received[0].data, static_cast<size_t>(in.bytes()),
                                            ncclUint8, members.comm, members.stream),
                              "ncclAllGather", members.comm));
  return messages.unpack(place.target());
}

Status Nccl::allReduce(const Call &call, const Members &members, int64_t &received) {
  int64_t count;
  MOERT_RETURN_IF_ERROR(reducedElements(call, count));
  received = summedBytes(call, members.size, members.member, count);
  const View &in = sentOperand(call);
  return check(ncclAllReduce(in.data, receivedOperand(call).data, static_cast<size_t>(count), typeOf(in.dtype), ncclSum,
                             members.comm, members.stream),
               "ncclAllReduce", members.comm);
}

/// Reduces and scatters. If the value is divided along an inner dimension, its parts are first moved so that they
/// follow each other.
Status Nccl::reduceScatter(const Place &place) {
  const Members &members = place.members;
  const View &in = sentOperand(place.call), &out = receivedOperand(place.call);
  const Cut cut(in, attributes::ReduceScatter::of(place.call).dim, members.size);
  char *parts = in.as<char>();
  if (cut.outer > 1) {
    MOERT_RETURN_IF_ERROR(reserve(place.lane, in.bytes(), /*isEven=*/true, parts));
    PieceCopies copies;
    for (int64_t part = 0; part < members.size; ++part)
      copies.add(
          {at(in, part * cut.run), parts + part * out.bytes(), cut.run, cut.outer, members.size * cut.run, cut.run});
    MOERT_RETURN_IF_ERROR(copies.launch(place.target()));
  }
  return check(ncclReduceScatter(parts, out.data, static_cast<size_t>(out.elements()), typeOf(in.dtype), ncclSum,
                                 members.comm, members.stream),
               "ncclReduceScatter", members.comm);
}

/// Compares replicas. Only verification does so, so the host may wait.
Status Nccl::compare(const Place &place, const Group &group) {
  const Members &members = place.members;
  View mine = sentOperand(place.call), first = mine;
  MOERT_RETURN_IF_ERROR(place.lane.context.workspace.reserve(mine.bytes(), first.data));
  {
    Use use(*this);
    MOERT_RETURN_IF_ERROR(use.status);
    MOERT_RETURN_IF_ERROR(check(ncclBroadcast(mine.data, first.data, static_cast<size_t>(mine.bytes()), ncclUint8, 0,
                                              members.comm, members.stream),
                                "ncclBroadcast", members.comm));
  }
  HostValues values;
  MOERT_RETURN_IF_ERROR(values.fetch(place.lane.context, mine));
  MOERT_RETURN_IF_ERROR(values.fetch(place.lane.context, first));
  return host::compareReplicas(mine, first, members.member, group, group.instanceOf(rank));
}

/// Sums the gradients of each shadowed expert at its owner, in the workspace, and adds the addend there.
Status Nccl::reduceExperts(const Place &place, int64_t &received) {
  const Call &call = place.call;
  const Members &members = place.members;
  using operands::ReduceExperts;
  const View &in = call.views[ReduceExperts::in], &out = call.views[ReduceExperts::out];
  const View &addend = call.views[ReduceExperts::addend];
  const int32_t *shadows = call.views[ReduceExperts::shadows].as<int32_t>();
  OwnedExperts own(call, members.member);
  char *sums = nullptr;
  MOERT_RETURN_IF_ERROR(place.lane.context.workspace.reserve(out.bytes(), sums));
  MOERT_RETURN_IF_ERROR(grouped(members.comm, [&]() -> Status {
    int64_t shadow = 0;
    for (int64_t e = 0; e < own.count * members.size; ++e)
      if (shadows[e])
        MOERT_RETURN_IF_ERROR(check(ncclReduce(at(in, shadow++ * own.bytes), sums + e % own.count * own.bytes,
                                               static_cast<size_t>(own.elements), typeOf(in.dtype), ncclSum,
                                               static_cast<int>(e / own.count), members.comm, members.stream),
                                    "ncclReduce", members.comm));
    return {};
  }));
  for (int64_t i = 0; i < own.count; ++i) {
    std::vector<const void *> sources;
    if (shadows[own.first + i]) {
      sources.push_back(sums + i * own.bytes);
      received += (members.size - 1) * own.bytes;
    }
    if (addend)
      sources.push_back(at(addend, i * own.bytes));
    // Without sources the sum is zero.
    MOERT_RETURN_IF_ERROR(sumSources(place.target(), sources, at(out, i * own.bytes), own.elements, out.dtype));
  }
  return {};
}

} // namespace moert::cuda
