//===- RollLoop.h - micro-batches as iterations of a loop -------*- C++ -*-===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_ROLLLOOP_H
#define MOE_DIALECT_PLAN_TRANSFORMS_ROLLLOOP_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::plan {

/// Makes a plan.loop of the steady state of `program`, whose launches are those of the first n of N micro-batches
/// (`moe.micro_batch`). The result is a program of all N. Fails after an error if there is no steady state: no two
/// consecutive sequences of launches that differ in nothing but their micro-batches. The program cannot be used then.
LogicalResult rollLoop(func::FuncOp program);

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_TRANSFORMS_ROLLLOOP_H
