//===- Subprograms.h - what launches of a program run again -----*- C++ -*-===//
//
// A launch of "repeat" runs a subprogram as often as a value of the run says. Passes on plans see one launch on
// `compute`. It holds for all runs: the subprogram's streams begin behind `compute`, and `compute` ends behind them. So
// what comes before the launch comes before all of its launches, and what comes behind it behind them.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_SUBPROGRAMS_H
#define MOE_DIALECT_PLAN_TRANSFORMS_SUBPROGRAMS_H

#include "mlir/IR/BuiltinOps.h"

#include "moe/Dialect/Plan/IR/RankProgram.h"

namespace mlir::plan {

/// On a launch (i64) that Inlined::Repeatedly does not have: which run of a subprogram it is in, from 1.
inline constexpr StringLiteral kPassAttrName = "plan.pass";

/// What takes the place of a launch that runs a subprogram: a loop whose value says how often, or the subprogram's ops
/// once.
enum class Inlined { Repeatedly, Once };

/// Puts the ops of subprograms where launches run them, and erases the subprograms. Their buffers lie in the memory
/// that the launch has for them, and their events are behind those of the program. Fails after an error where a launch
/// does not suit its subprogram.
LogicalResult inlineSubprograms(ModuleOp plan, Inlined form);
/// The same with so many runs of each, `times(launch)`.
LogicalResult inlineSubprograms(ModuleOp plan, function_ref<int64_t(LaunchOp)> times);

/// Fails after an error where a launch in `program` does not suit the subprogram that it runs.
LogicalResult verifyLaunchesOfSubprograms(func::FuncOp program);
/// Fails after an error where a stream of `subprogram` does not begin behind `compute`, or `compute` does not end
/// behind it.
LogicalResult verifyClosed(func::FuncOp subprogram);

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_TRANSFORMS_SUBPROGRAMS_H
