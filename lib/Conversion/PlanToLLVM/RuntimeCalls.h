//===- RuntimeCalls.h - launches against the runtime's calls ----*- C++ -*-===//
#ifndef MOE_LIB_CONVERSION_PLANTOLLVM_RUNTIMECALLS_H
#define MOE_LIB_CONVERSION_PLANTOLLVM_RUNTIMECALLS_H

#include "moe/Dialect/Plan/IR/PlanDialect.h"

namespace mlir::plan {

/// Fails with an error where `launch` is none of the runtime's calls (moert/KernelTable.h): where it has another name,
/// other operands, attributes or group, or writes where the call may not.
LogicalResult verifyRuntimeCall(LaunchOp launch);

} // namespace mlir::plan

#endif // MOE_LIB_CONVERSION_PLANTOLLVM_RUNTIMECALLS_H
