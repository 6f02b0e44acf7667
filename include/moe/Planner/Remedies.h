//===- Remedies.h - warnings about plans, and what makes them fit -*- C++ -*-===//
//
// A plan that does not fit is refused. The error names flags with which it needs less, each of which was compiled.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_REMEDIES_H
#define MOE_PLANNER_REMEDIES_H

#include "moe/Planner/Planner.h"

namespace mlir::moe {

/// A plan that does not fit, or one that may replace it.
struct PlanRequest {
  PlanOptions options;
  ModelForm model; ///< for any number of data-parallel ranks
};

/// Flags that the user has not given.
struct MemoryFlag {
  std::string text; ///< as it is typed: "--recompute"
  std::function<void(PlanRequest &)> apply;
};

/// Compiles `asked`, which needs `bytes` (0: they are measured first), with each of the flags, and of --recompute,
/// --zero and --sequence-parallel, and reports nothing. If none makes it fit into `limit` bytes, it tries ever more of
/// them together, and then ever more devices, for a while. Returns a line for each plan that needs less, with its
/// memory and whether it fits, in the order in which they were tried. Empty if there is none.
std::string describeRemedies(const PlanRequest &asked, int64_t bytes, std::vector<MemoryFlag> flags,
                             const ModelReader &read, int64_t limit);

/// Warns of a pipeline with fewer micro-batches than stages: its cost, and the remedy.
void warnOfBubble(const PlanOptions &options);

/// Warns of options for experts if `graph`, a model, has none.
void warnOfNoExperts(ModuleOp graph, const PlanOptions &options);

/// Notes that the value of an auxiliary loss depends on the groups: each rank has that of its own tokens.
void noteAuxiliaryLoss(ModuleOp graph, const PlanOptions &options);

/// Warns of a module at the plan stage that needs more memory than the cluster's devices have.
void warnOfMemory(ModuleOp plan, const ClusterProfile &cluster);
/// Fails for such a module, with its memory table and remedies. If ranks share a host's memory, it warns.
LogicalResult checkMemory(ModuleOp plan, const ClusterProfile &cluster,
                          function_ref<std::string(int64_t bytes, int64_t limit)> describeRemedies);

} // namespace mlir::moe

#endif // MOE_PLANNER_REMEDIES_H
