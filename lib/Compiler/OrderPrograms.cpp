//===- OrderPrograms.cpp - the order of a plan's launches -----------------===//
#include "Stages.h"

#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;

static LogicalResult orderBySearch(func::FuncOp program, const ParsedSchedule &schedule,
                                   const CompileOptions &options) {
  if (!options.cluster)
    return program.emitError() << "expected a cluster, on which to search for an order";
  // With uneven routing the busiest link decides.
  int64_t world = options.parallel.getWorld();
  bool hasFlows = schedule.dependsOnRouting() && !options.cluster->links.empty() && world <= kMaxUnevenRanks;
  llvm::Expected<std::unique_ptr<CostModel>> model =
      CostModel::create(*options.cluster, world, hasFlows ? CostForm::LinkLevel : CostForm::ClosedForm);
  if (!model)
    return program.emitError() << llvm::toString(model.takeError());
  return orderPlan(program, OrderPolicy::Search, model->get());
}

/// Whether a rank program's launches get another order. Programs of a pipeline keep theirs: others may wait for them.
static bool isOrdered(func::FuncOp program, const ParsedSchedule &schedule, const CompileOptions &options) {
  return options.order || (schedule.canOverlap() && !program->hasAttr(plan::kRanksAttrName));
}

/// Puts the launches of a rank program into the order that `options` ask for.
static LogicalResult orderLaunches(func::FuncOp program, const ParsedSchedule &schedule,
                                   const CompileOptions &options) {
  if (options.order == OrderPolicy::Search)
    return orderBySearch(program, schedule, options);
  if (options.order)
    return orderPlan(program, *options.order, /*model=*/nullptr);
  std::string reason;
  {
    FirstErrorHandler keep(program.getContext(), reason);
    if (succeeded(orderBySearch(program, schedule, options)))
      return success();
  }
  emitWarning(UnknownLoc::get(program.getContext()))
      << "the plan has MPipeMoE's order of launches, since the search for an order failed: " << reason;
  return orderPlan(program, OrderPolicy::MPipeMoe, /*model=*/nullptr);
}

namespace {
/// plan-order with a cluster that was read already, and with the schedule, which tells whether routing is even.
struct OrderPrograms : PassWrapper<OrderPrograms, OperationPass<func::FuncOp>> {
  OrderPrograms(const ParsedSchedule &schedule, const CompileOptions &options) : schedule(schedule), options(options) {
    policy = moe::getName(options.order.value_or(OrderPolicy::Search)).str();
    cluster = options.clusterPath;
  }
  OrderPrograms(const OrderPrograms &other) : PassWrapper(other), schedule(other.schedule), options(other.options) {}

  StringRef getArgument() const override { return "plan-order"; }
  StringRef getName() const override { return "PlanOrder"; }

  void runOnOperation() override {
    func::FuncOp program = getOperation();
    // Programs call other functions, which are not ordered.
    if (plan::isRankProgram(program) && isOrdered(program, schedule, options) &&
        failed(orderLaunches(program, schedule, options)))
      signalPassFailure();
  }

  const ParsedSchedule &schedule;
  const CompileOptions &options;
  Option<std::string> policy{*this, "policy", llvm::cl::desc("How to choose the order")};
  Option<std::string> cluster{*this, "cluster", llvm::cl::desc("Path of the cluster profile")};
};
} // namespace

LogicalResult mlir::moe::orderPrograms(ModuleOp module, const ParsedSchedule &schedule, const CompileOptions &options) {
  if (llvm::none_of(plan::getRankPrograms(module),
                    [&](func::FuncOp program) { return isOrdered(program, schedule, options); }))
    return success();
  auto add = [&](PassManager &passes) {
    passes.addNestedPass<func::FuncOp>(std::make_unique<OrderPrograms>(schedule, options));
  };
  return runStage(options.runPasses, "order", module, add, kVerifySteps);
}
