//===- Transfers.h - how long each transfer of a plan takes alone -*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_TRANSFERS_H
#define MOE_LIB_COMPILER_TRANSFERS_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::moe {
struct ClusterProfile;

/// Sets `seconds` of the exchanges and host copies of the rank programs of `plan`, for `world` ranks of `cluster`, and
/// the cluster's name; neither if the profile does not have enough.
void setTransferSeconds(ModuleOp plan, int64_t world, const ClusterProfile &cluster);

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_TRANSFERS_H
