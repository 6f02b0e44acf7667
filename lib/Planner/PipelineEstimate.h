//===- PipelineEstimate.h - a step of a pipeline, from its parts -*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_PIPELINEESTIMATE_H
#define MOE_LIB_PLANNER_PIPELINEESTIMATE_H

#include "ModelSamples.h"

#include "moe/Dialect/Moe/Transforms/PipelineOrder.h"

#include <map>
#include <mutex>

namespace mlir::moe {

/// A pipeline of 1F1B: stage s is on device s mod `devices`.
struct EstimatedPipeline {
  int64_t devices = 1, interleave = 1, microBatches = 1;
  bool hasBackward = true;

  int64_t getStages() const { return devices * interleave; }
};

/// Orders of pipelines, each made once. Several threads may use them.
class PipelineOrders {
public:
  ArrayRef<PipelineUnit> get(const EstimatedPipeline &shape, int64_t microBatches);

private:
  std::mutex mutex;
  std::map<std::tuple<int64_t, int64_t, int64_t, bool>, SmallVector<PipelineUnit>> orders;
};

struct PipelineEstimate {
  double seconds = 0;
  double bytes = 0; ///< of the device that needs the most
  /// As moe-cut-stages takes them; empty without a pipeline.
  SmallVector<int64_t> stageBoundaries;
};

/// Cuts the model into stages of about equal time, and plays them in the order of moe-order-micro-batches. `kindOf`:
/// the place in cost.kindParts of each block. `getTransferSeconds` says how long it takes to hand so many bytes to the
/// next stage. Nothing where the model has too few parts.
std::optional<PipelineEstimate> estimatePipeline(const ModelCost &cost, ArrayRef<size_t> kindOf,
                                                 const EstimatedPipeline &shape, PipelineOrders &orders,
                                                 function_ref<double(double)> getTransferSeconds);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_PIPELINEESTIMATE_H
