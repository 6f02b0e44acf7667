//===- Nccl.cpp - collectives between processes ---------------------------===//

#include "cuda/Nccl.h"
#include "core/Attributes.h"
#include "cuda/Collective.h"
#include "cuda/Copies.h"
#include "host/Collectives.h"

#include <cstring>

namespace moert::cuda {
namespace {

Status check(ncclResult_t result, const char *what, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess || result == ncclInProgress)
    return {};
  std::string last = ncclGetLastError(comm);
  return Status::error(MOERT_ERROR_INTERNAL, std::string(what) + ": " + ncclGetErrorString(result) +
                                                 (last.empty() ? "" : " (" + last + ")") +
                                                 "; NCCL_DEBUG=INFO says more");
}

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

/// Calls `body`, all of whose transfers begin together.
template <class Body> Status grouped(ncclComm_t comm, Body body) {
  MOERT_RETURN_IF_ERROR(check(ncclGroupStart(), "ncclGroupStart", comm));
  Status status = body();
  Status ended = check(ncclGroupEnd(), "ncclGroupEnd", comm);
  return status.ok() ? ended : status;
}

/// An id for each of `count` communicators, made by process 0.
Status makeIds(size_t count, net::Star &processes, std::vector<ncclUniqueId> &ids) {
  std::vector<char> bytes(count * sizeof(ncclUniqueId));
  ids.resize(count);
  if (processes.index() == 0) {
    for (ncclUniqueId &id : ids)
      MOERT_RETURN_IF_ERROR(check(ncclGetUniqueId(&id), "ncclGetUniqueId"));
    std::memcpy(bytes.data(), ids.data(), bytes.size());
  }
  MOERT_RETURN_IF_ERROR(processes.broadcast(bytes));
  if (bytes.size() != count * sizeof(ncclUniqueId))
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                         "the processes do not agree on the communicators: do all run the same plan?");
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return {};
}

} // namespace

Status Nccl::create(const std::vector<Group> &groups, const std::vector<Channel> &channels, net::Star &processes,
                    std::unique_ptr<Nccl> &nccl) {
  std::unique_ptr<Nccl> made(new Nccl());
  made->rank = processes.index();
  MOERT_RETURN_IF_ERROR(made->createAll(groups, channels, processes));
  nccl = std::move(made);
  return {};
}

Status Nccl::createAll(const std::vector<Group> &groups, const std::vector<Channel> &channels, net::Star &processes) {
  std::vector<ncclUniqueId> ids;
  MOERT_RETURN_IF_ERROR(makeIds(1, processes, ids));
  MOERT_RETURN_IF_ERROR(
      check(ncclCommInitRank(&world, static_cast<int>(processes.count()), ids[0], static_cast<int>(rank)),
            "ncclCommInitRank"));
  comms.resize(groups.size());
  for (size_t i = 0; i < groups.size(); ++i)
    if (groups[i].size > 1)
      MOERT_RETURN_IF_ERROR(check(ncclCommSplit(world, static_cast<int>(groups[i].instanceOf(rank)),
                                                static_cast<int>(groups[i].memberOf(rank)), &comms[i], nullptr),
                                  "ncclCommSplit", world));
  return createChannels(channels, processes);
}

/// In the order in which all have them, so that nobody waits in a circle.
Status Nccl::createChannels(const std::vector<Channel> &channels, net::Star &processes) {
  std::vector<ncclUniqueId> ids;
  MOERT_RETURN_IF_ERROR(makeIds(channels.size(), processes, ids));
  for (size_t i = 0; i < channels.size(); ++i) {
    int member = channels[i][0] == rank ? 0 : channels[i][1] == rank ? 1 : -1;
    if (member >= 0)
      MOERT_RETURN_IF_ERROR(check(ncclCommInitRank(&pairs[channels[i]], 2, ids[i], member), "ncclCommInitRank"));
  }
  return {};
}

Nccl::~Nccl() {
  if (aborted)
    return;
  for (auto &[channel, comm] : pairs)
    ncclCommDestroy(comm);
  for (ncclComm_t comm : comms)
    if (comm)
      ncclCommDestroy(comm);
  if (world)
    ncclCommDestroy(world);
}

void Nccl::abort() {
  if (aborted.exchange(true))
    return;
  for (auto &[channel, comm] : pairs)
    ncclCommAbort(comm);
  for (ncclComm_t comm : comms)
    if (comm)
      ncclCommAbort(comm);
  if (world)
    ncclCommAbort(world);
}

Status Nccl::failure() {
  auto failureOf = [](ncclComm_t comm) {
    ncclResult_t result = ncclSuccess;
    Status status = check(ncclCommGetAsyncError(comm, &result), "ncclCommGetAsyncError", comm);
    return status.ok() ? check(result, "a transfer failed", comm) : status;
  };
  if (aborted)
    return {};
  for (ncclComm_t comm : comms)
    if (comm)
      MOERT_RETURN_IF_ERROR(failureOf(comm));
  for (auto &[channel, comm] : pairs)
    MOERT_RETURN_IF_ERROR(failureOf(comm));
  return {};
}

Status Nccl::run(Lanes &lanes, Lane &lane, const Call &call, const Group &group, int64_t &received) {
  Members members{comms[static_cast<size_t>(call.group)], lane.context.stream, group.size, group.memberOf(rank)};
  received = 0;
  if (isPointToPoint(call.kind)) {
    bool receives = call.kind == Kind::Receive;
    int64_t other = group.rankOf(group.instanceOf(rank), peerOf(call));
    auto pair = pairs.find(receives ? Channel{other, rank} : Channel{rank, other});
    if (pair == pairs.end())
      return Status::error(MOERT_ERROR_INTERNAL, "the channel was not found before");
    return exchange(call, {pair->second, lane.context.stream, 2, receives}, received);
  }
  const View &in = sentOperand(call);
  if (call.kind == Kind::AllReduce || call.kind == Kind::ReduceScatter || call.kind == Kind::Reduce)
    received = summedBytes(call, members.size, members.member, in.elements());
  switch (call.kind) {
  case Kind::AllGather:
    received = (members.size - 1) * in.bytes();
    return gather(call, members);
  case Kind::AllReduce:
    return allReduce(call, members);
  case Kind::ReduceScatter:
    return reduceScatter(call, members);
  case Kind::Broadcast:
    return broadcast(call, members, received);
  case Kind::Reduce:
    return reduce(call, members);
  case Kind::ReduceExperts:
    return reduceExperts(lanes, lane, call, members, received);
  case Kind::AssumeReplicated:
    received = members.member ? in.bytes() : 0;
    return compare(lane, call, group, members);
  default:
    return exchange(call, members, received);
  }
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

/// Messages between two members each, all at once.
Status Nccl::exchange(const Call &call, const Members &members, int64_t &received) {
  std::vector<Pieces> arriving;
  piecesReceived(call, members.size, members.member, arriving);
  const View &in = sentOperand(call), &out = receivedOperand(call);
  Status status = grouped(members.comm, [&]() -> Status {
    Pieces leaving;
    for (int64_t i = 1; i < members.size; ++i) {
      // Not all to the same one first.
      int64_t to = (members.member + i) % members.size, from = (members.member + members.size - i) % members.size;
      piecesSent(call, members.size, members.member, to, leaving);
      for (const Piece &piece : leaving)
        if (piece.bytes > 0)
          MOERT_RETURN_IF_ERROR(check(ncclSend(at(in, piece.offset), static_cast<size_t>(piece.bytes), ncclUint8,
                                               static_cast<int>(to), members.comm, members.stream),
                                      "ncclSend", members.comm));
      for (const Piece &piece : arriving[static_cast<size_t>(from)])
        if (piece.bytes > 0) {
          received += piece.bytes;
          MOERT_RETURN_IF_ERROR(check(ncclRecv(at(out, piece.offset), static_cast<size_t>(piece.bytes), ncclUint8,
                                               static_cast<int>(from), members.comm, members.stream),
                                      "ncclRecv", members.comm));
        }
    }
    return {};
  });
  if (!status.ok())
    return status;
  Pieces own;
  piecesSent(call, members.size, members.member, members.member, own);
  int64_t kept = 0;
  Side to{call, members.member, arriving[static_cast<size_t>(members.member)]};
  MOERT_RETURN_IF_ERROR(copyPieces(members.stream, {call, members.member, own}, to, kept));
  return fillUnsent(members.stream, call, members.size, members.member);
}

/// Run by run where the value is cut along an inner dimension; NCCL makes one kernel of them.
Status Nccl::gather(const Call &call, const Members &members) {
  const View &in = sentOperand(call), &out = receivedOperand(call);
  Cut cut(out, attributes::AllGather::of(call).dim, members.size);
  return grouped(members.comm, [&]() -> Status {
    for (int64_t o = 0; o < cut.outer; ++o)
      MOERT_RETURN_IF_ERROR(check(ncclAllGather(at(in, o * cut.run), at(out, o * members.size * cut.run),
                                                static_cast<size_t>(cut.run), ncclUint8, members.comm, members.stream),
                                  "ncclAllGather", members.comm));
    return {};
  });
}

Status Nccl::allReduce(const Call &call, const Members &members) {
  int64_t count;
  MOERT_RETURN_IF_ERROR(reducedElements(call, count));
  const View &in = sentOperand(call);
  return check(ncclAllReduce(in.data, receivedOperand(call).data, static_cast<size_t>(count), typeOf(in.dtype), ncclSum,
                             members.comm, members.stream),
               "ncclAllReduce", members.comm);
}

Status Nccl::reduceScatter(const Call &call, const Members &members) {
  const View &in = sentOperand(call), &out = receivedOperand(call);
  Cut cut(in, attributes::ReduceScatter::of(call).dim, members.size);
  auto count = static_cast<size_t>(cut.run) / dtypeSize(in.dtype);
  return grouped(members.comm, [&]() -> Status {
    for (int64_t o = 0; o < cut.outer; ++o)
      MOERT_RETURN_IF_ERROR(check(ncclReduceScatter(at(in, o * members.size * cut.run), at(out, o * cut.run), count,
                                                    typeOf(in.dtype), ncclSum, members.comm, members.stream),
                                  "ncclReduceScatter", members.comm));
    return {};
  });
}

/// Under verification only, so that the host may wait and compare.
Status Nccl::compare(Lane &lane, const Call &call, const Group &group, const Members &members) {
  View mine = sentOperand(call), first = mine;
  MOERT_RETURN_IF_ERROR(lane.context.workspace.reserve(mine.bytes(), first.data));
  MOERT_RETURN_IF_ERROR(check(ncclBroadcast(mine.data, first.data, static_cast<size_t>(mine.bytes()), ncclUint8, 0,
                                            members.comm, members.stream),
                              "ncclBroadcast", members.comm));
  HostValues values;
  MOERT_RETURN_IF_ERROR(values.fetch(lane.context, mine));
  MOERT_RETURN_IF_ERROR(values.fetch(lane.context, first));
  return host::compareReplicas(mine, first, members.member, group, group.instanceOf(rank));
}

/// Each shadowed expert's places are summed at its owner, into the workspace: there the addend comes to it.
Status Nccl::reduceExperts(Lanes &lanes, Lane &lane, const Call &call, const Members &members, int64_t &received) {
  using operands::ReduceExperts;
  const View &in = call.views[ReduceExperts::in], &out = call.views[ReduceExperts::out];
  const View &addend = call.views[ReduceExperts::addend];
  const int32_t *shadows = call.views[ReduceExperts::shadows].as<int32_t>();
  OwnedExperts own(call, members.member);
  char *sums;
  MOERT_RETURN_IF_ERROR(lane.context.workspace.reserve(out.bytes(), sums));
  MOERT_RETURN_IF_ERROR(grouped(members.comm, [&]() -> Status {
    int64_t place = 0;
    for (int64_t e = 0; e < own.count * members.size; ++e)
      if (shadows[e])
        MOERT_RETURN_IF_ERROR(check(ncclReduce(at(in, place++ * own.bytes), sums + e % own.count * own.bytes,
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
    // Of no sources the sum is zero.
    MOERT_RETURN_IF_ERROR(
        sumSources(lanes.target(lane, call), sources, at(out, i * own.bytes), own.elements, out.dtype));
  }
  return {};
}

} // namespace moert::cuda
