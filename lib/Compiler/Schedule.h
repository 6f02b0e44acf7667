//===- Schedule.h - the schedules by name -----------------------*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_SCHEDULE_H
#define MOE_LIB_COMPILER_SCHEDULE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

#include "moe/Compiler/Compiler.h"

namespace mlir::moe {

/// Appends the passes that turn the baseline forward into options.schedule (names joined by '+', in any order). Fails
/// with an error that lists the known names, says which exclude each other, or what of the cluster is not known.
/// `graph` is what is compiled.
LogicalResult addSchedule(PassManager &passes, const CompileOptions &options, ModuleOp graph);
/// Appends what the schedule does with forward and backward alike; addSchedule's passes have made `forward`.
void addOverlap(PassManager &passes, const CompileOptions &options, func::FuncOp forward);
/// The schedule that stands for S2 where 'auto' chooses between it and 's1' on these options' cluster.
StringRef getS2OfAuto(const CompileOptions &options);

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_SCHEDULE_H
