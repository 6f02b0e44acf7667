//===- PlanChecks.h - warnings about plans, and memory ----------*- C++ -*-===//
#ifndef MOE_PLANNER_PLANCHECKS_H
#define MOE_PLANNER_PLANCHECKS_H

#include "moe/Planner/Planner.h"

namespace mlir::moe {

/// Warns of a pipeline with fewer micro-batches than stages: its cost, and the remedy.
void warnOfBubble(const PlanOptions &options);

/// Warns of options for experts if `graph`, a model, has none.
void warnOfNoExperts(ModuleOp graph, const PlanOptions &options);

/// Warns of a module at the plan stage that needs more memory than the cluster's devices have.
void warnOfMemory(ModuleOp plan, const ClusterProfile &cluster);
/// Fails for such a module, with an error that has the memory table and the remedies for a plan of so many bytes that
/// must fit into a limit. If ranks share a host's memory, it warns.
LogicalResult checkMemory(ModuleOp plan, const ClusterProfile &cluster,
                          llvm::function_ref<std::string(int64_t bytes, int64_t limit)> describeRemedies);

} // namespace mlir::moe

#endif // MOE_PLANNER_PLANCHECKS_H
