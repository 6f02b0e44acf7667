//===- OpenChoices.h - what is left open, decided by times and memory -*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_OPENCHOICES_H
#define MOE_LIB_PLANNER_OPENCHOICES_H

#include "moe/Compiler/Schedule.h"
#include "moe/Planner/Planner.h"

namespace mlir::moe {

/// Compiles all schedules that the open parts of `schedule` allow, and returns the fastest by prediction that fits
/// options.memoryLimit. Eq. 10 gives the strategy of mpipe-auto. The module's `plan.search` has the schedules that were
/// compared. If none fits, the error has the memory of the smallest.
FailureOr<OwningOpRef<ModuleOp>> searchSchedule(ModuleOp graph, const ParsedSchedule &schedule,
                                                const PlanOptions &options);

/// Searches numbers of chunks and strategies that need less memory than `schedule`, which needs `bytes`.
FailureOr<OwningOpRef<ModuleOp>> searchToFit(ModuleOp graph, const ParsedSchedule &schedule, const PlanOptions &options,
                                             int64_t bytes);

/// MPipeMoE's Eq. 10: seconds of the first layer of `graph` in `schedule`, by strategy from None to S4. Fails if the
/// cluster does not have the rates.
llvm::Expected<SmallVector<double, 5>> getStrategySeconds(ModuleOp graph, const ParsedSchedule &schedule,
                                                          const PlanOptions &options);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_OPENCHOICES_H
