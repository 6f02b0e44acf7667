//===- Transfers.h - how long each transfer of a plan takes alone -*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_TRANSFERS_H
#define MOE_LIB_COMPILER_TRANSFERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::moe {
struct ClusterProfile;

/// Sets `seconds` of the exchanges and host copies of `program`, for `world` ranks of `cluster`, and the cluster's name
/// on `plan`; neither where the profile does not say enough.
void setTransferSeconds(ModuleOp plan, func::FuncOp program, int64_t world, const ClusterProfile &cluster);

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_TRANSFERS_H
