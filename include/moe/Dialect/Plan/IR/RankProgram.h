//===- RankProgram.h - the programs of a plan ------------------*- C++ -*-===//
#ifndef MOE_DIALECT_PLAN_IR_RANKPROGRAM_H
#define MOE_DIALECT_PLAN_IR_RANKPROGRAM_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include "moe/Dialect/Plan/IR/PlanDialect.h"

namespace mlir::plan {

/// Schedule of a module, names joined by '+', and its mode, train or forward.
inline constexpr StringLiteral kScheduleAttrName = "plan.schedule";
inline constexpr StringLiteral kModeAttrName = "plan.mode";
/// Floating-point operations that the model needs for a step by its definition (f64), and tokens of a step (i64), both
/// of all ranks together, on a module that was compiled from a model graph. docs/Outputs.md defines what counts.
inline constexpr StringLiteral kModelFlopsAttrName = "plan.model_flops";
inline constexpr StringLiteral kTokensAttrName = "plan.tokens";
/// Array of different texts: what the MoE layers of the model compute, apart from sizes, capacities and schedules.
inline constexpr StringLiteral kLayersAttrName = "plan.layers";

/// Succeeds if `function` is a rank program: one block of plan ops, with or without loops, that ends in a return
/// without operands, and arguments that runtime calls can take. Otherwise it fails after an error.
LogicalResult verifyRankProgram(func::FuncOp function);

/// Whether `function` has a body with plan ops and is no subprogram.
bool isRankProgram(func::FuncOp function);
/// Whether `function` is a subprogram, which launches of other programs run (`plan.subprogram`).
bool isSubprogram(func::FuncOp function);
/// The subprogram of a launch, or null if it has none.
func::FuncOp getSubprogram(LaunchOp launch);
/// The rank programs of a plan in the order of their ranks, without its one-rank reference.
SmallVector<func::FuncOp> getRankPrograms(ModuleOp plan);

/// Ranks that run a program.
struct Ranks {
  int64_t first, count;
};
/// Ranks by `plan.ranks`. Without it they are all ranks of `world`.
Ranks getRanks(func::FuncOp program, int64_t world = 0);
/// Fails after an error unless each rank runs one of `programs`, which are in the order of their ranks. `world` is 0 if
/// unknown.
LogicalResult verifyCoverage(ArrayRef<func::FuncOp> programs, int64_t world);
/// Fails after an error if a launch has no stream.
LogicalResult verifyStreams(func::FuncOp program);

/// Number of ranks of the program, by the `moe.parallel` of `op` or its parents, or 0 if there is none.
int64_t getWorld(Operation *op);
/// Number of arguments that are inputs, which is all without `plan.inputs`.
int64_t getNumInputs(func::FuncOp program);
/// Bytes of an arena, or none before plan-assign-memory.
std::optional<int64_t> getArenaBytes(func::FuncOp program, Space space);

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// Number of iterations of a loop that an analysis looks at.
using Iterations = function_ref<int64_t(LoopOp)>;

/// Number of micro-batches that an iteration is ahead of the one before, 1 by default.
int64_t getMicroBatches(LoopOp loop);
/// Number of iterations that stands for all. Each slot of a ring is taken, freed and taken again in them. The number is
/// smaller than all only if two launches touch the same bytes, and have their order, by nothing but the number of
/// iterations between them.
int64_t getRepresentative(LoopOp loop);

/// Calls visit(op, iteration) for all ops but loops, in the order in which they are issued. The iteration of an op
/// behind a loop is the number of the loop's iterations; before loops it is 0.
void forEachIssued(func::FuncOp program, Iterations iterations, function_ref<void(Operation *, int64_t)> visit);

/// Number of times that a step issues `op`.
int64_t getTimes(Operation *op);

//===----------------------------------------------------------------------===//
// Streams and events
//===----------------------------------------------------------------------===//

/// The stream of a launch, record or wait, or an empty name for other ops.
StringRef getStreamOf(Operation *op);
/// The streams of a rank program in the order in which they first appear.
SmallVector<StringRef> getStreams(func::FuncOp program);
/// One more than the last event that the program records.
int64_t getNumEvents(func::FuncOp program);

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_IR_RANKPROGRAM_H
