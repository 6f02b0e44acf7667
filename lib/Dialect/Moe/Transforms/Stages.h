//===- Stages.h - what stages of a pipeline share ---------------*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_STAGES_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_STAGES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

#include <compare>

namespace mlir::moe {

/// The ops of a function that belong to no stage: each stage that needs their results makes them itself. They need
/// arguments alone, and either no inputs of the model (what is cast, cut or made of parameters and constants), or next
/// to nothing is done (a micro-batch's part of an input, its number of a step).
llvm::DenseSet<Operation *> findPortableOps(func::FuncOp function);

/// Where a program can be cut.
struct ProgramCuts {
  /// Those that are not portable, in program order.
  SmallVector<Operation *> ops;
  /// By op, and once more behind the last: the bytes that all before it hand over to it and to later ones.
  SmallVector<int64_t> crossing;
  /// Ops before which the program can be cut, from the first to the one behind the last: where no more is handed over
  /// than next to it, between two blocks of a model and between the parts of one.
  SmallVector<size_t> cuts;
};
ProgramCuts findCuts(func::FuncOp function);

/// What a stage does for one micro-batch: its forward or its backward.
struct PipelineUnit {
  int64_t microBatch = 0, stage = 0;
  bool backward = false;

  auto operator<=>(const PipelineUnit &) const = default;
};

/// The units of all stages in an order in which each comes behind those whose results it needs, and those of each
/// device are in its order of 1F1B; with several stages for each device (stage s is of device s mod devices) that of
/// interleaved 1F1B (Narayanan et al., SC 2021, section 2.2). Without a backward all forwards. `stages` is a multiple
/// of `devices`; with more than one each, `microBatches` too.
SmallVector<PipelineUnit> getPipelineOrder(int64_t devices, int64_t stages, int64_t microBatches, bool hasBackward);

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_TRANSFORMS_STAGES_H
