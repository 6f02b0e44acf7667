//===- Transfers.cpp - how long each transfer of a plan takes alone -------===//
#include "Transfers.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Cost/CostModel.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Simulator/Simulator.h"

using namespace mlir;
using namespace mlir::moe;

static llvm::Expected<std::vector<double>> getSeconds(func::FuncOp program, int64_t world,
                                                      const ClusterProfile &cluster) {
  llvm::Expected<std::unique_ptr<CostModel>> model = CostModel::create(cluster, world, CostForm::ClosedForm);
  if (!model)
    return model.takeError();
  llvm::Expected<SimProgram> simulated = makeSimProgram(program, world);
  if (!simulated)
    return simulated.takeError();
  return getLaunchSeconds(*simulated, **model);
}

void mlir::moe::setTransferSeconds(ModuleOp plan, func::FuncOp program, int64_t world, const ClusterProfile &cluster) {
  llvm::Expected<std::vector<double>> seconds = getSeconds(program, world, cluster);
  if (!seconds)
    return llvm::consumeError(seconds.takeError());
  Builder builder(plan.getContext());
  for (auto [launch, time] : llvm::zip_equal(program.getOps<plan::LaunchOp>(), *seconds))
    if (Resource resource = launch.getOpCost().resource;
        resource == Resource::Network || resource == Resource::HostLink)
      launch.setSecondsAttr(builder.getF64FloatAttr(time));
  plan->setAttr(plan::kClusterAttrName, builder.getStringAttr(cluster.name));
}
