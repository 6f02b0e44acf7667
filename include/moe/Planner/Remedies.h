//===- Remedies.h - what would make a plan fit ------------------*- C++ -*-===//
//
// A plan that needs more memory than a device has is refused. The refusal names flags with which it would need less,
// and how much less: each was compiled.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_REMEDIES_H
#define MOE_PLANNER_REMEDIES_H

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "moe/Planner/Planner.h"

namespace mlir::moe {

/// What a model is imported with. Absent: as the user asks for it.
struct ModelChange {
  std::optional<double> maxLoad; ///< most rows of a dropless layer on a rank, as a multiple of the even load
  std::optional<int64_t> batch;  ///< sequences of a data-parallel rank in a micro-batch
  bool isBf16 = false;
};

/// A plan that does not fit, or what may replace it.
struct PlanRequest {
  PlanOptions options;
  ModelChange model;
};

/// Reads the model for so many data-parallel ranks into a context, on any thread. Errors are reported.
using ChangedModelReader =
    std::function<FailureOr<OwningOpRef<ModuleOp>>(MLIRContext &, int64_t dataParallel, const ModelChange &)>;

/// Flags that the user has not given.
struct MemoryFlag {
  std::string text; ///< as it is typed: "--recompute"
  std::function<void(PlanRequest &)> apply;
};

/// Those of the command line that change `options` alone: --recompute, --zero and --sequence-parallel, where they are
/// not given and can change something.
std::vector<MemoryFlag> getMemoryFlags(const PlanOptions &options);

/// One way to need less memory.
struct Remedy {
  std::string flags; ///< "--max-load=2 --recompute"
  int64_t bytes = 0; ///< of device memory, on the rank that needs the most
};

/// Compiles `asked`, which needs `bytes` (0: that is measured first), without a word, with each of the flags; where
/// none of them makes it fit into `limit` bytes, with ever more of them, and then on ever more devices. What cannot be
/// compiled, or does not need less, is left out. After `seconds`, or once the options say so, nothing more is begun.
/// The result is in the order in which it was tried.
std::vector<Remedy> findRemedies(const PlanRequest &asked, int64_t bytes, ArrayRef<MemoryFlag> flags,
                                 const ChangedModelReader &read, int64_t limit, double seconds = 20);

/// A line for each remedy, with what it needs and whether that fits. Empty where there is none.
std::string describeRemedies(ArrayRef<Remedy> remedies, int64_t limit);

} // namespace mlir::moe

#endif // MOE_PLANNER_REMEDIES_H
