//===- Remedies.h - warnings about plans, and what makes them fit -*- C++ -*-===//
//
// A plan that does not fit is refused. The error names flags with which it needs less, each of which was compiled.
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

/// Returns --recompute, --zero and --sequence-parallel, if they are not given and have an effect.
std::vector<MemoryFlag> getMemoryFlags(const PlanOptions &options);

/// One way to need less memory.
struct Remedy {
  std::string flags; ///< "--max-load=2 --recompute"
  int64_t bytes = 0; ///< device memory, on the rank that needs the most
};

/// Compiles `asked`, which needs `bytes` (0: they are measured first), with each of the flags, and reports nothing. If
/// none makes it fit into `limit` bytes, it tries ever more of them together, and then ever more devices. Plans that
/// cannot be compiled, or do not need less, are left out. After `seconds`, or once the options say so, it begins no
/// further plan. The result is in the order in which it was tried.
std::vector<Remedy> findRemedies(const PlanRequest &asked, int64_t bytes, ArrayRef<MemoryFlag> flags,
                                 const ModelReader &read, int64_t limit, double seconds = 20);

/// A line for each remedy, with the memory that it needs and whether it fits. Empty if there is none.
std::string describeRemedies(ArrayRef<Remedy> remedies, int64_t limit);

/// Warns of a pipeline with fewer micro-batches than stages: its cost, and the remedy.
void warnOfBubble(const PlanOptions &options);

/// Warns of options for experts if `graph`, a model, has none.
void warnOfNoExperts(ModuleOp graph, const PlanOptions &options);

/// Warns of a module at the plan stage that needs more memory than the cluster's devices have.
void warnOfMemory(ModuleOp plan, const ClusterProfile &cluster);
/// Fails for such a module, with its memory table and remedies. If ranks share a host's memory, it warns.
LogicalResult checkMemory(ModuleOp plan, const ClusterProfile &cluster,
                          function_ref<std::string(int64_t bytes, int64_t limit)> describeRemedies);

} // namespace mlir::moe

#endif // MOE_PLANNER_REMEDIES_H
