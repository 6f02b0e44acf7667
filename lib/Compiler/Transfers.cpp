//===- Transfers.cpp - how long each transfer of a plan takes alone -------===//
#include "Transfers.h"

#include "llvm/ADT/DenseMap.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Cost/CostModel.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"

using namespace mlir;
using namespace mlir::moe;

/// Seconds of a launch alone, with even routing where it is ragged; none where it moves nothing between devices.
static llvm::Expected<std::optional<double>> getSeconds(plan::LaunchOp launch, const CostModel &model) {
  OpCost cost = launch.getOpCost();
  if (cost.resource != Resource::HostLink && cost.resource != Resource::Network)
    return std::optional<double>();
  std::string dtype;
  llvm::raw_string_ostream(dtype) << cast<MemRefType>(launch.getInputs().front().getType()).getElementType();
  auto get = [](llvm::Expected<double> seconds) -> llvm::Expected<std::optional<double>> {
    if (!seconds)
      return seconds.takeError();
    return std::optional(*seconds);
  };
  if (cost.resource == Resource::HostLink)
    return get(model.getSeconds(Work{launch.getKernel(), {}, dtype, &cost, {}}));
  GroupAttr group = *launch.getGroup();
  SmallVector<int64_t> ranks;
  for (int64_t member = 0; member < group.getSize(); ++member)
    ranks.push_back(member * group.getStride());
  Exchange exchange;
  exchange.collective = cost.collective;
  exchange.dtype = dtype;
  exchange.payload = cost.payload;
  exchange.root = cost.root;
  exchange.ranks = ranks;
  exchange.phase = cost.phase;
  exchange.phases = cost.phases;
  return get(model.getSeconds(exchange));
}

void mlir::moe::setTransferSeconds(ModuleOp plan, func::FuncOp program, int64_t world, const ClusterProfile &cluster) {
  llvm::Expected<std::unique_ptr<CostModel>> model = CostModel::create(cluster, world, CostForm::ClosedForm);
  if (!model)
    return llvm::consumeError(model.takeError());
  Builder builder(plan.getContext());
  SmallVector<std::pair<plan::LaunchOp, double>> transfers;
  for (auto launch : program.getOps<plan::LaunchOp>()) {
    llvm::Expected<std::optional<double>> seconds = getSeconds(launch, **model);
    // A profile that cannot price one transfer leaves out all: half of them would be no prediction.
    if (!seconds)
      return llvm::consumeError(seconds.takeError());
    if (*seconds)
      transfers.push_back({launch, **seconds});
  }
  for (auto [launch, seconds] : transfers)
    launch.setSecondsAttr(builder.getF64FloatAttr(seconds));
  plan->setAttr(plan::kClusterAttrName, builder.getStringAttr(cluster.name));
}
