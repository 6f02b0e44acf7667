//===- Compiler.h - from a model graph to a plan ----------------*- C++ -*-===//
#ifndef MOE_COMPILER_COMPILER_H
#define MOE_COMPILER_COMPILER_H

#include <functional>
#include <optional>
#include <string>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include "moe/Compiler/StepChoice.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/LaunchOrder/Order.h"
#include "moe/Simulator/Report.h"

namespace mlir::moe {
struct ClusterProfile;
struct ParsedSchedule;

/// The dialects of every stage, and their translation to LLVM IR.
void registerDialects(DialectRegistry &registry);

/// The last stage: the forward program in its schedule, the whole rank program, or a plan.
enum class Stage { Forward, Spmd, Plan };

/// Bound on micro-batches, more than any step has: the length of a plan without a loop grows with them.
inline constexpr int64_t kMaxMicroBatches = 65536;

/// Runs a stage of the compiler. Arguments are its name, its passes, and a function that runs them. A runner must call
/// this function.
using PassRunner = std::function<LogicalResult(llvm::StringRef, PassManager &, llvm::function_ref<LogicalResult()>)>;

struct CompileOptions : StepChoice {
  /// Forward and backward, or forward only.
  bool train = true;
  Stage stage = Stage::Plan;
  /// Whether the plan has the one-rank reference, which moe-run --verify needs.
  bool reference = true;
  /// Whether many micro-batches may become a loop, which keeps the plan short. Each stage has memory of its own in it.
  bool hasLoop = true;
  /// Bytes of the device's memory that one rank may use: arena, arguments, results and the optimizer's states. A plan
  /// that needs more is tried in more chunks and with less kept for the backward, before that with the order `search`
  /// in other orders of the pipeline. 0: no limit.
  int64_t memoryLimit = 0;
  /// Largest number of bytes that a device of the pipeline keeps for gradients (moe-order-micro-batches); 0: no limit.
  int64_t mostKept = 0;
  /// Refuses a schedule that drops other tokens than the baseline does.
  bool keepsDrops = false;
  /// Marks launches with their part of the program, in the forward or the backward: the parts that stages can be made
  /// of (moe-cut-stages with stages=0). Samples have it, which have one stage.
  bool markParts = false;
  /// Sums gradients of 16-bit parameters in f32, over micro-batches and ranks (moe-differentiate).
  bool wideGradients = false;
  /// Lets the program of a graph with a loss update its parameters. Absent: gradients are results.
  std::optional<MoeOptimizeOptions> optimizer;
  /// Bytes of a bucket of parameters (moe-bucket-parameters). Absent: start-ups take little of an exchange.
  std::optional<int64_t> bucketBytes;
  /// Number of neighbouring ranks over which ZeRO divides; 0: all.
  int64_t zeroRanks = 0;
  /// Groups inside this many neighbouring ranks exchange inside a node.
  int64_t devicesPerNode = 8;
  /// The order of the plan's launches. Absent: for layers in chunks the best that a search finds on the cluster, or
  /// MPipeMoE's if it cannot be priced there; otherwise the program's.
  std::optional<OrderPolicy> order;
  /// Decides by times. May be null if nothing depends on times.
  const ClusterProfile *cluster = nullptr;
  /// The forward program of the same model in larger sizes, which decides what depends on times and bytes. May be null.
  ModuleOp choices;
  /// Leaves out moe-verify-spmd and plan-verify, of plans that are only compared.
  bool leaveOutProofs = false;
  /// Stops before the order of launches, which orderCompiled() makes; without a reference.
  bool leaveOutOrder = false;
  /// Runs the passes of the plan that is returned, and of no candidate that a search compiles. Null: they just run.
  PassRunner runPasses;
  /// The path of the cluster's file, for passes in text; may be empty.
  std::string clusterPath;
};

/// Tokens of all ranks in a micro-batch of a model graph: rows of its first input. 0 if it has none.
int64_t getTokens(ModuleOp graph);

/// The work of a step for the model, on all ranks together. compileSchedule() records it.
StepWork getModelWork(ModuleOp graph, const CompileOptions &options);

/// Numbers of parameters of a model graph.
struct ParameterCounts {
  int64_t all = 0;
  int64_t active = 0; ///< those that a token uses: all but the experts that it does not choose
};
ParameterCounts countParameters(ModuleOp graph);

/// Copies a model graph for `options`, without dead layers. Fails if no schedule accepts the graph and these options.
FailureOr<OwningOpRef<ModuleOp>> prepareGraph(ModuleOp graph, const CompileOptions &options);

/// Compiles a prepared graph in one schedule that is not open, and ignores memoryLimit. The module has the rank program
/// `@rank`, or with pp > 1 a program for each device of the pipeline (`@stage0`, `@stage1`, ..), and then the one-rank
/// reference `@reference`. Errors are reported at the ops. At the SPMD stage, `moe.label` on an op names its layer, and
/// compileSpmd() accepts the module.
FailureOr<OwningOpRef<ModuleOp>> compileSchedule(ModuleOp graph, const ParsedSchedule &schedule,
                                                 const CompileOptions &options);

/// Smallest number of micro-batches whose programs differ from those of `options` only in how often loops run. Each
/// `further` step adds a few.
int64_t getFewestMicroBatches(const CompileOptions &options, int64_t further = 0);

/// Completes a plan that compileSchedule() made with leaveOutOrder. The options are the same, except perhaps `order`.
LogicalResult orderCompiled(ModuleOp plan, const ParsedSchedule &schedule, const CompileOptions &options);

/// Whether a module is the program of a rank, by its header and its ops.
bool isSpmdProgram(ModuleOp module);

/// Checks a module at the SPMD stage, which may be handwritten, and compiles it from there. The module has `@rank`,
/// `moe.parallel` and optionally `@reference`. Only these options have an effect: stage, reference, order, cluster,
/// devicesPerNode and runPasses.
FailureOr<OwningOpRef<ModuleOp>> compileSpmd(ModuleOp program, const CompileOptions &options);

/// Checks a module at the plan stage, which may be handwritten, and verifies it with plan-verify.
LogicalResult provePlan(ModuleOp plan, const CompileOptions &options);

/// Splits a plan into its forward and its backward (plan-extract-half), for a caller that runs other code between them.
/// The result has two variants, forward and backward (moe/Conversion/Variants.h), and no reference.
FailureOr<OwningOpRef<ModuleOp>> compileHalves(ModuleOp plan, const CompileOptions &options);

/// Lowers a plan to LLVM, with the plan's metadata.
LogicalResult lowerToLLVM(ModuleOp plan, const PassRunner &runPasses = nullptr);

} // namespace mlir::moe

#endif // MOE_COMPILER_COMPILER_H
