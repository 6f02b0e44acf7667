//===- RuntimeCalls.h - launches against the runtime's calls ----*- C++ -*-===//
#ifndef MOE_LIB_CONVERSION_PLANTOLLVM_RUNTIMECALLS_H
#define MOE_LIB_CONVERSION_PLANTOLLVM_RUNTIMECALLS_H

#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moert/KernelTable.h"

namespace mlir::plan {

/// Operands of `launch` in the order of its call, null if absent. Fails after an error if their number differs.
FailureOr<SmallVector<Value>> getCallOperands(LaunchOp launch, const moert::KernelInfo &kernel);

/// Checks that `launch` matches a call of moert/KernelTable.h. Emits an error if the call is unknown, if operands,
/// attributes or group do not match it, or if `launch` writes over an input that the call only reads.
LogicalResult verifyRuntimeCall(LaunchOp launch);

} // namespace mlir::plan

#endif // MOE_LIB_CONVERSION_PLANTOLLVM_RUNTIMECALLS_H
