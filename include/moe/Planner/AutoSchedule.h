//===- AutoSchedule.h - the best schedule of a model on a cluster -*- C++ -*-===//
//
// The joint space of all schedules (--schedule=auto). A candidate is applied: what the passes refuse is illegal, with
// their reason; its memory is what the planner gives it; its time is the simulator's. A closed form prunes: the seconds
// of the busiest stream (getStepBound), which no order and no cutting into chunks can go below.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_AUTOSCHEDULE_H
#define MOE_PLANNER_AUTOSCHEDULE_H

#include "moe/Planner/Explanation.h"
#include "moe/Planner/Planner.h"

namespace mlir::moe {

/// Goes through the space for `graph`, which prepareGraph() has made. Of several layers that are not alike, times and
/// bytes are sums over all of them. Nothing is best where nothing is legal, or fits.
ScheduleExplanation searchSpace(ModuleOp graph, const PlanOptions &options);
/// Adds what the choice depends on: candidates that are near are simulated again with a slower and a faster network, on
/// slower and faster devices, and with fewer and more tokens. Stopped, it adds nothing.
void addChanges(ModuleOp graph, const PlanOptions &options, ScheduleExplanation &result);

/// searchSpace; of a model of many layers the fastest few are then compiled whole, and simulated, and the fastest of
/// those that fit is best. There is a best one: errors are reported at unknown places.
FailureOr<ScheduleExplanation> chooseSchedule(ModuleOp graph, const PlanOptions &options);
/// chooseSchedule, then the best to the stage that `options` say. The module's `plan.schedule`, and `plan.order` where
/// one was chosen, say what it is and `plan.explain` why. A graph without MoE layers has the baseline, and no reasons.
FailureOr<OwningOpRef<ModuleOp>> compileBest(ModuleOp graph, const PlanOptions &options);

} // namespace mlir::moe

#endif // MOE_PLANNER_AUTOSCHEDULE_H
