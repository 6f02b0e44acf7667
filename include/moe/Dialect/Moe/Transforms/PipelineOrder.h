//===- PipelineOrder.h - stages of a pipeline, and their order --*- C++ -*-===//
//
// Where a model is cut into stages, and when each stage does what. These are functions of numbers: the passes apply
// them to programs, and the planner to estimates.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_PIPELINEORDER_H
#define MOE_DIALECT_MOE_TRANSFORMS_PIPELINEORDER_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"

#include <compare>
#include <cstdint>

namespace mlir::moe {

/// What a stage does for one micro-batch: its forward or its backward.
struct PipelineUnit {
  int64_t microBatch = 0, stage = 0;
  bool backward = false;

  auto operator<=>(const PipelineUnit &) const = default;
};

/// The units of all stages, in an order in which each unit follows those whose results it needs. The units of one
/// device are in the order of 1F1B. Stage s is on device s mod `devices`: with several stages on a device the order is
/// that of interleaved 1F1B (Narayanan et al., SC 2021, section 2.2). One device does the micro-batches in turn.
/// Without a backward there are forwards only. `devices` divides `stages`; with several devices and more stages than
/// devices it divides `microBatches` too.
SmallVector<PipelineUnit> getPipelineOrder(int64_t devices, int64_t stages, int64_t microBatches, bool hasBackward);

/// Consecutive parts of a program, which stages are made of.
struct ProgramParts {
  /// By part: the seconds that it takes, and the seconds to receive what it needs of the parts before it.
  SmallVector<double> seconds, receive;
};
/// The first part of each of `stages` stages, such that the slowest stage takes as little time as possible. Empty where
/// there are fewer parts than stages.
SmallVector<size_t> cutIntoStages(const ProgramParts &parts, int64_t stages);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_PIPELINEORDER_H
