//===- Compiler.h - from a model graph to a plan ----------------*- C++ -*-===//
#ifndef MOE_COMPILER_COMPILER_H
#define MOE_COMPILER_COMPILER_H

#include <functional>
#include <optional>
#include <string>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Schedule/Order.h"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::moe {
struct AutoResult;
struct ClusterProfile;
struct RoutingSource;

/// The dialects of every stage, and their translation to LLVM IR.
void registerDialects(DialectRegistry &registry);

/// How far to compile: to the forward program in its schedule, to all of the rank program, or to a plan.
enum class Stage { Forward, Spmd, Plan };

/// A program is as long as its micro-batches are many.
inline constexpr int64_t kMaxMicroBatches = 1024;

struct CompileOptions {
  ParallelAttr parallel;
  /// Names joined by '+'.
  std::string schedule = "baseline";
  /// Forward and backward, or forward only.
  bool train = true;
  Stage stage = Stage::Plan;
  /// Whether the plan has the one-rank reference, which moe-run --verify needs.
  bool reference = true;
  /// A step's batches of the graph's inputs, whose gradients are added up. More than one needs a graph with a loss.
  int64_t microBatches = 1;
  /// Stages of a pipeline for each of its devices: more than one is interleaved 1F1B, for which micro-batches are a
  /// multiple of pp.
  int64_t interleave = 1;
  /// Keep for the backward only what blocks hand over to each other, and compute the rest again.
  bool recompute = false;
  /// Norms, dropout and residual sums on each rank's part of the tokens over mp (moe-sequence-parallel).
  bool sequenceParallel = false;
  /// Of a graph with a loss: the program updates its parameters. Absent: gradients are results.
  std::optional<MoeOptimizeOptions> optimizer;
  /// Bytes of the device's memory that one rank may use: arena, arguments, results and the optimizer's states. What
  /// does not fit is tried in more chunks and with less kept for the backward. 0: no limit.
  int64_t memoryLimit = 0;
  /// Groups that lie inside so many neighbouring ranks exchange inside a node.
  int64_t devicesPerNode = 8;
  /// The order of the plan's launches. Absent: where layers are in chunks, what a search finds on the cluster, or
  /// MPipeMoE's where that cannot price it; else the program's.
  std::optional<OrderPolicy> order;
  /// For what is decided by times; else it may be null.
  const ClusterProfile *cluster = nullptr;
  /// What tokens choose, for 'auto'; null: evenly.
  const RoutingSource *routing = nullptr;
  /// 'auto' simulates every candidate, whatever is known of it before.
  bool exhaustive = false;
  /// 'auto' also finds what its choice depends on, which takes longer than the choice.
  bool findChanges = false;
  /// Hears from 'auto', after each schedule, what it has and the fewest seconds so far. May be null.
  std::function<void(const AutoResult &, double)> showProgress;
  /// Asked by 'auto', and while groups are compared, on any thread: true once the best so far has to do. May be null.
  std::function<bool()> isStopped;
  bool isStoppedEarly() const { return isStopped && isStopped(); }
};

/// Reads `pp=1,dp=4,mp=2,ep=4,esp=2`. What is not given is 1, except dp, which is what the expert part needs:
/// max(1, ep * esp / mp). Errors are reported at an unknown location.
FailureOr<ParallelAttr> parseParallel(MLIRContext *context, StringRef text);

/// Tokens of all ranks in a micro-batch of a model graph: rows of its first input. 0 where it has none.
int64_t getTokens(ModuleOp graph);

/// Compiles a model graph (one function) to a module with the rank program `@rank`, or with pp > 1 one for each device
/// of the pipeline, `@stage0`, `@stage1`, .., and, at the plan stage, the one-rank reference `@reference`. Errors are
/// reported at the ops.
FailureOr<OwningOpRef<ModuleOp>> compile(ModuleOp graph, const CompileOptions &options);

/// From the plan stage to LLVM, with the plan's metadata.
LogicalResult lowerToLLVM(ModuleOp plan);

} // namespace mlir::moe

#endif // MOE_COMPILER_COMPILER_H
