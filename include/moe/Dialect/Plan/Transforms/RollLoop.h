//===- RollLoop.h - micro-batches as iterations of a loop -------*- C++ -*-===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_ROLLLOOP_H
#define MOE_DIALECT_PLAN_TRANSFORMS_ROLLLOOP_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::plan {

/// Makes a plan.loop of the steady state of `program`, whose launches are those of the first n of N micro-batches
/// (`moe.micro_batch`), so that the program becomes one of all N. Fails after an error where it has no steady state:
/// where no two consecutive sequences of launches are the same but for their micro-batches. The program is then of no
/// use.
LogicalResult rollLoop(func::FuncOp program);

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_TRANSFORMS_ROLLLOOP_H
