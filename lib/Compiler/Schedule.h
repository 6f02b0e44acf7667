//===- Schedule.h - the schedules by name -----------------------*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_SCHEDULE_H
#define MOE_LIB_COMPILER_SCHEDULE_H

#include "mlir/Pass/PassManager.h"

namespace mlir::moe {

/// Appends the passes that turn the baseline forward into the schedule of that name (names joined by '+', in any
/// order). Fails with an error that lists the known names.
LogicalResult buildSchedule(PassManager &passes, StringRef schedule);

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_SCHEDULE_H
