//===- PriceOps.h - how long ops take, by the cost model --------*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_PRICEOPS_H
#define MOE_LIB_COMPILER_PRICEOPS_H

#include "mlir/Pass/Pass.h"

namespace mlir::moe {

struct ClusterProfile;

/// moe-price-ops on a cluster that was read already, and outlives the pass. `path` is printed with the pass.
std::unique_ptr<Pass> createMoePriceOps(const ClusterProfile &profile, llvm::StringRef path);

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_PRICEOPS_H
