//===- Lanes.cpp - the streams of ranks on one device ---------------------===//

#include "cuda/Lanes.h"
#include "cuda/CudaKernels.h"

#include <algorithm>
#include <iostream>
#include <mutex>
#include <ranges>

namespace moert::cuda {

/// A fault's op has the place of its rank above these bits.
constexpr int kOpBits = 20;

/// Prints once which calls run slower than on the devices that CUTLASS and cuDNN know.
static void noteOwnKernels(const DeviceContext &device) {
  static std::once_flag flag;
  if (const std::string text = describeOwnKernels(device); !text.empty())
    std::call_once(flag, [&] { std::cerr << "moert: note: " + text + "\n"; });
}

/// Whether a stream has transfers, and computes nothing.
static bool isForTransfers(const Program &program, size_t stream, const std::vector<Group> &groups) {
  auto isHere = [&](const Op &op) { return op.stream == static_cast<int64_t>(stream); };
  auto isTransfer = [&](const Op &op) { return op.group >= 0 && groups[static_cast<size_t>(op.group)].size > 1; };
  auto here = program.ops | std::views::filter(isHere);
  return std::ranges::any_of(here, isTransfer) && std::ranges::none_of(here, [](const Op &op) { return op.flops > 0; });
}

Status Lanes::create(std::span<const Program> programs, const std::vector<Group> &groups,
                     const std::vector<int64_t> &ranks, int64_t world, const DeviceOptions &options, Lanes &lanes) {
  MOERT_RETURN_IF_ERROR(DeviceContext::create(options, lanes.context));
  if (std::ranges::find(ranks, 0) != ranks.end())
    noteOwnKernels(lanes.context);
  MOERT_RETURN_IF_ERROR(createStream(lanes.clock));
  MOERT_RETURN_IF_ERROR(createEvent(true, lanes.stepBegin));
  lanes.programs = programs;
  lanes.names = CallNames(programs, groups);
  lanes.local = ranks;
  lanes.first.resize(static_cast<size_t>(world));
  if (ranks.size() >= size_t(1) << (31 - kOpBits))
    return Status::error(MOERT_ERROR_UNSUPPORTED, "too many ranks for one GPU: ", ranks.size());
  for (size_t place = 0; place < ranks.size(); ++place) {
    int64_t rank = ranks[place];
    lanes.first[static_cast<size_t>(rank)] = lanes.all.size();
    lanes.counts.emplace_back();
    lanes.tables.emplace_back();
    lanes.groups.emplace_back();
    const Program &program = programs[programIndex(programs, rank)];
    for (size_t stream = 0; stream < program.streams.size(); ++stream) {
      Lane &lane = lanes.all.emplace_back();
      lane.place = static_cast<int32_t>(place);
      const bool isUrgent = isForTransfers(program, stream, groups);
      MOERT_RETURN_IF_ERROR(createStream(lane.stream, isUrgent ? Priority::Urgent : Priority::Usual));
      lane.context.stream = lane.stream.get();
      lane.context.counts = &lanes.counts[place];
      lane.context.tables = &lanes.tables[place];
      lane.context.groups = &lanes.groups[place];
    }
  }
  return {};
}

Status Lanes::reserve() {
  constexpr int64_t kReserved = int64_t(8) << 20;
  void *data = nullptr;
  for (Lane &lane : all) {
    MOERT_RETURN_IF_ERROR(lane.context.workspace.reserve(kReserved, data));
    MOERT_RETURN_IF_ERROR(lane.context.staging.reserve(1, data));
    MOERT_RETURN_IF_ERROR(lane.context.operands.reserveAll());
  }
  return {};
}

CallNames::Range Lanes::range(const Lane &lane, int32_t op) const {
  return names.range(programIndex(programs, local[static_cast<size_t>(lane.place)]), op);
}

Target Lanes::target(Lane &lane, const Call &call) {
  return {context, lane.context, call.kind, lane.place << kOpBits | call.op};
}

Status Lanes::run(Lane &lane, const Call &call) {
  CallNames::Range named = range(lane, call.op);
  MOERT_RETURN_IF_ERROR(begin(lane, call));
  CudaKernels kernels(target(lane, call));
  MOERT_RETURN_IF_ERROR(launchKernel(kernels, call));
  return end(lane, call);
}

Status Lanes::begin(Lane &lane, const Call &call) {
  MOERT_RETURN_IF_ERROR(counts[static_cast<size_t>(lane.place)].note(call, lane.context.stream));
  MOERT_RETURN_IF_ERROR(tables[static_cast<size_t>(lane.place)].note(call, lane.context.stream));
  if (!isTimed)
    return {};
  if (lane.used == lane.timed.size()) {
    Lane::Timed &timed = lane.timed.emplace_back();
    MOERT_RETURN_IF_ERROR(createEvent(true, timed.begin));
    MOERT_RETURN_IF_ERROR(createEvent(true, timed.end));
  }
  Lane::Timed &timed = lane.timed[lane.used];
  timed.op = call.op;
  return recordEvent(timed.begin, lane.context.stream);
}

Status Lanes::end(Lane &lane, const Call &call, int64_t received) {
  if (!lane.context.isCapturing)
    MOERT_RETURN_IF_ERROR(counts[static_cast<size_t>(lane.place)].noteEnqueued(call, lane.context.stream));
  if (!isTimed)
    return {};
  Lane::Timed &timed = lane.timed[lane.used++];
  timed.received = received;
  return recordEvent(timed.end, lane.context.stream);
}

Status Lanes::forgetStep() {
  for (HostCounts &known : counts)
    MOERT_RETURN_IF_ERROR(known.beginStep());
  for (RoutingTables &known : tables)
    known.clear();
  for (RaggedGroups &known : groups)
    known.beginStep();
  for (Lane &lane : all) {
    lane.used = 0;
    lane.times.clear();
  }
  return {};
}

Status Lanes::beginStep() {
  MOERT_RETURN_IF_ERROR(forgetStep());
  // Copies of the host may still run on the default stream, and lanes do not wait for that stream.
  MOERT_RETURN_IF_ERROR(check(cudaStreamSynchronize(nullptr), "cannot wait for what was written"));
  if (!isTimed)
    return {};
  MOERT_RETURN_IF_ERROR(recordEvent(stepBegin, clock.get()));
  return check(cudaEventSynchronize(stepBegin.get()), "cannot wait for an event");
}

Status Lanes::beginStepAfter(cudaStream_t stream) {
  MOERT_RETURN_IF_ERROR(forgetStep());
  MOERT_RETURN_IF_ERROR(
      check(cudaEventRecord(stepBegin.get(), stream), "cannot record an event on the caller's stream"));
  for (Lane &lane : all)
    MOERT_RETURN_IF_ERROR(
        check(cudaStreamWaitEvent(lane.context.stream, stepBegin.get()), "cannot wait for the caller's stream"));
  return {};
}

Status Lanes::joinTo(cudaStream_t stream) {
  for (Lane &lane : all)
    MOERT_RETURN_IF_ERROR(follow(stream, lane.context.stream));
  for (HostCounts &known : counts)
    MOERT_RETURN_IF_ERROR(known.joinTo(stream));
  return {};
}

Status Lanes::endStep() {
  MOERT_RETURN_IF_ERROR(takeFault());
  for (Lane &lane : all)
    for (size_t i = 0; i < lane.used; ++i) {
      const Lane::Timed &timed = lane.timed[i];
      float begin = 0, end = 0;
      MOERT_RETURN_IF_ERROR(
          check(cudaEventElapsedTime(&begin, stepBegin.get(), timed.begin.get()), "cannot read an event"));
      MOERT_RETURN_IF_ERROR(
          check(cudaEventElapsedTime(&end, stepBegin.get(), timed.end.get()), "cannot read an event"));
      lane.times.push_back(
          {timed.op, -1, static_cast<int64_t>(begin * 1e6), static_cast<int64_t>(end * 1e6), timed.received});
    }
  return {};
}

Status Lanes::takeFault() {
  int32_t place = 0;
  Status status = context.faults.take(place);
  if (status.ok())
    return status;
  int64_t rank = local[static_cast<size_t>(place >> kOpBits)], op = place & ((1 << kOpBits) - 1);
  const std::vector<Op> &ops = programs[programIndex(programs, rank)].ops;
  std::string label = op < static_cast<int64_t>(ops.size()) ? ops[static_cast<size_t>(op)].label : "";
  status.message = "rank " + std::to_string(rank) + ", op " + std::to_string(op) +
                   (label.empty() ? "" : " '" + label + "'") + ": " + status.message;
  return status;
}

void Lanes::prepareForGraph() {
  for (Lane &lane : all)
    lane.context.isForGraph = true;
}

void Lanes::setCapturing(bool isCapturing) {
  for (Lane &lane : all)
    lane.context.isCapturing = isCapturing;
}

} // namespace moert::cuda
