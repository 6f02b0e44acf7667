//===- PipelineClock.h - when the units of a pipeline can begin -*- C++ -*-===//
#ifndef MOE_LIB_SCHEDULING_PIPELINECLOCK_H
#define MOE_LIB_SCHEDULING_PIPELINECLOCK_H

#include "moe/Scheduling/Pipeline.h"

#include <vector>

namespace mlir::moe {

/// Windows of each device, in order.
using DeviceOrders = SmallVector<SmallVector<PipelineWindow>>;

/// The units whose results a unit needs.
SmallVector<PipelineUnit, 3> getNeeds(const PipelineUnit &unit, int64_t stages);

/// Simulates when units run.
class PipelineClock {
public:
  /// Keeps references to all arguments. `devices` has the device of each stage.
  PipelineClock(const PipelineShape &shape, const StageTimes &times, ArrayRef<int64_t> devices)
      : shape(shape), times(times), devices(devices), free(shape.devices, 0),
        ends(shape.stages * shape.microBatches * kNumWorks, kNever) {}

  int64_t getDevice(const PipelineUnit &unit) const { return devices[unit.stage]; }
  /// Time at which the unit can begin: its inputs are there and its device is free. None if that is not known yet.
  std::optional<double> getBegin(const PipelineUnit &unit) const;
  std::optional<double> getBegin(const PipelineWindow &window) const;
  /// Runs a window, whose units all end at one time.
  void run(const PipelineWindow &window, double begin);
  double getSeconds() const { return *llvm::max_element(free); }

private:
  static constexpr double kNever = -1;
  static constexpr int64_t kNumWorks = 3;
  size_t getIndex(const PipelineUnit &unit) const {
    return (unit.microBatch * shape.stages + unit.stage) * kNumWorks + static_cast<int64_t>(unit.work);
  }
  /// Time at which the result of `maker` is on `device`.
  double getArrival(const PipelineUnit &maker, int64_t device) const {
    double end = ends[getIndex(maker)];
    return end == kNever || getDevice(maker) == device ? end : end + times.transfer;
  }

  const PipelineShape &shape;
  const StageTimes &times;
  ArrayRef<int64_t> devices;
  SmallVector<double> free; ///< by device: time since when it is free
  std::vector<double> ends; ///< by unit
};

/// Joins a backward with the gradients of its weights if these follow directly.
DeviceOrders joinBackwards(const DeviceOrders &orders);

/// Merges the devices' orders: the unit that can begin first goes first. Expects orders that do not wait for each
/// other.
PipelineSchedule mergeOrders(const PipelineShape &shape, const StageTimes &times, ArrayRef<int64_t> devices,
                             const DeviceOrders &orders);

/// Device of each stage: s mod devices, or in a V, where stages s and 2 devices - 1 - s are on one device.
SmallVector<int64_t> getDevices(const PipelineShape &shape, bool inV);

/// Rule by which a list schedule chooses units.
struct ListRule {
  /// Limit for the micro-batches of stages that a device keeps for backwards or for gradients of weights.
  int64_t mostAlive = 0;
  /// Share of their time that gradients of weights wait for other work.
  double patience = 0;
  /// Share of its time that a forward waits for a backward.
  double patienceForBackward = 0;
  /// Whether a forward of a device's first stage leaves room for those of its later stages.
  bool leavesRoom = true;
};
/// Builds a list schedule. Among the units that can begin soonest, a backward goes first, then a forward of a later
/// stage. Weight gradients run when a device would wait. A forward waits until `memory` allows it. None if the rule
/// deadlocks.
std::optional<PipelineSchedule> scheduleByList(const PipelineShape &shape, const StageTimes &times,
                                               const StageMemory &memory, ArrayRef<int64_t> devices,
                                               const ListRule &rule);

} // namespace mlir::moe

#endif // MOE_LIB_SCHEDULING_PIPELINECLOCK_H
