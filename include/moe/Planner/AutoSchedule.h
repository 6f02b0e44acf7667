//===- AutoSchedule.h - the best schedule of a model on a cluster -*- C++ -*-===//
//
// The joint space of all schedules (--schedule=auto). Passes apply each candidate, and refuse illegal ones with a
// reason. The plan gives its memory, and the simulator its time. A closed form prunes: no order and no number of chunks
// takes less than the seconds of the busiest stream (getStepBound).
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_AUTOSCHEDULE_H
#define MOE_PLANNER_AUTOSCHEDULE_H

#include "moe/Planner/Explanation.h"
#include "moe/Planner/Planner.h"

namespace mlir::moe {

/// Goes through the space for `graph`, which prepareGraph() has made. Times and bytes
/// of several layers that are not alike are sums over all of them. There is no best one if none is legal, or fits.
ScheduleExplanation searchSpace(ModuleOp graph, const PlanOptions &options);
/// Adds changes that would change the choice: candidates that are near are simulated again with a slower and a faster
/// network, on slower and faster devices, and with fewer and more tokens. If it is stopped, it adds none.
void addChanges(ModuleOp graph, const PlanOptions &options, ScheduleExplanation &result);

/// Calls searchSpace(). For a model of many layers it then compiles the fastest few whole, simulates them, and takes
/// the fastest of those that fit. There is a best one: errors are reported at unknown places.
FailureOr<ScheduleExplanation> chooseSchedule(ModuleOp graph, const PlanOptions &options);
/// Calls chooseSchedule(), and compiles the best to options.stage. The module's `plan.schedule`, and `plan.order` if
/// one was chosen, name it, and `plan.explain` says why. A graph without MoE layers has the baseline, and no reasons.
FailureOr<OwningOpRef<ModuleOp>> compileBest(ModuleOp graph, const PlanOptions &options);

} // namespace mlir::moe

#endif // MOE_PLANNER_AUTOSCHEDULE_H
