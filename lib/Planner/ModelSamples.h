//===- ModelSamples.h - what a model costs, from a few of its blocks -*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_MODELSAMPLES_H
#define MOE_LIB_PLANNER_MODELSAMPLES_H

#include "ModelStep.h"

#include "moe/Planner/AutoParallel.h"

namespace mlir::moe {

/// The graph of `batch` sequences for each data-parallel rank of `parallel`, of `blocks` alone where there are some.
GraphReader readBlocks(const ModelSource &source, ParallelAttr parallel, int64_t batch, ArrayRef<int64_t> blocks = {});

/// A part of a model on one rank.
struct PartCost {
  double each = 0, once = 0; ///< seconds of a micro-batch, and once a step: gradients' sums and the optimizer
  double held = 0;           ///< bytes of parameters, gradients and states
  double kept = 0;           ///< bytes for the backward, of each micro-batch under way
  double parameters = 0;     ///< bytes
};

/// What is added up to a step of a whole model.
struct ModelCost {
  SmallVector<PartCost> kinds; ///< of a block of each kind
  PartCost rest;               ///< embedding, head and loss; kept: also what any block needs while it is computed
};

/// The kinds of `source`, each by its first block.
SmallVector<int64_t> getKinds(const ModelSource &source);

/// Costs by difference: graphs with a block of each kind, and with one more. options.parallel is of one stage. `kinds`:
/// those that the model is of, at least one. Where the step has several micro-batches, so have the samples.
std::optional<ModelCost> sampleModel(const ModelSource &source, ArrayRef<int64_t> kinds, int64_t batch,
                                     const CompileOptions &options, std::string &reason);

/// A step of a pipeline, as the slowest stage of 1F1B makes it.
struct PipelineEstimate {
  double seconds = 0;
  double bytes = 0; ///< of the stage that needs the most
};
/// `kindOf`: the place in cost.kinds of each of the model's blocks.
PipelineEstimate estimatePipeline(const ModelCost &cost, ArrayRef<size_t> kindOf, int64_t stages, int64_t interleave,
                                  int64_t microBatches);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_MODELSAMPLES_H
