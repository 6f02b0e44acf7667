//===- PipelineOrder.h - stages of a pipeline, and their order --*- C++ -*-===//
//
// Where a model is cut into stages, on which device a stage is, and when each stage does what. These are functions of
// numbers: the passes apply them to programs, and the planner to estimates.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_PIPELINEORDER_H
#define MOE_DIALECT_MOE_TRANSFORMS_PIPELINEORDER_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace mlir::moe {

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Consecutive parts of a program, which stages are made of.
struct ProgramParts {
  /// By part: the seconds that it takes, and the seconds to receive what it needs of the parts before it.
  SmallVector<double> seconds, receive;
};
/// The first part of each of `stages` stages, such that the slowest stage takes as little time as possible. Empty where
/// there are fewer parts than stages.
SmallVector<size_t> cutIntoStages(const ProgramParts &parts, int64_t stages);

//===----------------------------------------------------------------------===//
// Orders
//===----------------------------------------------------------------------===//

/// What a stage does for one micro-batch.
struct PipelineUnit {
  int64_t microBatch = 0, stage = 0;
  StageWork work = StageWork::forward;
  /// Of a backward: whether it is all of it, with the gradients of weights among its ops.
  bool isWhole = false;

  auto operator<=>(const PipelineUnit &) const = default;
};

/// Units of one device whose ops are ordered together: exchanges of one run beside computation of the others.
using PipelineWindow = SmallVector<PipelineUnit, 3>;

/// Orders of the units of a pipeline.
enum class PipelineOrder {
  /// One forward, one backward; with several stages on a device interleaved 1F1B (Narayanan et al., SC 2021, section
  /// 2.2), which needs micro-batches that are a multiple of the devices.
  OneForwardOneBackward,
  /// 1F1B, in which each forward and the backward behind it are a window (Megatron-LM's merged 1F1B). One more
  /// micro-batch of a stage is alive than in interleaved 1F1B. One device alone does it, too: the forward of a
  /// micro-batch beside the backward of the one before.
  Overlapped1F1B,
  /// ZB-H1 (Qi et al., ICLR 2024): 1F1B whose weight gradients wait, on device d for d micro-batches. As
  /// many micro-batches are alive as on the first device of 1F1B. One stage on a device.
  ZbH1,
  /// Two stages on a device, in a V: the last stage is on the first device. The backward is split, and as many
  /// micro-batches are alive as in 1F1B (ZB-V of the same authors; found by other rules).
  ZbV,
  /// DualPipeV (DeepSeek-AI, DualPipe, 2025): a V, in which the forward of one micro-batch and the backward of another
  /// one are a window. Needs twice as many micro-batches as devices.
  DualPipeV,
  /// The fastest by the stages' times, within a limit of what devices keep: of the orders above that the number of
  /// stages
  /// allows, and of list schedules.
  Search
};

/// "1f1b", "1f1b-overlap", "zb-h1", "zb-v", "dualpipe-v", "search".
StringRef getName(PipelineOrder order);
std::optional<PipelineOrder> parsePipelineOrder(StringRef name);

/// Whether gradients of weights are units of their own: in all orders but 1F1B.
bool splitsBackward(PipelineOrder order);
/// Whether it has windows of two units.
bool isOverlapped(PipelineOrder order);
/// Stages on a device that the order needs; none where it leaves them open.
std::optional<int64_t> getStagesPerDevice(PipelineOrder order);

struct PipelineShape {
  int64_t devices = 1, stages = 1, microBatches = 1;
  bool hasBackward = true;
  PipelineOrder order = PipelineOrder::OneForwardOneBackward;

  int64_t getStagesPerDevice() const { return stages / devices; }
};
/// By stage, in a named order: stage s on device s mod devices, or in a V.
SmallVector<int64_t> getStageDevices(const PipelineShape &shape);
/// What the order needs and the shape does not have, as "expected .. but got .."; empty where it is all there.
std::string describeMistake(const PipelineShape &shape);

/// Seconds of each stage for a micro-batch, and to hand a micro-batch to the next stage on another device.
struct StageTimes {
  SmallVector<double> forward, backward, weights;
  /// A whole backward: less than its two parts where products of one hide exchanges of the other.
  SmallVector<double> wholeBackward;
  double transfer = 0;
  /// Of several units in a window; null: as long as all of them.
  std::function<double(const PipelineWindow &)> together;

  /// Forward, backward and weights take one second each, and transfers take none.
  static StageTimes getEqual(int64_t stages);
  double get(const PipelineWindow &window) const;
};

/// What devices keep between units, in bytes of a micro-batch by stage.
struct StageMemory {
  /// From the forward until the backward: what the backward or the gradients of weights need.
  SmallVector<int64_t> kept;
  /// From a backward that is not whole until the gradients of its weights: what these need.
  SmallVector<int64_t> waiting;
  /// The most that a device may keep; 0: there is no limit.
  int64_t most = 0;

  /// How much more a device keeps after the unit.
  int64_t getMore(const PipelineUnit &unit) const;
};

struct PipelineSchedule {
  /// Of all devices, in an order in which each unit follows those whose results it needs.
  SmallVector<PipelineWindow> windows;
  /// By stage.
  SmallVector<int64_t> devices;
  /// When the last unit ends, by the times that were given.
  double seconds = 0;

  SmallVector<PipelineUnit> getUnits() const;
};

/// The most bytes that a device keeps at once.
int64_t getMostKept(const PipelineSchedule &schedule, const StageMemory &memory);

/// Expects a shape without mistake. One device does the micro-batches in turn. Without a backward there are forwards
/// only. 1F1B and DualPipeV do not depend on the times, nor does ZB-H1, but for how the devices' units are merged.
/// Where there is a choice it is the fastest that keeps no more than it may or, where none does, the one that keeps
/// least. So windows of 1f1b-overlap and DualPipeV may have the gradients of weights of the window before.
PipelineSchedule getPipelineSchedule(const PipelineShape &shape, const StageTimes &times,
                                     const StageMemory &memory = {});
/// With equal times.
PipelineSchedule getPipelineSchedule(const PipelineShape &shape);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_PIPELINEORDER_H
