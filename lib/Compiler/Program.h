//===- Program.h - one program of a plan ------------------------*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_PROGRAM_H
#define MOE_LIB_COMPILER_PROGRAM_H

#include "Stages.h"

namespace mlir::moe {

struct CompiledProgram {
  OwningOpRef<ModuleOp> module;
  /// The name of the schedule, without the parts that no layer could be given.
  std::string applied;
};

/// Compiles a prepared graph to the rank program, whose routing `graph` then has too, or to the reference. Many
/// micro-batches become a loop, if that is possible and the plan fits into the device's memory.
FailureOr<CompiledProgram> compileProgram(ModuleOp graph, const ParsedSchedule &schedule, const CompileOptions &options,
                                          bool reference);

/// Lowers the rank program to a plan. With options.leaveOutOrder it stays in the program's order, without memory.
LogicalResult lowerToPlan(ModuleOp module, const ParsedSchedule &schedule, const CompileOptions &options,
                          const ProgramForm &form = {}, StringRef prefix = "");
/// Gives a plan in the program's order its own order, waits and memory.
LogicalResult orderAndAssign(ModuleOp module, const ParsedSchedule &schedule, const CompileOptions &options,
                             const ProgramForm &form = {}, StringRef prefix = "");

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_PROGRAM_H
