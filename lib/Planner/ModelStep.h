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

/// Compiles a graph in options.schedule, simulates the plan, and reports nothing. Each call has its own context,
/// because a context keeps all attributes, and those of hundreds of plans are gigabytes. None if the plan is not
/// possible; the first error goes to `reason`.
std::optional<WholeModel> measureModel(const GraphReader &read, const PlanOptions &options, std::string &reason);
/// Measures a step with just enough micro-batches to fill the pipeline. Each further one adds the same time and hardly
/// any memory. Only seconds and bytes are those of all micro-batches. Does not simulate plans that need more than
/// `limit` bytes; 0: no limit. Compiles a second step if the first does not show the time of a further micro-batch.
std::optional<WholeModel> measureFilledModel(const GraphReader &read, const PlanOptions &options, int64_t limit,
                                             std::string &reason);

/// The parts of a sample, and the class of measured steps like it.
struct SampledParts {
  SmallVector<PartCost> parts;
  std::optional<StepClass> measured;
};

/// Compiles and simulates a step of one stage in one micro-batch or, if options.microBatches is more, in two, and
/// returns the cost of each part. It is like measureModel() in all else.
std::optional<SampledParts> sampleParts(const GraphReader &read, const PlanOptions &options, std::string &reason);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_MODELSTEP_H
