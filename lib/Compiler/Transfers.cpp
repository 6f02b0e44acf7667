//===- Transfers.cpp - how long each transfer of a plan takes alone -------===//
#include "Transfers.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Cost/CostModel.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Simulator/Simulator.h"

using namespace mlir;
using namespace mlir::moe;

/// Seconds by program and launch.
static llvm::Expected<std::vector<std::vector<double>>> getSeconds(ModuleOp plan, int64_t world,
                                                                   const ClusterProfile &cluster) {
  llvm::Expected<std::unique_ptr<CostModel>> model = CostModel::create(cluster, world, CostForm::ClosedForm);
  if (!model)
    return model.takeError();
  llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(plan, LoopForm::Once);
  if (!programs)
    return programs.takeError();
  return getLaunchSeconds(*programs, **model);
}

void mlir::moe::setTransferSeconds(ModuleOp plan, int64_t world, const ClusterProfile &cluster) {
  llvm::Expected<std::vector<std::vector<double>>> all = getSeconds(plan, world, cluster);
  if (!all)
    return llvm::consumeError(all.takeError());
  Builder builder(plan.getContext());
  for (auto [program, seconds] : llvm::zip_equal(plan::getRankPrograms(plan), *all))
    program.walk([&, next = seconds.begin()](plan::LaunchOp launch) mutable {
      double time = *next++;
      if (Resource resource = launch.getOpCost().resource;
          resource == Resource::Network || resource == Resource::HostLink)
        launch.setSecondsAttr(builder.getF64FloatAttr(time));
    });
  plan->setAttr(plan::kClusterAttrName, builder.getStringAttr(cluster.name));
}
