//===- PipelineEstimate.cpp - a step of a pipeline, from its parts --------===//
#include "PipelineEstimate.h"

#include "moe/Scheduling/StageCut.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mlir::moe;

bool mlir::moe::isEstimated(PipelineOrder order) {
  return order == PipelineOrder::OneForwardOneBackward || order == PipelineOrder::Overlapped1F1B ||
         order == PipelineOrder::DualPipeV;
}

const PipelineSchedule &PipelineOrders::get(const PipelineShape &shape) {
  std::lock_guard lock(mutex);
  PipelineSchedule &schedule =
      schedules[{shape.devices, shape.stages, shape.microBatches, shape.hasBackward, shape.order}];
  if (schedule.windows.empty())
    schedule = getPipelineSchedule(PipelineProblem(shape));
  return schedule;
}

static bool isBackward(const PipelineUnit &unit) { return unit.work != StageWork::forward; }

namespace {
/// The work of a stage for each micro-batch, and its memory on the device.
struct StageCost {
  double forward = 0, backward = 0;                       ///< seconds
  double window = 0, forwardIssue = 0, backwardIssue = 0; ///< seconds, as in PartCost
  /// Seconds of computation among these, and seconds of all exchanges.
  double forwardCompute = 0, backwardCompute = 0, forwardExchange = 0, backwardExchange = 0;
  double receiveSeconds = 0;                  ///< transfer from the stage before it, and also back to it
  double kept = 0;                            ///< bytes after the forward, until the backward
  double gradients = 0;                       ///< bytes from the first backward on
  double forwardBytes = 0, backwardBytes = 0; ///< most bytes while it is at work, with those kept
  double forwardPeak = 0;                     ///< most bytes of a part's forward, without those kept
  /// The same in the first backward, with the gradients that it makes.
  double firstBackwardBytes = 0;
};

/// Figures that all stages of a device share.
struct Device {
  double once = 0, held = 0, tail = 0; ///< seconds, bytes, bytes
  double gradients = 0, kept = 0, peak = 0;
  double free = 0; ///< end of its last unit
};

class PipelinePlay {
public:
  /// `mayBegin` are the parts in front of which cutEvenly() may cut.
  PipelinePlay(ArrayRef<const PartCost *> parts, ArrayRef<size_t> mayBegin, double mostReceived,
               const PipelineShape &shape, PipelineOrders &orders)
      : shape(shape), orders(orders), mostReceived(mostReceived), parts(parts), mayBegin(mayBegin) {}

  bool cut(ArrayRef<int64_t> boundaries, function_ref<double(double)> getTransferSeconds);
  PipelineEstimate play(int64_t microBatches);

private:
  bool cutEvenly();
  void addStage(ArrayRef<const PartCost *> own, Device &device, function_ref<double(double)> getTransferSeconds);
  double getReady(const PipelineUnit &unit) const;
  double getSeconds(const PipelineWindow &window) const;
  size_t getIndex(const PipelineUnit &unit) const {
    return (unit.microBatch * shape.stages + unit.stage) * 2 + isBackward(unit);
  }
  double getEnd(const PipelineUnit &unit) const { return ends[getIndex(unit)]; }
  /// With the bytes that the other unit of its window needs (`besides`).
  void use(Device &device, const PipelineUnit &unit, double besides) const;

  const PipelineShape &shape;
  PipelineOrders &orders;
  double mostReceived; ///< ModelCost::mostReceived
  ArrayRef<const PartCost *> parts;
  ArrayRef<size_t> mayBegin;
  SmallVector<StageCost> stages;
  SmallVector<Device> devices;
  SmallVector<size_t, 6> first; ///< part of each stage, and the number of parts
  std::vector<double> ends;     ///< ends of units
};
} // namespace

void PipelinePlay::addStage(ArrayRef<const PartCost *> own, Device &device,
                            function_ref<double(double)> getTransferSeconds) {
  StageCost &stage = stages.emplace_back();
  if (stages.size() > 1)
    stage.receiveSeconds = getTransferSeconds(own.front()->received);
  for (const PartCost *part : own) {
    stage.forward += part->forward;
    stage.backward += part->backward;
    stage.window += part->window;
    stage.forwardIssue += part->forwardIssue;
    stage.backwardIssue += part->backwardIssue;
    stage.forwardCompute += part->forward - part->forwardExposed;
    stage.backwardCompute += part->backward - part->backwardExposed;
    stage.forwardExchange += part->forwardExchange;
    stage.backwardExchange += part->backwardExchange;
    stage.forwardPeak = std::max(stage.forwardPeak, part->forwardPeak);
    stage.kept += part->kept;
    stage.forwardBytes = std::max(stage.forwardBytes, stage.kept + part->forwardPeak);
    // The parts after this one have done their backward.
    stage.backwardBytes = std::max(stage.backwardBytes, stage.kept + part->backwardPeak);
    device.once += part->once;
    device.held += part->held;
    device.tail += part->tail;
  }
  double kept = stage.kept;
  for (const PartCost *part : llvm::reverse(own)) {
    stage.gradients += part->gradients;
    stage.firstBackwardBytes = std::max(stage.firstBackwardBytes, kept + stage.gradients + part->backwardPeak);
    kept -= part->kept;
  }
}

bool PipelinePlay::cutEvenly() {
  // Parts that may begin a stage, and the number of parts.
  SmallVector<size_t> begins = {0};
  for (size_t part : mayBegin)
    if (parts[part]->received <= mostReceived)
      begins.push_back(part);
  begins.push_back(parts.size());
  StageCutProblem problem{{}, {}, shape.stages};
  for (auto [begin, end] : llvm::zip(begins, ArrayRef(begins).drop_front())) {
    double seconds = 0;
    for (const PartCost *part : parts.slice(begin, end - begin))
      seconds += part->forward + part->backward;
    problem.seconds.push_back(seconds);
    problem.receive.push_back(0);
  }
  if (!problem.check().empty())
    return false;
  first = llvm::map_to_vector<6>(cutIntoStages(problem), [&](size_t part) { return begins[part]; });
  first.push_back(parts.size());
  return true;
}

bool PipelinePlay::cut(ArrayRef<int64_t> boundaries, function_ref<double(double)> getTransferSeconds) {
  if (boundaries.empty() ? !cutEvenly()
                         : static_cast<int64_t>(boundaries.size()) != shape.stages + 1 ||
                               boundaries.back() != static_cast<int64_t>(parts.size()))
    return false;
  if (!boundaries.empty())
    first.assign(boundaries.begin(), boundaries.end());
  devices.resize(shape.devices);
  for (auto [stage, device] : llvm::enumerate(getStageDevices(shape)))
    addStage(parts.slice(first[stage], first[stage + 1] - first[stage]), devices[device], getTransferSeconds);
  return true;
}

double PipelinePlay::getReady(const PipelineUnit &unit) const {
  if (!isBackward(unit))
    return unit.stage == 0
               ? 0
               : getEnd({unit.microBatch, unit.stage - 1, StageWork::forward}) + stages[unit.stage].receiveSeconds;
  if (unit.stage == shape.stages - 1)
    return getEnd({unit.microBatch, unit.stage, StageWork::forward});
  return getEnd({unit.microBatch, unit.stage + 1, StageWork::backward}) + stages[unit.stage + 1].receiveSeconds;
}

double PipelinePlay::getSeconds(const PipelineWindow &window) const {
  double alone = 0, compute = 0, exchange = 0, longest = 0, together = 0, issue = 0;
  for (const PipelineUnit &unit : window) {
    const StageCost &stage = stages[unit.stage];
    double seconds = isBackward(unit) ? stage.backward : stage.forward;
    alone += seconds;
    longest = std::max(longest, seconds);
    // The window of a stage has its forward and its backward.
    together += stage.window / 2;
    issue += isBackward(unit) ? stage.backwardIssue : stage.forwardIssue;
    compute += isBackward(unit) ? stage.backwardCompute : stage.forwardCompute;
    exchange += isBackward(unit) ? stage.backwardExchange : stage.forwardExchange;
  }
  if (window.size() > 1 && together > 0)
    return std::max({together, longest, issue});
  return window.size() == 1 ? alone : std::min(alone, std::max({compute, exchange, longest}));
}

void PipelinePlay::use(Device &device, const PipelineUnit &unit, double besides) const {
  const StageCost &stage = stages[unit.stage];
  if (!isBackward(unit)) {
    device.peak = std::max(device.peak, device.kept + device.gradients + stage.forwardBytes);
    device.kept += shape.hasBackward ? stage.kept : 0;
    return;
  }
  device.kept -= stage.kept;
  double bytes = unit.microBatch == 0 ? stage.firstBackwardBytes : stage.backwardBytes;
  device.peak = std::max(device.peak, device.kept + device.gradients + bytes + besides);
  device.gradients += unit.microBatch == 0 ? stage.gradients : 0;
}

PipelineEstimate PipelinePlay::play(int64_t microBatches) {
  ends.assign(shape.stages * microBatches * 2, 0);
  for (Device &device : devices)
    device.free = device.kept = device.gradients = device.peak = 0;
  PipelineShape played = shape;
  played.microBatches = microBatches;
  const PipelineSchedule &schedule = orders.get(played);
  for (const PipelineWindow &window : schedule.windows) {
    // The backward includes weight gradients.
    if (window.front().work == StageWork::weights)
      continue;
    Device &device = devices[schedule.devices[window.front().stage]];
    for (const PipelineUnit &unit : window)
      device.free = std::max(device.free, getReady(unit));
    device.free += getSeconds(window);
    // Units of a window advance at one pace, so that the backward gives back what the forward takes.
    for (const PipelineUnit &unit : llvm::reverse(window)) {
      ends[getIndex(unit)] = device.free;
      use(device, unit, window.size() == 1 ? 0 : stages[window.front().stage].forwardPeak);
    }
  }
  PipelineEstimate estimate;
  if (shape.devices > 1)
    estimate.stageBoundaries.assign(first.begin(), first.end());
  for (const Device &device : devices) {
    estimate.seconds = std::max(estimate.seconds, device.free + device.once);
    estimate.bytes = std::max(estimate.bytes, device.held + std::max(device.peak, device.tail));
  }
  return estimate;
}

std::optional<PipelineEstimate> mlir::moe::estimatePipeline(const ModelCost &cost, ArrayRef<size_t> kindOf,
                                                            const PipelineShape &shape, const StageCuts &cuts,
                                                            PipelineOrders &orders,
                                                            function_ref<double(double)> getTransferSeconds) {
  SmallVector<const PartCost *> parts;
  SmallVector<size_t> blocks;
  auto add = [&](ArrayRef<PartCost> some) { llvm::append_range(parts, llvm::make_pointer_range(some)); };
  add(cost.begin);
  for (size_t kind : kindOf) {
    blocks.push_back(parts.size());
    add(cost.kindParts[kind]);
  }
  add(cost.end);
  auto others = llvm::drop_begin(llvm::seq<size_t>(parts.size()));
  // The first block is in the stage of what is before it.
  SmallVector<size_t> begins =
      cuts.wholeBlocks ? SmallVector<size_t>(llvm::drop_begin(blocks)) : llvm::to_vector(others);
  PipelinePlay pipeline(parts, begins, cost.mostReceived, shape, orders);
  if (!pipeline.cut(cuts.boundaries, getTransferSeconds))
    return std::nullopt;
  // Once the pipeline is full, each round of micro-batches takes as long as the one before.
  bool isInterleaved = shape.getStagesPerDevice() > 1;
  int64_t round = isInterleaved ? shape.devices : 1,
          filled = isInterleaved ? 3 * round : (isOverlapped(shape.order) ? 2 : 1) * shape.devices + 4;
  if (shape.microBatches <= filled + round)
    return pipeline.play(shape.microBatches);
  PipelineEstimate few = pipeline.play(filled), more = pipeline.play(filled + round);
  more.seconds += (more.seconds - few.seconds) / static_cast<double>(round) *
                  static_cast<double>(shape.microBatches - filled - round);
  return more;
}
