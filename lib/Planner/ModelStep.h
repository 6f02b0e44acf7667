//===- ModelStep.h - a step of a whole model --------------------*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_MODELSTEP_H
#define MOE_LIB_PLANNER_MODELSTEP_H

#include "Evaluator.h"
#include "PartCosts.h"

#include <functional>

namespace mlir::moe {

/// A model's step, as it was compiled.
struct WholeModel {
  StepFigures step;     ///< 0 seconds where it was not simulated
  ProgramMemory memory; ///< of the rank that needs the most
  std::string schedule; ///< that the plan is in; empty for a graph without one
  std::string peak;     ///< what holds that rank's memory, where it is more than the limit
};

/// Reads a graph into a context. Errors are reported.
using GraphReader = std::function<FailureOr<OwningOpRef<ModuleOp>>(MLIRContext &)>;
/// Reads a graph that is here as text.
GraphReader readText(StringRef graph);

/// Compiles in options.schedule and simulates, without a word, in a context of its own: a context keeps every attribute
/// that ever was, and those of hundreds of plans are gigabytes. Nothing where it cannot be; the first error goes to
/// `reason`.
std::optional<WholeModel> measureModel(const GraphReader &read, const PlanOptions &options, std::string &reason);
/// The same from steps of as many micro-batches as fill the pipeline: from there on each takes as long as the one
/// before, and little more memory. Seconds and bytes alone are those of all micro-batches. A plan of more than `limit`
/// bytes is not simulated; 0: any is. Where one step does not tell how long a further micro-batch takes, a second one
/// is compiled.
std::optional<WholeModel> measureFilledModel(const GraphReader &read, const PlanOptions &options, int64_t limit,
                                             std::string &reason);

struct SampledPart {
  PartCost cost;
  double receivedBytes = 0; ///< of a micro-batch, from the parts before it
};
/// Compiles and simulates a step of one stage in one micro-batch or, where options.microBatches is more, in two, and
/// says what each part of it costs. As measureModel in all else.
std::optional<SmallVector<SampledPart>> sampleParts(const GraphReader &read, const PlanOptions &options,
                                                    std::string &reason);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_MODELSTEP_H
