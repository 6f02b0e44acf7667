//===- SchedulePasses.h - the passes of each part of a schedule -*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_SCHEDULEPASSES_H
#define MOE_LIB_COMPILER_SCHEDULEPASSES_H

#include "moe/Compiler/Schedule.h"

namespace mlir::moe {

/// Appends the passes of one part of a schedule, for `graph`. Fails with an error that says what the graph or the
/// cluster lacks.
using AddPasses = LogicalResult(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                                ModuleOp graph);
AddPasses addS1, addS2, addParmAuto, addOnce, addHier, addChunks, addResiduals, addShadows, addSmart;

/// Number of phases of Parm's SAA; 1 if it is not possible. The exchange must leave the node and the gather over mp
/// must not, so that they are on different streams.
int64_t getSaaPhases(const CompileOptions &options);

/// Appends one pass without options.
template <std::unique_ptr<Pass> (*create)()>
LogicalResult addPass(PassManager &passes, const ParsedSchedule &, const CompileOptions &, ModuleOp) {
  passes.addNestedPass<func::FuncOp>(create());
  return success();
}

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_SCHEDULEPASSES_H
