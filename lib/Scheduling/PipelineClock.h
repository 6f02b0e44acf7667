//===- PipelineClock.h - when the units of a pipeline can begin -*- C++ -*-===//
#ifndef MOE_LIB_SCHEDULING_PIPELINECLOCK_H
#define MOE_LIB_SCHEDULING_PIPELINECLOCK_H

#include "moe/Scheduling/Pipeline.h"

#include <vector>

namespace mlir::moe {

/// What each device does, in order.
using DeviceOrders = SmallVector<SmallVector<PipelineWindow>>;

/// Plays units in time.
class PipelineClock {
public:
  /// `devices`: by stage. The clock keeps references to all arguments.
  PipelineClock(const PipelineShape &shape, const StageTimes &times, ArrayRef<int64_t> devices)
      : shape(shape), times(times), devices(devices), free(shape.devices, 0),
        ends(shape.stages * shape.microBatches * kNumWorks, kNever) {}

  int64_t getDevice(const PipelineUnit &unit) const { return devices[unit.stage]; }
  double getFree(int64_t device) const { return free[device]; }
  /// When the unit can begin: what it needs is there, and its device is free. None while that is not known.
  std::optional<double> getBegin(const PipelineUnit &unit) const;
  std::optional<double> getBegin(const PipelineWindow &window) const;
  /// All of a window ends at one time.
  void run(const PipelineWindow &window, double begin);
  double getSeconds() const { return *llvm::max_element(free); }

private:
  static constexpr double kNever = -1;
  static constexpr int64_t kNumWorks = 3;
  size_t getIndex(const PipelineUnit &unit) const {
    return (unit.microBatch * shape.stages + unit.stage) * kNumWorks + static_cast<int64_t>(unit.work);
  }
  /// When what `maker` makes is on `device`.
  double getArrival(const PipelineUnit &maker, int64_t device) const {
    double end = ends[getIndex(maker)];
    return end == kNever || getDevice(maker) == device ? end : end + times.transfer;
  }

  const PipelineShape &shape;
  const StageTimes &times;
  ArrayRef<int64_t> devices;
  SmallVector<double> free; ///< by device: since when
  std::vector<double> ends; ///< of units
};

/// Makes a backward whole where the gradients of its weights come right behind it.
DeviceOrders joinBackwards(const DeviceOrders &orders);

/// Merges the devices' orders: the unit that can begin first goes first. Expects orders that can go on to their end.
PipelineSchedule mergeOrders(const PipelineShape &shape, const StageTimes &times, ArrayRef<int64_t> devices,
                             const DeviceOrders &orders);

/// Stage s on device s mod devices, or in a V: then s and 2 devices - 1 - s are on one device.
SmallVector<int64_t> getCyclicDevices(const PipelineShape &shape);
SmallVector<int64_t> getVDevices(const PipelineShape &shape);

/// How a list schedule chooses.
struct ListRule {
  /// Micro-batches of a stage that a device keeps for a backward, or for gradients of weights.
  int64_t mostAlive = 0;
  /// Gradients of weights wait if other work comes within this share of their time.
  double patience = 0;
  /// A forward waits if a backward comes within this share of its time.
  double patienceForBackward = 0;
  /// Whether a forward of a device's first stage leaves room for those of its later stages.
  bool leavesRoom = true;
};
/// Of the units that can begin soonest a backward, then a forward of a later stage; gradients of weights where a device
/// would wait. A forward
/// waits until `memory` allows it. None where the rule comes to a dead end.
std::optional<PipelineSchedule> scheduleByList(const PipelineShape &shape, const StageTimes &times,
                                               const StageMemory &memory, ArrayRef<int64_t> devices,
                                               const ListRule &rule);

} // namespace mlir::moe

#endif // MOE_LIB_SCHEDULING_PIPELINECLOCK_H
