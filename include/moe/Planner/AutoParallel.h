//===- AutoParallel.h - the best groups for a model on a cluster -*- C++ -*-===//
//
// --parallel=auto: the sizes of pp, dp, mp, ep and esp. Where a group lies follows from its size alone: mp and esp are
// neighbouring ranks, ep is next to them, pp is farthest apart. So the sizes are the placement, and what it costs to
// leave a node is the cost model's to say.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_AUTOPARALLEL_H
#define MOE_PLANNER_AUTOPARALLEL_H

#include "moe/Planner/Explanation.h"
#include "moe/Planner/Planner.h"

#include <functional>
#include <string>
#include <vector>

namespace mlir::moe {

/// The model of which a plan is made, as a graph for each number of data-parallel ranks.
struct ModelSource {
  /// The graph of `batch` sequences for each of `dataParallel` ranks; of a whole model with `blocks`, which index
  /// `kinds`, these blocks alone. Errors are reported.
  std::function<FailureOr<OwningOpRef<ModuleOp>>(MLIRContext &, int64_t dataParallel, int64_t batch,
                                                 ArrayRef<int64_t> blocks)>
      read;
  /// Of each block of a whole model the first that is like it; empty where blocks cannot be taken out.
  std::vector<int64_t> kinds;
  /// The graph has the tokens of the whole world, whatever the number of ranks: `batch` says nothing.
  bool isFixed = false;
};

struct ParallelRequest {
  int64_t world = 1;
  /// Sequences of each data-parallel rank in a micro-batch, and micro-batches of a step.
  int64_t batch = 1, microBatches = 1;
  /// Sequences of a step of the whole world, which make batch * dp * micro-batches: they say how many micro-batches
  /// there are. Absent: candidates differ in it.
  std::optional<int64_t> globalBatch;
  Objective objective = Objective::Throughput;
  /// Where nothing fits: says what would make a plan of these options, and of so many bytes (0: not known), fit into
  /// `limit`. May be null.
  std::function<std::string(const CompileOptions &, int64_t bytes, int64_t limit)> describeRemedies;
};

/// Compiles `source` in the groups, and with options.schedule, that are best by the request's objective on the
/// cluster, within options.memoryLimit or else the device's memory. options.parallel is ignored. Stopped, it takes the
/// best of those that were compared, in the schedule that they were compared in. The module's `plan.explain_parallel`
/// says why. Errors, such as that nothing fits, are reported at an unknown place.
FailureOr<OwningOpRef<ModuleOp>> compileBestParallel(const ModelSource &source, const ParallelRequest &request,
                                                     const CompileOptions &options);

} // namespace mlir::moe

#endif // MOE_PLANNER_AUTOPARALLEL_H
