//===- Planner.h - the best plan of a model graph ---------------*- C++ -*-===//
//
// The planner searches what a request leaves open. It compiles each candidate (moe/Compiler/Compiler.h) and compares
// their memory and their simulated times.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_PLANNER_H
#define MOE_PLANNER_PLANNER_H

#include <functional>
#include <string>

#include "moe/Compiler/Compiler.h"

namespace mlir::moe {
struct ScheduleExplanation;
struct RoutingSource;

/// Adds to the compiler's options what the planner decides, and how.
struct PlanOptions : CompileOptions {
  PlanOptions() { schedule = "baseline"; }

  /// What tokens choose, for 'auto'; null: evenly.
  const RoutingSource *routing = nullptr;
  /// 'auto' simulates every candidate, whatever is known of it before.
  bool exhaustive = false;
  /// 'auto' also finds what its choice depends on, which takes longer than the choice.
  bool findChanges = false;
  /// Hears from 'auto', after each schedule, what it has and the fewest seconds so far. May be null.
  std::function<void(const ScheduleExplanation &, double)> showProgress;
  /// Asked by 'auto', and while groups are compared, on any thread: true once the best so far has to do. May be null.
  std::function<bool()> isStopped;
  bool isStoppedEarly() const { return isStopped && isStopped(); }
};

/// Compiles a model graph (one function) as compileSchedule does, after deciding what options.schedule leaves open.
/// Errors are reported at the ops.
FailureOr<OwningOpRef<ModuleOp>> planAndCompile(ModuleOp graph, const PlanOptions &options);

} // namespace mlir::moe

#endif // MOE_PLANNER_PLANNER_H
