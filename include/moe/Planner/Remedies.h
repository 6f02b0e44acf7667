//===- Remedies.h - what would make a plan fit ------------------*- C++ -*-===//
//
// A plan that needs more memory than a device has is refused. The error names flags with which it needs less, and how
// much: each was compiled.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_REMEDIES_H
#define MOE_PLANNER_REMEDIES_H

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "moe/Planner/ModelSource.h"
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

/// Flags that change `options` alone: --recompute, --zero and --sequence-parallel, if they are not given and have an
/// effect.
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

} // namespace mlir::moe

#endif // MOE_PLANNER_REMEDIES_H
