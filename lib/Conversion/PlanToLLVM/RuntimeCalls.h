//===- RuntimeCalls.h - launches against the runtime's calls ----*- C++ -*-===//
#ifndef MOE_LIB_CONVERSION_PLANTOLLVM_RUNTIMECALLS_H
#define MOE_LIB_CONVERSION_PLANTOLLVM_RUNTIMECALLS_H

#include "moe/Dialect/Plan/IR/PlanDialect.h"

namespace mlir::plan {

/// Checks that `launch` matches a call of moert/KernelTable.h. Emits an error if the call is unknown, if operands,
/// attributes or group do not match it, or if `launch` writes over an input that the call only reads.
LogicalResult verifyRuntimeCall(LaunchOp launch);

} // namespace mlir::plan

#endif // MOE_LIB_CONVERSION_PLANTOLLVM_RUNTIMECALLS_H
