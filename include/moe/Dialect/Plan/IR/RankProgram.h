//===- RankProgram.h - the programs of a plan ------------------*- C++ -*-===//
#ifndef MOE_DIALECT_PLAN_IR_RANKPROGRAM_H
#define MOE_DIALECT_PLAN_IR_RANKPROGRAM_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include "moe/Dialect/Plan/IR/PlanDialect.h"

namespace mlir::plan {

/// On a module: the schedule, names joined by '+', and the mode, train or forward.
inline constexpr StringLiteral kScheduleAttrName = "plan.schedule";
inline constexpr StringLiteral kModeAttrName = "plan.mode";
/// On a module that was compiled from a model graph: the floating-point operations that the model needs for a step by
/// its definition (f64), and the tokens of a step (i64), both of all ranks together. docs/CostModel.md says what
/// counts.
inline constexpr StringLiteral kModelFlopsAttrName = "plan.model_flops";
inline constexpr StringLiteral kTokensAttrName = "plan.tokens";

/// Succeeds where `function` is a rank program: one block of plan ops, with loops perhaps, that ends in a return of
/// nothing, arguments that runtime calls can take. Else fails after an error.
LogicalResult verifyRankProgram(func::FuncOp function);

/// Whether `function` has a body with plan ops, and is no subprogram.
bool isRankProgram(func::FuncOp function);
/// Whether `function` is run by launches of other programs, `plan.subprogram`.
bool isSubprogram(func::FuncOp function);
/// The subprogram of a launch; null where it has none.
func::FuncOp getSubprogram(LaunchOp launch);
/// Those of a plan, without its one-rank reference, in the order of their ranks.
SmallVector<func::FuncOp> getRankPrograms(ModuleOp plan);

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// How many iterations of a loop are looked at.
using Iterations = function_ref<int64_t(LoopOp)>;

/// All of them.
int64_t getCount(LoopOp loop);
/// By how many micro-batches an iteration is ahead of the one before; 1 where the loop does not say it.
int64_t getMicroBatches(LoopOp loop);
/// Enough of them that each slot of a ring was taken, freed and taken again, where it depends only on how many
/// iterations lie between two launches whether they touch the same bytes, and their order. So what holds for these
/// iterations holds for any number of them. All of them, where rings or events are used in other ways, too.
int64_t getRepresentative(LoopOp loop);

/// Calls visit(op, iteration) for all ops but loops, in the order in which they are issued. The iteration of an op
/// behind a loop is the number of the loop's iterations; before loops it is 0.
void forEachIssued(func::FuncOp program, Iterations iterations, function_ref<void(Operation *, int64_t)> visit);

/// How often a step issues `op`.
int64_t getTimes(Operation *op);

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

/// The stream of a launch, record or wait; empty for other ops.
StringRef getStreamOf(Operation *op);
/// The streams of a rank program in the order in which they first appear.
SmallVector<StringRef> getStreams(func::FuncOp program);

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_IR_RANKPROGRAM_H
