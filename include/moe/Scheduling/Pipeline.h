//===- Pipeline.h - in which order a pipeline works -------------*- C++ -*-===//
//
// Devices of a pipeline work on micro-batches by stages. These functions decide when each stage works on which
// micro-batch, by numbers alone: passes apply them to programs, and the planner to estimates.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_SCHEDULING_PIPELINE_H
#define MOE_SCHEDULING_PIPELINE_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include "moe/Scheduling/StageWork.h"

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace mlir::moe {

/// The work of a stage on one micro-batch.
struct PipelineUnit {
  int64_t microBatch = 0, stage = 0;
  StageWork work = StageWork::forward;
  /// Whether a backward also computes the gradients of weights.
  bool isWhole = false;

  auto operator<=>(const PipelineUnit &) const = default;
};

/// Units of one device whose ops are ordered together, so that exchanges of one run beside computation of the others.
using PipelineWindow = SmallVector<PipelineUnit, 3>;

/// Orders of the units of a pipeline.
enum class PipelineOrder {
  /// One forward, one backward; with several stages on a device interleaved 1F1B (Narayanan et al., SC 2021, section
  /// 2.2), which needs micro-batches that are a multiple of the devices.
  OneForwardOneBackward,
  /// 1F1B in which each forward and the backward after it are a window (Megatron-LM's merged 1F1B). At the
  /// beginning of a window one more micro-batch of a stage is alive than in interleaved 1F1B. It also works on one
  /// device, with the forward of a micro-batch beside the backward of the previous one.
  Overlapped1F1B,
  /// ZB-H1 (Qi et al., ICLR 2024): 1F1B that postpones weight gradients, on device d by d micro-batches. As many
  /// micro-batches are alive as on the first device of 1F1B. Each device has one stage.
  ZbH1,
  /// Two stages on each device, in a V: the last stage is on the first device. The backward is split, and as many
  /// micro-batches are alive as in 1F1B (ZB-V of the same authors, found by other rules).
  ZbV,
  /// DualPipeV (DeepSeek-AI, DualPipe, 2025): a V, in which the forward of one micro-batch and the backward of another
  /// one are a window. Needs twice as many micro-batches as devices.
  DualPipeV,
  /// The fastest order by the stages' times, within the limit of memory. It compares list schedules and the orders
  /// above that the number of stages allows.
  Search
};

/// Returns "1f1b", "1f1b-overlap", "zb-h1", "zb-v", "dualpipe-v" or "search".
StringRef getName(PipelineOrder order);
std::optional<PipelineOrder> parsePipelineOrder(StringRef name);

/// Whether gradients of weights are units of their own, as in all orders but 1F1B.
bool splitsBackward(PipelineOrder order);
/// Whether the order has windows of two units.
bool isOverlapped(PipelineOrder order);
/// Number of stages on each device that the order needs, or none if any number is possible.
std::optional<int64_t> getStagesPerDevice(PipelineOrder order);

struct PipelineShape {
  int64_t devices = 1, stages = 1, microBatches = 1;
  bool hasBackward = true;
  PipelineOrder order = PipelineOrder::OneForwardOneBackward;

  int64_t getStagesPerDevice() const { return stages / devices; }
  /// The need of the order that the shape does not meet, as "expected .. but got ..", or an empty string.
  std::string check() const;
};
/// Device of each stage in a named order: stage s is on device s mod devices, or stages form a V.
SmallVector<int64_t> getStageDevices(const PipelineShape &shape);

/// Seconds of each stage for a micro-batch.
struct StageTimes {
  SmallVector<double> forward, backward, weights;
  /// Seconds of a whole backward. It is shorter than its two parts if products of one hide exchanges of the other.
  SmallVector<double> wholeBackward;
  /// Seconds to hand a micro-batch to the next stage on another device.
  double transfer = 0;
  /// Seconds of a window of several units. If null, a window takes as long as its units one after the other.
  std::function<double(const PipelineWindow &)> together;

  /// Times in which forward, backward and weights take one second each, and transfers take none.
  static StageTimes getEqual(int64_t stages);
  double get(const PipelineWindow &window) const;
};

/// Bytes that devices keep between units, for each stage and micro-batch.
struct StageMemory {
  /// Bytes that the backward or the gradients of weights need, from the forward until the backward.
  SmallVector<int64_t> kept;
  /// Bytes that the gradients of weights need, from a backward that is not whole until these gradients.
  SmallVector<int64_t> waiting;
  /// The most bytes that a device may keep, or 0 if there is no limit.
  int64_t most = 0;

  /// Bytes that the unit adds to what its device keeps.
  int64_t getMore(const PipelineUnit &unit) const;
};

struct PipelineSchedule {
  /// Windows of all devices. Each unit follows the units whose results it needs.
  SmallVector<PipelineWindow> windows;
  /// Device of each stage.
  SmallVector<int64_t> devices;
  /// End of the last unit, by the times of the problem.
  double seconds = 0;

  SmallVector<PipelineUnit> getUnits() const;
};

/// The most bytes that a device keeps between windows. The units of a window advance at one pace (Window.h), so that a
/// backward gives back what the forward beside it takes.
int64_t getMostKept(const PipelineSchedule &schedule, const StageMemory &memory);

/// Orders the units of all micro-batches, as fast as possible within the limit of memory.
struct PipelineProblem {
  PipelineShape shape;
  StageTimes times;
  StageMemory memory;

  PipelineProblem(const PipelineShape &shape, StageTimes times, StageMemory memory = {})
      : shape(shape), times(std::move(times)), memory(std::move(memory)) {}
  /// All stages take equal times.
  explicit PipelineProblem(const PipelineShape &shape) : PipelineProblem(shape, StageTimes::getEqual(shape.stages)) {}

  /// Mistake in the input, or an empty string.
  std::string check() const;
  /// Mistake in a schedule, or an empty string. Each unit must run once, after the units that it needs. No device may
  /// keep more bytes than its limit.
  std::string verify(const PipelineSchedule &schedule) const;
};

/// Expects a problem without a mistake. One device alone does the micro-batches in turn. Without a backward there are
/// only forwards. The units of each device in 1F1B, ZB-H1 and DualPipeV do not depend on the times. Orders with a
/// choice take the fastest schedule within the limit of memory. If none is within it, they take the one that keeps
/// least, which verify() refuses. Windows of 1f1b-overlap and DualPipeV may contain gradients of weights of the
/// previous window.
PipelineSchedule getPipelineSchedule(const PipelineProblem &problem);

} // namespace mlir::moe

#endif // MOE_SCHEDULING_PIPELINE_H
