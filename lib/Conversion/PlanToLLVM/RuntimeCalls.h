//===- RuntimeCalls.h - launches against the runtime's calls ----*- C++ -*-===//
#ifndef MOE_LIB_CONVERSION_PLANTOLLVM_RUNTIMECALLS_H
#define MOE_LIB_CONVERSION_PLANTOLLVM_RUNTIMECALLS_H

#include "moe/Dialect/Plan/IR/PlanDialect.h"

namespace mlir::plan {

/// Checks that `launch` is a call of the runtime (moert/KernelTable.h). Emits an error if its name, operands,
/// attributes or group differ, or if it writes in a place that the call does not allow.
LogicalResult verifyRuntimeCall(LaunchOp launch);

} // namespace mlir::plan

#endif // MOE_LIB_CONVERSION_PLANTOLLVM_RUNTIMECALLS_H
