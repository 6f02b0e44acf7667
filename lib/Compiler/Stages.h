//===- Stages.h - what the files of the compiler share ----------*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_STAGES_H
#define MOE_LIB_COMPILER_STAGES_H

#include "moe/Compiler/Schedule.h"

namespace mlir::moe {

#ifdef NDEBUG
inline constexpr bool kVerifySteps = false;
#else
/// Whether IR of whole steps is verified after each pass. compileSchedule() verifies the plan in any case.
inline constexpr bool kVerifySteps = true;
#endif

/// Whether passes of whole steps are followed by a check of the IR. Plans that are only compared leave it out, since
/// that takes almost half of the time.
inline bool verifiesSteps(const CompileOptions &options) { return kVerifySteps && !options.leaveOutProofs; }

/// Runs the passes that `add` appends. No other function makes a pass manager, so that `runner` sees all stages.
LogicalResult runStage(const PassRunner &runner, const llvm::Twine &stage, ModuleOp module,
                       function_ref<void(PassManager &)> add, bool verify = true);

/// The only function of a model graph.
func::FuncOp getFunction(ModuleOp module);

//===----------------------------------------------------------------------===//
// Programs of ranks as text
//===----------------------------------------------------------------------===//

/// Names of the functions of a module that was compiled from a model graph.
inline constexpr StringLiteral kRankName = "rank", kReferenceName = "reference";

/// Attribute of a module at the SPMD stage: the schedule that was asked for, if `plan.schedule`, the applied part of
/// it, is another. It decides whether the launches are put into another order.
inline constexpr StringLiteral kRequestedAttrName = "plan.requested";

/// Attributes of a module at the SPMD stage.
struct SpmdHeader {
  ParallelAttr parallel;
  ParsedSchedule schedule;
  std::optional<OrderPolicy> order;
};

/// Converts a module at the SPMD stage, which may be handwritten, to the form that compileSchedule() produces, and
/// returns its header. Fails with an error unless its functions are `@rank` and perhaps `@reference`. `reference` says
/// whether to keep the latter.
FailureOr<SpmdHeader> takeSpmdHeader(ModuleOp module, bool reference);

/// Checks that each type of the program is small enough to count the bytes of many such values in 64 bits.
LogicalResult checkSizes(func::FuncOp program);

/// Checks that arguments and results, which are found by name at run time, have different names and one of the roles.
LogicalResult checkNames(func::FuncOp function, StringRef what, ArrayRef<StringRef> argumentRoles,
                         ArrayRef<StringRef> resultRoles);

//===----------------------------------------------------------------------===//
// Parts of a schedule
//===----------------------------------------------------------------------===//

/// Appends the passes of one part of a schedule.
using AddPasses = void(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options);
AddPasses addParmAuto, addOnce, addHier, addChunks, addResiduals, addShadows, addSmart;

/// Appends one pass without options.
template <std::unique_ptr<Pass> (*create)()>
void addPass(PassManager &passes, const ParsedSchedule &, const CompileOptions &) {
  passes.addNestedPass<func::FuncOp>(create());
}
template <PauseMpSchedule schedule> void addPause(PassManager &passes, const ParsedSchedule &, const CompileOptions &) {
  passes.addNestedPass<func::FuncOp>(createMoePauseMp({schedule}));
}

/// Checks that layers are dropless where shadows or the smart schedule change ragged exchanges.
LogicalResult checkLayers(const ParsedSchedule &schedule, ModuleOp graph);
/// Appends the passes that turn the baseline forward into `schedule`, which is not open.
AddPasses addSchedule;
/// Appends the passes that change the forward and the backward alike. addSchedule()'s passes have made `forward`.
void addOverlap(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                func::FuncOp forward);
/// `schedule` without the parts whose passes left every layer of `forward` as it is.
ParsedSchedule getApplied(ParsedSchedule schedule, func::FuncOp forward);

/// Number of phases of Parm's SAA; 1 unless the exchange leaves the node and the gather over mp does not.
int64_t getSaaPhases(const CompileOptions &options);

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// The form of a program with many micro-batches.
struct ProgramForm {
  /// Micro-batches that are written out; a loop in the plan stands for the others. 0: all, without a loop.
  int64_t written = 0;
  /// Whether passes see only three micro-batches, until moe-repeat-micro-batches writes the others.
  bool repeats = true;
};

/// Number of micro-batches that passes see with ProgramForm::repeats.
inline constexpr int64_t kRepeated = 3;

/// The rates of options.cluster that the passes of `schedule` need. Fails with an error if there are none.
FailureOr<ClusterAttr> describeCluster(ModuleOp graph, const ParsedSchedule &schedule, const CompileOptions &options);

/// Appends passes from the model graph to the forward rank program, or without a `cluster` to the reference.
void addForwardPasses(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                      ModuleOp graph, ClusterAttr cluster);
/// Appends passes from the forward program to the whole rank program.
void addBackwardPasses(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                       const ProgramForm &form, func::FuncOp forward, bool reference);
/// Appends passes from a plan in its order to its waits and memory.
void addPlanPasses(PassManager &passes, const CompileOptions &options);

/// moe-price-ops on a cluster that was read already, and outlives the pass. `path` is printed with the pass.
std::unique_ptr<Pass> createMoePriceOps(const ClusterProfile &profile, StringRef path);

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

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

#endif // MOE_LIB_COMPILER_STAGES_H
