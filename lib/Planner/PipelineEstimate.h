//===- PipelineEstimate.h - a step of a pipeline, from its parts -*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_PIPELINEESTIMATE_H
#define MOE_LIB_PLANNER_PIPELINEESTIMATE_H

#include "ModelSamples.h"

#include <map>
#include <mutex>

namespace mlir::moe {

/// Whether steps in this order are estimated as such, not as 1F1B. Samples do not tell times of weight gradients.
bool isEstimated(PipelineOrder order);

/// Orders of pipelines with equal times, each made once. Several threads may use them.
class PipelineOrders {
public:
  const PipelineSchedule &get(const PipelineShape &shape);

private:
  std::mutex mutex;
  std::map<std::tuple<int64_t, int64_t, int64_t, bool, PipelineOrder>, PipelineSchedule> schedules;
};

struct PipelineEstimate {
  double seconds = 0;
  double bytes = 0;                    ///< bytes of the device that needs the most; 0: not known
  std::optional<StepClass> measured{}; ///< as in ModelCost
  /// As moe-cut-stages takes them; empty without a pipeline.
  SmallVector<int64_t> stageBoundaries;
};

/// Places at which a model is cut into stages.
struct StageCuts {
  ArrayRef<int64_t> boundaries = {}; ///< beginnings of the stages; empty: stages of about equal time
  bool wholeBlocks = false;          ///< whether those of about equal time begin between blocks
};

/// Cuts the model at `cuts`, and plays the stages in the order of moe-order-micro-batches. A window of two units takes
/// the time of PartCost::window, or else the longest of their computation, their exchanges, and each unit alone.
/// `kindOf` is the place of each block in cost.kindParts. `getTransferSeconds` returns the seconds of a transfer of so
/// many bytes to the next stage. None if the model has too few parts, or others than `cuts` say.
std::optional<PipelineEstimate> estimatePipeline(const ModelCost &cost, ArrayRef<size_t> kindOf,
                                                 const PipelineShape &shape, const StageCuts &cuts,
                                                 PipelineOrders &orders,
                                                 function_ref<double(double)> getTransferSeconds);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_PIPELINEESTIMATE_H
