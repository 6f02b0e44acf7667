//===- Passes.h - the order of plans ----------------------------*- C++ -*-===//
#ifndef MOE_SCHEDULE_PASSES_H
#define MOE_SCHEDULE_PASSES_H

#include "mlir/Pass/Pass.h"

#include "moe/Schedule/Order.h"

namespace mlir::moe {
struct ClusterProfile;

#define GEN_PASS_DECL
#include "moe/Schedule/Passes.h.inc"

/// plan-order on a cluster, which must outlive the pass; it may be null where the policy is not Search. Ranks are those
/// of the program's `moe.parallel`.
std::unique_ptr<Pass> createPlanOrder(OrderPolicy policy, const ClusterProfile *cluster, int64_t devicesPerNode);

#define GEN_PASS_REGISTRATION
#include "moe/Schedule/Passes.h.inc"

} // namespace mlir::moe

#endif // MOE_SCHEDULE_PASSES_H
