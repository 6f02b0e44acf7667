//===- ModelStep.h - a step of a whole model --------------------*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_MODELSTEP_H
#define MOE_LIB_PLANNER_MODELSTEP_H

#include "Evaluator.h"
#include "PartCosts.h"

#include <functional>

namespace mlir::moe {

/// A model's step, as it was compiled.
struct WholeModel {
  StepFigures step;     ///< 0 seconds if it was not simulated
  ProgramMemory memory; ///< memory of the rank that needs the most
  std::string schedule; ///< schedule of the plan; empty for a graph without one
  std::string peak;     ///< description of the peak, if the memory is over the limit
};

/// Reads a graph into a context. Errors are reported.
using GraphReader = std::function<FailureOr<OwningOpRef<ModuleOp>>(MLIRContext &)>;
/// Reads a graph from its text.
GraphReader readText(StringRef graph);

/// Compiles in options.schedule and simulates in a context of its own, and reports nothing. A context keeps every
/// attribute that it ever had, and those of hundreds of plans are gigabytes. None if the plan is not possible; the
/// first error goes to `reason`.
std::optional<WholeModel> measureModel(const GraphReader &read, const PlanOptions &options, std::string &reason);
/// Measures a step from as many micro-batches as fill the pipeline: each further one takes as long as the one before,
/// and little more memory. Only seconds and bytes are those of all micro-batches. A plan of more than `limit` bytes is
/// not simulated; 0: any is. If one step does not tell the time of a further micro-batch, a second one is compiled.
std::optional<WholeModel> measureFilledModel(const GraphReader &read, const PlanOptions &options, int64_t limit,
                                             std::string &reason);

/// Compiles and simulates a step of one stage in one micro-batch or, if options.microBatches is more, in two, and
/// returns the cost of each part. It is like measureModel() in all else.
std::optional<SmallVector<PartCost>> sampleParts(const GraphReader &read, const PlanOptions &options,
                                                 std::string &reason);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_MODELSTEP_H
