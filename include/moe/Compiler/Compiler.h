//===- Compiler.h - from a model graph to a plan ----------------*- C++ -*-===//
#ifndef MOE_COMPILER_COMPILER_H
#define MOE_COMPILER_COMPILER_H

#include <functional>
#include <optional>
#include <string>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"
#include "moe/Dialect/Moe/Transforms/OptimizerPass.h"
#include "moe/Dialect/Moe/Transforms/PipelineOrder.h"
#include "moe/LaunchOrder/Order.h"
#include "moe/Simulator/Report.h"

namespace mlir {
class DialectRegistry;
class PassManager;
} // namespace mlir

namespace mlir::moe {
struct ClusterProfile;
struct ParsedSchedule;

/// The dialects of every stage, and their translation to LLVM IR.
void registerDialects(DialectRegistry &registry);

/// How far to compile: to the forward program in its schedule, to all of the rank program, or to a plan.
enum class Stage { Forward, Spmd, Plan };

/// What the backward computes again instead of keeping it, from nothing to most: ops that only move memory, and save
/// many bytes for their time; all that only move memory; all that a block does but what takes 4, 8 or 12 times as long
/// to compute as to write; all that a block does.
enum class Recompute { None, Light, Selective, Cheap4, Cheap6, Cheap8, Cheap, Block };
/// "none", "light", "selective", "cheap-4", "cheap-6", "cheap-8", "cheap", "block".
StringRef getName(Recompute recompute);
std::optional<Recompute> parseRecompute(StringRef name);

/// More than any step has. A plan without a loop is as long as its micro-batches are many.
inline constexpr int64_t kMaxMicroBatches = 65536;

/// Runs a stage of the compiler: it is given the stage's name, its passes, and what runs them, which it has to call.
using PassRunner = std::function<LogicalResult(llvm::StringRef, PassManager &, llvm::function_ref<LogicalResult()>)>;

struct CompileOptions {
  ParallelAttr parallel;
  /// Forward and backward, or forward only.
  bool train = true;
  Stage stage = Stage::Plan;
  /// Whether the plan has the one-rank reference, which moe-run --verify needs.
  bool reference = true;
  /// A step's batches of the graph's inputs, whose gradients are added up. More than one needs a graph with a loss.
  int64_t microBatches = 1;
  /// The micro-batches that programs write out. A loop in the plan stands for the others. 0: all are written, and there
  /// is no loop. compileSchedule() chooses it if `hasLoop` allows it.
  int64_t written = 0;
  /// Whether passes see three micro-batches, which stand for all that are written (moe-repeat-micro-batches).
  bool repeats = true;
  /// Whether many micro-batches may become a loop, in which case the size of the plan does not grow with them. In a
  /// loop, the stages of a device have memory of their own. So where the plan does not fit, one without a loop is made.
  bool hasLoop = true;
  /// Bytes of the device's memory that one rank may use: arena, arguments, results and the optimizer's states. What
  /// does not fit is tried in more chunks and with less kept for the backward, before that with the order `search` in
  /// other orders of the pipeline. 0: no limit.
  int64_t memoryLimit = 0;
  /// Stages of a pipeline for each of its devices. See describeMistake(PipelineShape) for what the order needs.
  int64_t interleave = 1;
  PipelineOrder pipelineOrder = PipelineOrder::OneForwardOneBackward;
  /// Neighbouring micro-batches whose forwards are ordered together, and whose backwards are. It divides microBatches.
  int64_t sideBySide = 1;
  /// The most bytes that a device of the pipeline keeps for gradients, as moe-order-micro-batches takes it; 0: no
  /// limit.
  int64_t mostKept = 0;
  /// Where stages begin and end, as moe-cut-stages takes it; empty: where they take about equal time at the rates of
  /// the cluster.
  SmallVector<int64_t> stageBoundaries;
  Recompute recompute = Recompute::None;
  /// Launches say which part of the program they belong to, in the forward or the backward: the parts that stages can
  /// be made of (moe-cut-stages with stages=0). For samples, which have one stage.
  bool markParts = false;
  /// Norms, dropout and residual sums on each rank's part of the tokens over mp (moe-sequence-parallel).
  bool sequenceParallel = false;
  /// Where cp divides sequences, keys and values go round its members, and no rank gathers them (moe-ring-attention).
  bool ringAttention = false;
  /// Gradients of 16-bit parameters are summed in f32, over micro-batches and ranks (moe-differentiate).
  bool wideGradients = false;
  /// Of a graph with a loss: the program updates its parameters. Absent: gradients are results.
  std::optional<MoeOptimizeOptions> optimizer;
  /// With an optimizer, the stage of ZeRO, and the bytes of a bucket (moe-bucket-parameters). Absent: such that
  /// start-ups take little of an exchange.
  int64_t zero = 0;
  std::optional<int64_t> bucketBytes;
  /// ZeRO divides over blocks of so many neighbouring ranks; 0: over all.
  int64_t zeroRanks = 0;
  /// Groups that lie inside so many neighbouring ranks exchange inside a node.
  int64_t devicesPerNode = 8;
  /// The order of the plan's launches. Absent: where layers are in chunks, what a search finds on the cluster, or
  /// MPipeMoE's where that cannot price it; else the program's.
  std::optional<OrderPolicy> order;
  /// For what is decided by times; else it may be null.
  const ClusterProfile *cluster = nullptr;
  /// The forward program (Stage::Forward) of the same model in larger sizes. What passes decide by times and bytes is
  /// taken from it: the stages, what is computed again, and which parameters share a bucket. May be null.
  ModuleOp choices;
  /// Leaves out moe-verify-spmd and plan-verify, of plans that are only compared.
  bool leaveOutProofs = false;
  /// Stops before the order of launches, which orderCompiled() makes; without a reference.
  bool leaveOutOrder = false;
  /// Runs the passes of the plan that is returned, and of no candidate that a search compiles. Null: they just run.
  PassRunner runPasses;
  /// Of the cluster's file, for pipelines in text; may be empty.
  std::string clusterPath;

  /// Whether ops have stages. Also on one device, forward and backward are told by them where they are ordered apart.
  bool hasStages() const { return parallel.getPp() > 1 || splitsBackward(pipelineOrder) || sideBySide > 1; }
  /// Of the step's units, with all stages.
  PipelineShape getPipelineShape() const {
    int64_t pp = parallel.getPp();
    return {pp, pp * interleave, microBatches / sideBySide, train, pipelineOrder};
  }
};

/// Reads `pp=1,dp=4,cp=1,mp=2,ep=4,esp=2`. What is not given is 1, except dp, which is what the expert part needs:
/// max(1, ep * esp / (cp * mp)). Errors are reported at an unknown location.
FailureOr<ParallelAttr> parseParallel(MLIRContext *context, StringRef text);

/// Tokens of all ranks in a micro-batch of a model graph: rows of its first input. 0 where it has none.
int64_t getTokens(ModuleOp graph);

/// What a step of a model graph with `options` does for the model, on all ranks together. compileSchedule() records it.
StepWork getModelWork(ModuleOp graph, const CompileOptions &options);

/// A copy of a model graph (one function) for `options`, without layers that nobody needs. Fails where the graph or the
/// options cannot be compiled, whatever the schedule.
FailureOr<OwningOpRef<ModuleOp>> prepareGraph(ModuleOp graph, const CompileOptions &options);

/// Compiles a prepared graph in a schedule that is not open, whatever memory it needs, to a module with the rank
/// program `@rank`, or with pp > 1 one for each device of the pipeline, `@stage0`, `@stage1`, .., and with the one-rank
/// reference `@reference` behind them. Errors are reported at the ops. At the SPMD stage `moe.label` on an op names its
/// layer, and the module is what compileSpmd() takes.
FailureOr<OwningOpRef<ModuleOp>> compileSchedule(ModuleOp graph, const ParsedSchedule &schedule,
                                                 const CompileOptions &options);

/// The fewest micro-batches whose programs are those of options.microBatches but for how often loops run. With
/// `further` steps of it, a few more.
int64_t getFewestMicroBatches(const CompileOptions &options, int64_t further = 0);

/// Makes a plan of what compileSchedule() made with `options`, but for leaveOutOrder. They may differ in `order`.
LogicalResult orderCompiled(ModuleOp plan, const ParsedSchedule &schedule, const CompileOptions &options);

/// Whether a module, by its header and its ops, is to be the program of a rank.
bool isSpmdProgram(ModuleOp module);

/// Checks a module at the SPMD stage, which may be written by hand, and compiles it from there on: `@rank` under the
/// module's `moe.parallel`, and a `@reference` if it has one. Of `options` it takes those about the stages behind:
/// stage, reference, order, cluster, devicesPerNode and runPasses.
FailureOr<OwningOpRef<ModuleOp>> compileSpmd(ModuleOp program, const CompileOptions &options);

/// Checks a module at the plan stage, which may be written by hand, and proves with plan-verify that it is one.
LogicalResult provePlan(ModuleOp plan, const CompileOptions &options);

/// The forward and the backward of a plan as plans of their own, for a caller that runs other code between them
/// (plan-extract-half). The result has two variants, forward and backward (moe/Conversion/Variants.h), and no
/// reference.
FailureOr<OwningOpRef<ModuleOp>> compileHalves(ModuleOp plan, const CompileOptions &options);

/// From the plan stage to LLVM, with the plan's metadata.
LogicalResult lowerToLLVM(ModuleOp plan, const PassRunner &runPasses = nullptr);

} // namespace mlir::moe

#endif // MOE_COMPILER_COMPILER_H
