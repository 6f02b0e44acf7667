//===- PipelineEstimate.cpp - a step of a pipeline, from its parts --------===//
#include "PipelineEstimate.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::moe;

ArrayRef<PipelineUnit> PipelineOrders::get(const PipelineShape &shape, int64_t microBatches) {
  std::lock_guard lock(mutex);
  SmallVector<PipelineUnit> &order = orders[{shape.devices, shape.interleave, microBatches, shape.hasBackward}];
  if (order.empty())
    order = getPipelineOrder(shape.devices, shape.getStages(), microBatches, shape.hasBackward);
  return order;
}

namespace {
/// What a stage does for each micro-batch, and what it needs of a device's memory.
struct Stage {
  double forward = 0, backward = 0;           ///< seconds
  double receiveSeconds = 0;                  ///< from the stage before it, and as much back to it
  double kept = 0;                            ///< bytes after the forward, until the backward
  double forwardBytes = 0, backwardBytes = 0; ///< most bytes while it is at work, without those held
};

/// All stages of a device share these.
struct Device {
  double once = 0, held = 0, kept = 0, peak = 0;
  double free = 0; ///< when it has done its last unit
};

class PipelinePlay {
public:
  PipelinePlay(ArrayRef<const SampledPart *> parts, double tailPeak, const PipelineShape &shape, PipelineOrders &orders)
      : shape(shape), orders(orders), tailPeak(tailPeak), parts(parts) {}

  bool cut(function_ref<double(double)> getTransferSeconds);
  PipelineEstimate play(int64_t microBatches);

private:
  void addStage(ArrayRef<const SampledPart *> own, Device &device, function_ref<double(double)> getTransferSeconds);
  double getReady(const PipelineUnit &unit) const;
  double &getEnd(const PipelineUnit &unit) {
    return ends[(unit.microBatch * shape.getStages() + unit.stage) * 2 + unit.backward];
  }
  double getEnd(const PipelineUnit &unit) const { return const_cast<PipelinePlay *>(this)->getEnd(unit); }
  void use(Device &device, const Stage &stage, bool isBackward) const;

  const PipelineShape &shape;
  PipelineOrders &orders;
  double tailPeak;
  ArrayRef<const SampledPart *> parts;
  SmallVector<Stage> stages;
  SmallVector<Device> devices;
  std::vector<double> ends; ///< of units
};
} // namespace

void PipelinePlay::addStage(ArrayRef<const SampledPart *> own, Device &device,
                            function_ref<double(double)> getTransferSeconds) {
  Stage &stage = stages.emplace_back();
  if (stages.size() > 1)
    stage.receiveSeconds = getTransferSeconds(own.front()->receivedBytes);
  for (const SampledPart *part : own) {
    const PartCost &cost = part->cost;
    stage.forward += cost.forward;
    stage.backward += cost.backward;
    stage.kept += cost.kept;
    stage.forwardBytes = std::max(stage.forwardBytes, stage.kept + cost.forwardPeak);
    // The parts after this one have done their backward.
    stage.backwardBytes = std::max(stage.backwardBytes, stage.kept + cost.backwardPeak);
    device.once += cost.once;
    device.held += cost.held;
  }
}

bool PipelinePlay::cut(function_ref<double(double)> getTransferSeconds) {
  ProgramParts all;
  for (const SampledPart *part : parts) {
    all.seconds.push_back(part->cutSeconds);
    all.receive.push_back(part->receiveSeconds);
  }
  SmallVector<size_t> first = cutIntoStages(all, shape.getStages());
  if (first.empty())
    return false;
  first.push_back(parts.size());
  devices.resize(shape.devices);
  for (int64_t stage = 0; stage < shape.getStages(); ++stage)
    addStage(parts.slice(first[stage], first[stage + 1] - first[stage]), devices[stage % shape.devices],
             getTransferSeconds);
  return true;
}

double PipelinePlay::getReady(const PipelineUnit &unit) const {
  if (!unit.backward)
    return unit.stage == 0 ? 0 : getEnd({unit.microBatch, unit.stage - 1, false}) + stages[unit.stage].receiveSeconds;
  if (unit.stage == shape.getStages() - 1)
    return getEnd({unit.microBatch, unit.stage, false});
  return getEnd({unit.microBatch, unit.stage + 1, true}) + stages[unit.stage + 1].receiveSeconds;
}

void PipelinePlay::use(Device &device, const Stage &stage, bool isBackward) const {
  if (isBackward)
    device.kept -= stage.kept;
  double bytes = isBackward ? stage.backwardBytes : stage.forwardBytes;
  device.peak = std::max(device.peak, device.kept + bytes);
  if (!isBackward && shape.hasBackward)
    device.kept += stage.kept;
}

PipelineEstimate PipelinePlay::play(int64_t microBatches) {
  ends.assign(shape.getStages() * microBatches * 2, 0);
  for (Device &device : devices)
    device.free = device.kept = device.peak = 0;
  for (const PipelineUnit &unit : orders.get(shape, microBatches)) {
    const Stage &stage = stages[unit.stage];
    Device &device = devices[unit.stage % shape.devices];
    device.free = getEnd(unit) =
        std::max(device.free, getReady(unit)) + (unit.backward ? stage.backward : stage.forward);
    use(device, stage, unit.backward);
  }
  PipelineEstimate estimate;
  for (const Device &device : devices) {
    estimate.seconds = std::max(estimate.seconds, device.free + device.once);
    estimate.bytes = std::max(estimate.bytes, device.held + std::max(device.peak, tailPeak));
  }
  return estimate;
}

std::optional<PipelineEstimate> mlir::moe::estimatePipeline(const ModelCost &cost, ArrayRef<size_t> kindOf,
                                                            const PipelineShape &shape, PipelineOrders &orders,
                                                            function_ref<double(double)> getTransferSeconds) {
  SmallVector<const SampledPart *> parts;
  auto add = [&](ArrayRef<SampledPart> some) {
    for (const SampledPart &part : some)
      parts.push_back(&part);
  };
  add(cost.begin);
  for (size_t kind : kindOf)
    add(cost.kindParts[kind]);
  add(cost.end);
  PipelinePlay pipeline(parts, cost.tailPeak, shape, orders);
  if (!pipeline.cut(getTransferSeconds))
    return std::nullopt;
  // Once the pipeline is full, each round of micro-batches takes as long as the one before.
  int64_t round = shape.interleave > 1 ? shape.devices : 1,
          filled = shape.interleave > 1 ? 3 * round : shape.devices + 4;
  if (shape.microBatches <= filled + round)
    return pipeline.play(shape.microBatches);
  PipelineEstimate few = pipeline.play(filled), more = pipeline.play(filled + round);
  more.seconds += (more.seconds - few.seconds) / static_cast<double>(round) *
                  static_cast<double>(shape.microBatches - filled - round);
  return more;
}
