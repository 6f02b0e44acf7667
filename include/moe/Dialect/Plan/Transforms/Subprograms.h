//===- Subprograms.h - what launches of a program run again -----*- C++ -*-===//
//
// A launch of "repeat" runs a subprogram as often as a value of the run demands. Passes on plans see one launch on
// `compute`. It stands for all runs: the subprogram's streams begin after `compute`, and `compute` ends after them. Ops
// before the launch therefore come before all launches of the subprogram, and ops after it come after them.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_SUBPROGRAMS_H
#define MOE_DIALECT_PLAN_TRANSFORMS_SUBPROGRAMS_H

#include "mlir/IR/BuiltinOps.h"

#include "moe/Dialect/Plan/IR/RankProgram.h"

namespace mlir::plan {

/// Number (i64), from 1, of the run of a subprogram to which an inlined launch belongs. Launches of Inlined::Repeatedly
/// have none.
inline constexpr StringLiteral kPassAttrName = "plan.pass";

/// Form of an inlined subprogram: a loop that runs as often as a value demands, or the ops once.
enum class Inlined { Repeatedly, Once };

/// Puts the ops of subprograms where launches run them, and erases the subprograms. Their buffers lie in the memory
/// that the launch has for them, and their events follow those of the program. Fails after an error if a launch does
/// not suit its subprogram.
LogicalResult inlineSubprograms(ModuleOp plan, Inlined form);
/// Inlines each subprogram with `times(launch)` runs.
LogicalResult inlineSubprograms(ModuleOp plan, function_ref<int64_t(LaunchOp)> times);

/// Fails after an error if a launch in `program` does not suit the subprogram that it runs.
LogicalResult verifyLaunchesOfSubprograms(func::FuncOp program);
/// Fails after an error if a stream of `subprogram` does not begin after `compute`, or `compute` does not end after it.
LogicalResult verifyClosed(func::FuncOp subprogram);

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_TRANSFORMS_SUBPROGRAMS_H
