//===- PriceOps.cpp - how long ops take, by the cost model ----------------===//
#include "Stages.h"

#include "moe/Compiler/Passes.h"
#include "moe/Dialect/Moe/IR/EvenRows.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"

#include <cmath>

namespace mlir::moe {
#define GEN_PASS_DEF_MOEPRICEOPS
#include "moe/Compiler/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
class OpPricer {
public:
  explicit OpPricer(const CostModel &model) : model(model) {}

  /// Takes ops in program order. None if the op has no cost, or the cluster does not tell its time.
  std::optional<double> getSeconds(Operation *op);

private:
  llvm::Expected<double> getWorkSeconds(MoeKernelOpInterface kernel, const OpCost &cost, double use) const;
  llvm::Expected<double> getExchangeSeconds(GroupAttr group, const OpCost &cost, StringRef dtype, double use) const;

  llvm::Expected<double> getSpeedBeside(Resource resource) const;

  const CostModel &model;
  EvenRows rows;
};
} // namespace

/// The type of the first floating operand of the kernel, as in a plan.
static std::string getDType(MoeKernelOpInterface kernel) {
  SmallVector<Value> operands = kernel.getKernelInputs();
  llvm::append_range(operands, kernel->getResults());
  std::string name;
  for (Value value : operands)
    if (auto tensor = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
        tensor && isa<FloatType>(tensor.getElementType())) {
      llvm::raw_string_ostream(name) << tensor.getElementType();
      break;
    }
  return name;
}

llvm::Expected<double> OpPricer::getWorkSeconds(MoeKernelOpInterface kernel, const OpCost &cost, double use) const {
  SmallVector<int64_t> params, expertRows;
  for (Attribute param : kernel.getKernelParams())
    if (auto value = dyn_cast<IntegerAttr>(param))
      params.push_back(value.getInt());
  if (cost.raggedRows > 0) {
    auto counts = cast<ShapedType>(kernel.getKernelInputs()[cost.countsInput].getType());
    int64_t experts = counts.getShape().back();
    expertRows.assign(experts, std::llround(use * static_cast<double>(cost.raggedRows) / static_cast<double>(experts)));
  }
  std::string dtype = getDType(kernel);
  return model.getSeconds(Work{kernel.getKernelName(), params, dtype, &cost, expertRows});
}

llvm::Expected<double> OpPricer::getExchangeSeconds(GroupAttr group, const OpCost &cost, StringRef dtype,
                                                    double use) const {
  if (group.getSize() == 1)
    return 0;
  SmallVector<int64_t> ranks;
  for (int64_t member = 0; member < group.getSize(); ++member)
    ranks.push_back(member * group.getStride());
  GroupExchange exchange{cost.collective,     dtype,       std::llround(use * static_cast<double>(cost.payload)),
                         cost.root,           ranks,       {},
                         cost.getSendPhase(), cost.phases, cost.getRowBytes()};
  return model.getProfile().processors.count > 0 ? model.getShareSeconds(exchange, /*member=*/0)
                                                 : model.getSeconds(exchange);
}

/// The speed beside the other resource: in a good order, exchanges are beside products nearly all the time.
llvm::Expected<double> OpPricer::getSpeedBeside(Resource resource) const {
  auto bit = [](Resource one) { return 1U << static_cast<unsigned>(one); };
  Resource other = resource == Resource::Network ? Resource::Matrix : Resource::Network;
  return model.getSpeed(resource, bit(resource) | bit(other));
}

std::optional<double> OpPricer::getSeconds(Operation *op) {
  rows.visit(op);
  auto priced = dyn_cast<MoeCostOpInterface>(op);
  auto kernel = dyn_cast<MoeKernelOpInterface>(op);
  if (!priced || !kernel)
    return std::nullopt;
  OpCost cost = priced.getOpCost();
  if (cost.resource == Resource::None)
    return std::nullopt;
  double use = rows.getUse(op, cost);
  llvm::Expected<double> seconds = cost.resource == Resource::Network
                                       ? getExchangeSeconds(priced.getCostGroup(), cost, getDType(kernel), use)
                                       : getWorkSeconds(kernel, cost, use);
  llvm::Expected<double> speed = getSpeedBeside(cost.resource);
  if (seconds && speed)
    return *seconds / *speed;
  llvm::consumeError(seconds.takeError());
  llvm::consumeError(speed.takeError());
  return std::nullopt;
}

namespace {
struct MoePriceOps : moe::impl::MoePriceOpsBase<MoePriceOps> {
  using Base::Base;
  /// `profile` outlives the pass.
  MoePriceOps(const MoePriceOpsOptions &options, const ClusterProfile &profile) : Base(options), profile(&profile) {}

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (profile)
      return price(function, *profile);
    llvm::Expected<ClusterProfile> loaded = ClusterProfile::load(cluster);
    if (loaded)
      return price(function, *loaded);
    function.emitError() << llvm::toString(loaded.takeError());
    signalPassFailure();
  }

private:
  void price(func::FuncOp function, const ClusterProfile &on) {
    auto parallel = function->getParentOfType<ModuleOp>()->getAttrOfType<ParallelAttr>(kParallelAttrName);
    llvm::Expected<std::unique_ptr<CostModel>> model =
        CostModel::create(on, parallel ? parallel.getWorld() : 1, CostForm::ClosedForm);
    if (!model) {
      function.emitError() << llvm::toString(model.takeError());
      return signalPassFailure();
    }
    Builder builder(&getContext());
    OpPricer pricer(**model);
    for (Operation &op : function.front())
      if (std::optional<double> seconds = pricer.getSeconds(&op))
        op.setAttr(kSecondsAttrName, builder.getF64FloatAttr(*seconds));
  }

  const ClusterProfile *profile = nullptr;
};
} // namespace

std::unique_ptr<Pass> mlir::moe::createMoePriceOps(const ClusterProfile &profile, StringRef path) {
  return std::make_unique<MoePriceOps>(MoePriceOpsOptions{path.str()}, profile);
}
