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

/// Searches the space for a prepared graph. Figures are sums over its layers. None is best if none is legal or fits.
ScheduleExplanation searchSpace(ModuleOp graph, const PlanOptions &options);
/// Adds changes of networks, devices and tokens that would change the choice; none if it is stopped.
void addChanges(ModuleOp graph, const PlanOptions &options, ScheduleExplanation &result);

/// Calls searchSpace(). For a model of many layers it then compiles the fastest few whole, simulates them, and takes
/// the fastest of those that fit. There is a best one: errors are reported at unknown places.
FailureOr<ScheduleExplanation> chooseSchedule(ModuleOp graph, const PlanOptions &options);
/// Calls chooseSchedule(), and compiles the best to options.stage. The module's `plan.schedule`, and `plan.order` if
/// one was chosen, name it, and `plan.explain` says why. A graph without MoE layers has the baseline, and no reasons.
FailureOr<OwningOpRef<ModuleOp>> compileBest(ModuleOp graph, const PlanOptions &options);

} // namespace mlir::moe

#endif // MOE_PLANNER_AUTOSCHEDULE_H
