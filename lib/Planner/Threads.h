//===- Threads.h - candidates on several threads ----------------*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_THREADS_H
#define MOE_LIB_PLANNER_THREADS_H

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::moe {

/// Calls `run` with 0 to `count` - 1 on the threads of `context`, and then returns freed memory to the system.
void forAll(MLIRContext *context, size_t count, llvm::function_ref<void(size_t)> run);

/// Calls `isGood` with 0, 1, .. until it was true `enough` times, or `count` is reached, or `goesOn` is false, which is
/// given the number of times. A few calls are made at once, the same on one thread as on several.
void takeWhileFew(MLIRContext *context, size_t count, size_t enough, llvm::function_ref<bool(size_t)> isGood,
                  llvm::function_ref<bool(size_t)> goesOn);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_THREADS_H
