//===- RankDevice.cpp - one rank of this process on a GPU -----------------===//

#include "cuda/RankDevice.h"
#include "core/Attributes.h"
#include "cuda/LocalExchange.h"

namespace moert::cuda {

Status RankCommunicator::issue(int64_t rank, int64_t stream, Call call) {
  const Group &group = groups[static_cast<size_t>(call.group)];
  MOERT_RETURN_IF_ERROR(checkCollective(call, group.size, group.memberOf(rank)));
  if (call.kind == Kind::AssumeReplicated && !verify)
    return {};
  return device.meet(stream, call);
}

RankDevice::RankDevice(std::span<const Program> programs, const std::vector<Group> &groups, int64_t rank,
                       std::unique_ptr<Lanes> owned)
    : CudaDevice(std::move(owned), {rank}), program(programs[programIndex(programs, rank)]), groups(groups), rank(rank),
      marks(static_cast<size_t>(program.events)), overlaps(program.streams.size(), marks.size()) {}

Status RankDevice::prepare(const Call &call) {
  MOERT_RETURN_IF_ERROR(CudaDevice::prepare(call));
  const int64_t stream = program.ops[static_cast<size_t>(call.op)].stream;
  if (!isCollective(call.kind))
    overlaps.noteCall(call.op, stream);
  else if (call.kind != Kind::AssumeReplicated && groups[static_cast<size_t>(call.group)].size > 1)
    overlaps.noteTransfer(stream);
  return {};
}

Status RankDevice::record(int64_t, int64_t event, int64_t stream) {
  Mark &mark = marks[static_cast<size_t>(event)];
  mark.isRecorded = true;
  overlaps.record(event, stream);
  return recordEvent(mark.event, laneOf(stream).context.stream);
}

Status RankDevice::wait(int64_t, int64_t event, int64_t stream) {
  const Mark &mark = marks[static_cast<size_t>(event)];
  if (!mark.isRecorded)
    return invalid("stream '", program.streams[static_cast<size_t>(stream)], "' waits for event ", event,
                   ", which was not recorded before in this step");
  overlaps.wait(event, stream);
  return awaitEvent(laneOf(stream).context.stream, mark.event);
}

Status RankDevice::readTimes(int64_t, int64_t stream, const View &times, std::optional<int64_t> &count) {
  HostCounts::Values values;
  MOERT_RETURN_IF_ERROR(laneOf(stream).context.readCounts(times, values));
  count = values->front();
  return {};
}

/// Fetches the counts that a transfer depends on to the host.
Status RankDevice::fetchValues(Lane &lane, Call &call, HostValues &values) {
  MOERT_RETURN_IF_ERROR(values.fetchOperands(lane.context, call));
  if (values.empty())
    return {};
  const Group &group = groups[static_cast<size_t>(call.group)];
  return checkExchangeValues(call, group.size, group.memberOf(rank));
}

Status RankDevice::meet(int64_t stream, Call call) {
  Lane &lane = laneOf(stream);
  const Group &group = groups[static_cast<size_t>(call.group)];
  int64_t received = 0;
  CallNames::Range named = lanes->range(lane, call.op);
  MOERT_RETURN_IF_ERROR(lanes->begin(lane, call));
  if (group.size == 1) {
    const Call *calls[] = {&call};
    Lane *on[] = {&lane};
    MOERT_RETURN_IF_ERROR(runLocally({*lanes, on, calls, {&received, 1}, group, group.instanceOf(rank)}));
    return lanes->end(lane, call, received);
  }
  HostValues values;
#if MOERT_HAS_NCCL
  if (!nccl->needsNoCounts(*lanes, call))
    MOERT_RETURN_IF_ERROR(fetchValues(lane, call, values));
  overlaps.noteTransfer(stream);
  MOERT_RETURN_IF_ERROR(nccl->run(*lanes, lane, call, group, received));
#endif
  MOERT_RETURN_IF_ERROR(noteLaunched(lane, call));
  return lanes->end(lane, call, received);
}

/// Numbers a collective. Members issue the collectives of a group, and the transfers of a channel, in the same order.
Wait RankDevice::waitOf(const Call &call) {
  const Group &group = groups[static_cast<size_t>(call.group)];
  int64_t instance = group.instanceOf(rank);
  Wait wait{callName(program, call) + " on group '" + group.name + "'",
            std::to_string(call.group) + "/" + std::to_string(instance),
            {}};
  if (isPointToPoint(call.kind)) {
    wait.ranks = {rank, group.rankOf(instance, peerOf(call))};
    if (call.kind == Kind::Receive)
      std::swap(wait.ranks[0], wait.ranks[1]);
    wait.key += "/" + std::to_string(wait.ranks[0]) + "/" + std::to_string(wait.ranks[1]);
  } else {
    for (int64_t member = 0; member < group.size; ++member)
      wait.ranks.push_back(group.rankOf(instance, member));
  }
  wait.key += "#" + std::to_string(issued[wait.key]++);
  return wait;
}

Status RankDevice::noteLaunched(Lane &lane, const Call &call) {
  if (lane.context.isCapturing)
    return {};
  std::lock_guard lock(stepMutex);
  if (launchedCount == launched.size())
    launched.emplace_back();
  launched[launchedCount].wait = waitOf(call);
  return recordEvent(launched[launchedCount++].done, lane.context.stream);
}

Status RankDevice::issueAll(const std::function<Status(int64_t)> &issue) {
  for (Mark &mark : marks)
    mark.isRecorded = false;
  overlaps.beginStep();
  {
    std::lock_guard lock(stepMutex);
    launchedCount = 0;
    issued.clear();
    issues = true;
  }
  Status status = issue(rank);
  std::lock_guard lock(stepMutex);
  issues = false;
  return status;
}

/// Lists the waits in the order of the launches.
std::vector<Wait> RankDevice::pendingWaits() {
  std::lock_guard lock(stepMutex);
  std::vector<Wait> waits;
  for (size_t i = 0; i < launchedCount; ++i)
    if (isPending(launched[i].done))
      waits.push_back(launched[i].wait);
  return waits;
}

bool RankDevice::isIssuing() {
  std::lock_guard lock(stepMutex);
  return issues;
}

} // namespace moert::cuda
