//===- OpenChoices.h - what is left open, decided by times and memory -*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_OPENCHOICES_H
#define MOE_LIB_PLANNER_OPENCHOICES_H

#include "moe/Compiler/Schedule.h"
#include "moe/Planner/Planner.h"

namespace mlir::moe {

/// Compiles every way to fill in what `schedule` leaves open and returns the one that fits options.memoryLimit and is
/// predicted to take the fewest seconds; of mpipe-auto, with the strategy that Eq. 10 says. What was compared is left
/// in the module's `plan.search`. Fails with what the smallest needs where none fits.
FailureOr<OwningOpRef<ModuleOp>> searchSchedule(ModuleOp graph, const ParsedSchedule &schedule,
                                                const PlanOptions &options);

/// The same over chunk counts and strategies that need less memory than `schedule`, which needs `bytes`.
FailureOr<OwningOpRef<ModuleOp>> searchToFit(ModuleOp graph, const ParsedSchedule &schedule, const PlanOptions &options,
                                             int64_t bytes);

/// MPipeMoE's Eq. 10: seconds of the first layer of `graph` in `schedule`, by strategy from None to S4. Fails where the
/// cluster does not say what the rates are.
llvm::Expected<SmallVector<double, 5>> getStrategySeconds(ModuleOp graph, const ParsedSchedule &schedule,
                                                          const PlanOptions &options);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_OPENCHOICES_H
