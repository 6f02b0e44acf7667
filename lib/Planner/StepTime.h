//===- StepTime.h - what a whole model costs in a schedule ------*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_STEPTIME_H
#define MOE_LIB_PLANNER_STEPTIME_H

#include "moe/Planner/Planner.h"
#include "moe/Simulator/Simulator.h"

namespace mlir::moe {

/// What a simulated step takes.
struct StepTime {
  double seconds = 0;
  /// From one micro-batch to the next once the pipeline is full: of the slowest stage. 0 where the step does not say.
  double interval = 0;
};
/// Of a step that was compiled with `options`. The interval is what the first stage needs for the last micro-batch but
/// one: without --interleave, where it is not known, it is at one forward and one backward in turn then, and waits for
/// the slowest stage. What it sends for the last micro-batch may be late.
StepTime getStepTime(const SimResult &step, const CompileOptions &options);

/// As many micro-batches as fill the pipeline: from there on each takes as long as the one before, and little more
/// memory.
class FewMicroBatches {
public:
  explicit FewMicroBatches(const CompileOptions &options);

  int64_t getCount() const { return count; }
  /// A step of all micro-batches, where one of getCount() takes `few`. `measure` measures a step of a few more, where
  /// `few` says nothing about the interval; nothing where it cannot.
  std::optional<double> getSeconds(StepTime few, function_ref<std::optional<StepTime>(int64_t)> measure) const;

private:
  int64_t all, count;
  int64_t more; ///< what a second step has
};

/// A step of the model, from one of few micro-batches.
struct WholeModel {
  std::string error; ///< why there is no plan, or no time; else empty
  double seconds = 0;
  int64_t memory = 0; ///< bytes of the rank that needs the most
  std::string peak;   ///< what holds that rank's memory where it is more than the limit
};

/// Compiles `graph`, which is text, in options.schedule and simulates the plan, in a context of its own: a context
/// keeps every attribute that ever was.
WholeModel measureModel(StringRef graph, const CompileOptions &options);

/// `options` in another context.
CompileOptions moveOptions(const CompileOptions &options, MLIRContext &context);

/// "5.1 GB alive at matmul layer0, 2 GB of .." of a rank program's largest moment.
std::string describePeak(func::FuncOp program);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_STEPTIME_H
