//===- AutoSchedulePass.cpp - moe-auto-schedule ---------------------------===//
#include "moe/Planner/Passes.h"

#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Planner/Planner.h"
#include "moe/Support/InputFile.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEAUTOSCHEDULE
#include "moe/Planner/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
struct MoeAutoSchedule : public moe::impl::MoeAutoScheduleBase<MoeAutoSchedule> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(schedule(getOperation())))
      signalPassFailure();
  }

  LogicalResult schedule(ModuleOp graph);
  LogicalResult checkOptions(ModuleOp graph);
  FailureOr<ClusterProfile> loadCluster(ModuleOp graph);
};
} // namespace

LogicalResult MoeAutoSchedule::checkOptions(ModuleOp graph) {
  if (cluster.empty())
    return graph.emitError() << "expected option 'cluster', on which schedules are compared";
  if (memoryLimit < 0)
    return graph.emitError() << "expected memory-limit to be at least 0 but got " << memoryLimit.getValue();
  if (microBatches < 1 || microBatches > kMaxMicroBatches)
    return graph.emitError() << "expected micro-batches to be from 1 to " << kMaxMicroBatches << " but got "
                             << microBatches.getValue();
  return success();
}

FailureOr<ClusterProfile> MoeAutoSchedule::loadCluster(ModuleOp graph) {
  llvm::Expected<std::string> path = findShareFile("clusters", cluster);
  llvm::Expected<ClusterProfile> profile =
      path ? ClusterProfile::load(*path) : llvm::Expected<ClusterProfile>(path.takeError());
  if (profile)
    return std::move(*profile);
  // Tools print these texts as they are.
  std::string text = llvm::toString(profile.takeError());
  StringRef rest = text;
  rest.consume_front("error: ");
  return graph.emitError() << rest;
}

LogicalResult MoeAutoSchedule::schedule(ModuleOp graph) {
  auto parallel = graph->getAttrOfType<ParallelAttr>(kParallelAttrName);
  if (!parallel)
    return graph.emitError() << "expected " << kParallelAttrName << ", which gives the groups of ranks";
  if (failed(checkOptions(graph)))
    return failure();
  FailureOr<ClusterProfile> profile = loadCluster(graph);
  if (failed(profile))
    return failure();
  PlanOptions options;
  options.parallel = parallel;
  options.schedule = "auto";
  options.keepsDrops = true;
  options.stage = Stage::Forward;
  options.train = train;
  options.memoryLimit = memoryLimit;
  options.microBatches = microBatches;
  options.devicesPerNode = profile->devicesPerNode;
  options.cluster = &*profile;
  FailureOr<OwningOpRef<ModuleOp>> scheduled = planAndCompile(graph, options);
  if (failed(scheduled))
    return failure();
  func::FuncOp model = *graph.getOps<func::FuncOp>().begin();
  func::FuncOp rank = *(**scheduled).getOps<func::FuncOp>().begin();
  rank.setName(model.getName());
  rank->moveBefore(model);
  model.erase();
  graph->setAttrs((**scheduled)->getAttrDictionary());
  return success();
}
