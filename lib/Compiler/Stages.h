//===- Stages.h - the passes of each stage of the compiler ------*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_STAGES_H
#define MOE_LIB_COMPILER_STAGES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

#include "moe/Compiler/Schedule.h"

namespace mlir::moe {

/// The form of a program with many micro-batches.
struct ProgramForm {
  /// Micro-batches that the program writes out. A loop in the plan stands for the others. 0: all are written, and there
  /// is no loop.
  int64_t written = 0;
  /// Whether passes see three micro-batches, which stand for all that are written (moe-repeat-micro-batches).
  bool repeats = true;
};

/// Number of micro-batches that stand for any larger number.
inline constexpr int64_t kRepeated = 3;

#ifdef NDEBUG
inline constexpr bool kVerifySteps = false;
#else
/// Whether IR is verified after each pass, also of the long programs of whole steps. compileSchedule() verifies the
/// plan in any case.
inline constexpr bool kVerifySteps = true;
#endif

/// Runs the passes that `add` appends. This is the only place where the compiler makes a pass manager, so that `runner`
/// sees all stages.
LogicalResult runStage(const PassRunner &runner, const llvm::Twine &stage, ModuleOp module,
                       function_ref<LogicalResult(PassManager &)> add, bool verify = true);

/// The only function of a model graph.
func::FuncOp getFunction(ModuleOp module);

/// Appends passes from the model graph to the forward rank program in its schedule, or to the reference.
LogicalResult addForwardPasses(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                               ModuleOp graph, bool reference);
/// Appends passes from the forward program to the whole rank program.
void addBackwardPasses(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                       const ProgramForm &form, func::FuncOp forward, bool reference);
/// Appends passes from the rank program to a plan in the program's order.
void addConversion(PassManager &passes);
/// Appends passes from a plan in its order to its waits and memory.
void addPlanPasses(PassManager &passes, const CompileOptions &options);

/// Puts the launches of a plan's programs into the order that `options` ask for.
LogicalResult orderPrograms(ModuleOp module, const ParsedSchedule &schedule, const CompileOptions &options);

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_STAGES_H
