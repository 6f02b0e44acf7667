//===- StepEstimator.h - steps of whole models, from samples ----*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_STEPESTIMATOR_H
#define MOE_LIB_PLANNER_STEPESTIMATOR_H

#include "PipelineEstimate.h"

#include "llvm/ADT/StringMap.h"

#include <mutex>

namespace mlir::moe {

/// Relative error of an estimate from small samples compared with the compiled step. benchmarks/README.md has the
/// measurement.
inline constexpr double kEstimateError = 0.05;

/// parallel.getDp(), halved while it is more than `most` and the groups of `parallel` still divide the ranks.
int64_t limitDp(ParallelAttr parallel, int64_t most);

/// Numbers of parts that stages can be made of: before the first block, of each block, and behind the last.
struct BlockParts {
  int64_t begin = 0, end = 0;
  SmallVector<int64_t> blocks;
};

/// Estimates steps of candidates. A sample is compiled once, whatever pipeline it is for. Several threads may use it.
class StepEstimator {
public:
  /// `source` is of a whole model. Large samples take longer, and measure windows of two units.
  StepEstimator(const ModelSource &source, const PlanOptions &options, int64_t world,
                SampleSize size = SampleSize::Small);

  /// None if it is not possible; `reason` says why. With `roughDp` the samples have one micro-batch, and the work that
  /// is done once is that on so many data-parallel ranks.
  std::optional<PipelineEstimate> estimate(const Candidate &candidate, std::string &reason,
                                           std::optional<int64_t> roughDp = std::nullopt);
  /// None if there is no sample of the candidate; `reason` says why.
  std::optional<BlockParts> countParts(const Candidate &candidate, std::string &reason);

private:
  template <class Cost> struct Sample {
    std::optional<Cost> cost;
    std::string reason; ///< why there is none
  };
  template <class Cost> using Samples = llvm::StringMap<std::unique_ptr<Sample<Cost>>>;
  /// The sample of that name, which `take` takes if it is new.
  template <class Cost>
  const Sample<Cost> &find(Samples<Cost> &known, StringRef name,
                           function_ref<std::optional<Cost>(std::string &reason)> take);
  /// Takes the sample from one compilation if `isRough`, even if exchanges of a block run beside other blocks.
  const Sample<ModelCost> &getSample(const Candidate &candidate, int64_t dp, bool isRough);
  const Sample<WindowCost> &getWindows(const Candidate &candidate);
  /// The sample of a micro-batch, with the costs that are done and held once from another one.
  std::optional<ModelCost> getCost(Candidate candidate, std::optional<int64_t> roughDp, std::string &reason);
  /// Seconds in which each rank of a stage sends `bytes` to the rank `distance` after it.
  double getTransferSeconds(int64_t distance, double bytes);

  const ModelSource &source;
  const PlanOptions &options;
  int64_t world;
  SampleSize size;
  SmallVector<int64_t> kinds;
  SmallVector<size_t> kindOf; ///< place of each block in `kinds`
  PipelineOrders orders;
  std::mutex mutex; ///< protects the members below
  Samples<ModelCost> samples;
  Samples<WindowCost> windows;
  std::unique_ptr<CostModel> model;
  std::map<std::pair<int64_t, int64_t>, double> transfers; ///< seconds by distance and bytes
};

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_STEPESTIMATOR_H
