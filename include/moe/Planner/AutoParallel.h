//===- AutoParallel.h - the best groups for a model on a cluster -*- C++ -*-===//
//
// --parallel=auto: the sizes of pp, dp, mp, ep and esp. Where a group lies follows from its size alone: mp and esp are
// neighbouring ranks, ep is next to them, pp is farthest apart. So the sizes are the placement, and what it costs to
// leave a node is the cost model's to say.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_AUTOPARALLEL_H
#define MOE_PLANNER_AUTOPARALLEL_H

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

/// What is best. Candidates whose steps have as many tokens are in the same order in both.
enum class Objective {
  Throughput, ///< the most tokens a second and device
  StepTime    ///< the fewest seconds of a step
};
/// "throughput", "step-time".
StringRef getName(Objective objective);
std::optional<Objective> parseObjective(StringRef name);

struct ParallelRequest {
  int64_t world = 1;
  /// Sequences of each data-parallel rank in a micro-batch, and micro-batches of a step.
  int64_t batch = 1, microBatches = 1;
  /// Sequences of a step of the whole world, which make batch * dp * micro-batches: they say how many micro-batches
  /// there are. Absent: candidates differ in it.
  std::optional<int64_t> globalBatch;
  Objective objective = Objective::Throughput;
};

enum class ParallelVerdict {
  Illegal,   ///< the passes, the import or the global batch refuse it; `reason` says why
  TooLarge,  ///< it needs more than the memory limit
  Skipped,   ///< the search was stopped before
  Slower,    ///< by a rough estimate, so that no closer one was made
  Estimated, ///< from samples; of a graph that is compiled as a whole, simulated
  Compiled,  ///< as a whole, and simulated
  Chosen
};
StringRef getName(ParallelVerdict verdict);

/// Sizes of groups, and what was found out about them.
struct ParallelCandidate {
  ParallelAttr parallel;
  int64_t batch = 1, microBatches = 1;
  std::string schedule; ///< the fastest of those tried
  ParallelVerdict verdict = ParallelVerdict::Skipped;
  std::string reason;
  double estimate = 0; ///< seconds of a step; 0 where there is none
  double seconds = 0;  ///< the same where it was compiled as a whole
  int64_t memory = 0;  ///< bytes of the rank that needs the most; 0 where not known
  /// How far a step may be off, relative to it, by the profile's measured fits; 0 where they do not say, and of
  /// estimates.
  double uncertainty = 0;

  /// The closest that is known of a step.
  double getStepSeconds() const { return seconds > 0 ? seconds : estimate; }
  /// Seconds of a step for one sequence of the world's; of a fixed graph, for a micro-batch.
  double getSecondsPerSequence(bool isFixed) const;
};

/// All sizes for `world` ranks that ParallelAttr allows, in the order of pp, mp, ep and esp, with at most so many
/// stages and experts; mp and esp are at most two nodes.
std::vector<ParallelAttr> getParallelSpace(MLIRContext *context, int64_t world, int64_t maxStages, int64_t maxExperts,
                                           int64_t devicesPerNode);

/// Compiles `source` in the groups, and with options.schedule, that are best by the request's objective on the
/// cluster, within options.memoryLimit or else the device's memory. options.parallel is ignored. Stopped, it takes the
/// best of those that were compared, in the schedule that they were compared in. The module's `plan.explain_parallel`
/// says why. Errors, such as that nothing fits, are reported at an unknown place.
FailureOr<OwningOpRef<ModuleOp>> compileBestParallel(const ModelSource &source, const ParallelRequest &request,
                                                     const CompileOptions &options);

} // namespace mlir::moe

#endif // MOE_PLANNER_AUTOPARALLEL_H
