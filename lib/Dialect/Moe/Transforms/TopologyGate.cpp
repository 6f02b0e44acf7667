//===- TopologyGate.cpp - moe-topology-gate -------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOETOPOLOGYGATE
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
struct MoeTopologyGate : moe::impl::MoeTopologyGateBase<MoeTopologyGate> {
  using Base::Base;

  void runOnOperation() override {
    ParallelAttr parallel = getParallel(getOperation());
    if (!parallel)
      return signalPassFailure();
    ClusterRates cluster = getClusterRates(getOperation());
    int64_t ranks = parallel.getEp() * parallel.getEsp();
    if (ranks <= cluster.nodeRanks) {
      getOperation().emitRemark() << "moe-topology-gate: the " << ranks
                                  << " ranks that exchange are all in one node, which no token leaves";
      return;
    }
    for (auto route : getOperation().getOps<RouteOp>())
      if (failed(limit(route, parallel, cluster)))
        return signalPassFailure();
    if (failed(insertToVarying(getOperation())))
      signalPassFailure();
  }

  LogicalResult limit(RouteOp route, ParallelAttr parallel, const ClusterRates &cluster) {
    int64_t ranks = parallel.getEp() * parallel.getEsp(), mp = parallel.getMp(), esp = parallel.getEsp();
    int64_t nodeRanks = cluster.nodeRanks, homes = ranks / nodeRanks;
    int64_t groups = route.getGroups(), k = route.getExperts().getType().getDimSize(1);
    int64_t experts = route.getLogits().getType().getDimSize(1);
    if (ranks % nodeRanks != 0 || nodeRanks % mp != 0 || nodeRanks % esp != 0 || experts % homes != 0)
      return route.emitOpError() << "expected for topology-gate that nodes of " << nodeRanks << " ranks divide the "
                                 << ranks << " ranks that exchange, that mp = " << mp << " and esp = " << esp
                                 << " divide a node, and that the nodes divide the " << experts << " experts equally";
    if (route.getExpertGroups() != 1 || k > experts / homes)
      return route.emitOpError()
             << "expected for topology-gate a gate that chooses among all experts, and for each token at "
             << "most the " << experts / homes << " experts of a node, but it chooses " << k << " of the best of "
             << route.getExpertGroups() << " groups";
    auto tokens = static_cast<double>(route.getLogits().getType().getDimSize(0) / groups);
    double links = static_cast<double>(nodeRanks) * cluster.linkBytes;
    double fraction = links > 0 ? cluster.nodeLinkBytes / links : 0;
    route.setLeave(static_cast<int64_t>(std::min(tokens, fraction * tokens)));
    route.setHomes(homes);
    route.setHomeStride(nodeRanks);
    route.setHomeSpan(groups);
    return route.verify();
  }
};
} // namespace
