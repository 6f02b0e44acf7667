//===- SchedulePasses.cpp - the passes of each part of a schedule ---------===//
#include "SchedulePasses.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Transforms/Passes.h"

#include "moe/Compiler/Passes.h"
#include "moe/Cost/Papers.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::moe;

using mpipemoe::Strategy;

//===----------------------------------------------------------------------===//
// Rewrites of layers
//===----------------------------------------------------------------------===//

static LogicalResult addPause(PassManager &passes, PauseMpSchedule schedule) {
  MoePauseMpOptions pause;
  pause.schedule = schedule;
  passes.addNestedPass<func::FuncOp>(createMoePauseMp(pause));
  return success();
}
LogicalResult mlir::moe::addS1(PassManager &passes, const ParsedSchedule &, const CompileOptions &, ModuleOp) {
  return addPause(passes, PauseMpSchedule::S1);
}
LogicalResult mlir::moe::addS2(PassManager &passes, const ParsedSchedule &, const CompileOptions &, ModuleOp) {
  return addPause(passes, PauseMpSchedule::S2);
}
int64_t mlir::moe::getSaaPhases(const CompileOptions &options) {
  ParallelAttr parallel = options.parallel;
  int64_t fused = parallel.getEp() * parallel.getEsp(), mp = parallel.getMp();
  auto isInside = [&](StringRef name) {
    return parallel.getGroup(name).isInsideNode(options.devicesPerNode, parallel.getWorld());
  };
  if (mp == 1 || fused % mp != 0 || isInside("ep_esp") || !isInside("mp"))
    return 1;
  return fused / std::max(mp, parallel.getEsp());
}

LogicalResult mlir::moe::addParmAuto(PassManager &passes, const ParsedSchedule &, const CompileOptions &, ModuleOp) {
  passes.addNestedPass<func::FuncOp>(createMoeParmAlgorithm1());
  return addPause(passes, PauseMpSchedule::Chosen);
}

ParsedSchedule mlir::moe::getS2OfAuto(ParsedSchedule schedule, const CompileOptions &options) {
  schedule.layer = LayerRewrite::S2;
  schedule.saa = getSaaPhases(options) > 1;
  return schedule;
}

/// Whether Algorithm 1 took S2 for a layer.
static bool hasS2(func::FuncOp forward) {
  auto choices = forward->getAttrOfType<ArrayAttr>(kScheduleChoicesAttrName);
  return choices && llvm::any_of(choices.getAsRange<DictionaryAttr>(),
                                 [](DictionaryAttr choice) { return choice.getAs<StringAttr>("chosen") == "s2"; });
}

void mlir::moe::addOverlap(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                           func::FuncOp forward) {
  bool chosen = schedule.layer == LayerRewrite::ParmAuto && getSaaPhases(options) > 1 && hasS2(forward);
  if (chosen || schedule.saa)
    passes.addNestedPass<func::FuncOp>(createMoeSplitExchanges());
}

//===----------------------------------------------------------------------===//
// Exchanges by node
//===----------------------------------------------------------------------===//

LogicalResult mlir::moe::addOnce(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                                 ModuleOp) {
  MoeSendOnceOptions once;
  if (schedule.once->hasNodes)
    once.nodeRanks = schedule.once->nodeRanks ? schedule.once->nodeRanks : options.devicesPerNode;
  once.chunks = std::max<int64_t>(1, schedule.chunks);
  // A group of one has no exchanges.
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createMoeSendOnce(once));
  return success();
}

LogicalResult mlir::moe::addHier(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                                 ModuleOp) {
  MoeExchangeByNodeOptions hier;
  hier.nodeRanks = schedule.hier->nodeRanks ? schedule.hier->nodeRanks : options.devicesPerNode;
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createMoeExchangeByNode(hier));
  return success();
}

//===----------------------------------------------------------------------===//
// MPipeMoE
//===----------------------------------------------------------------------===//

LogicalResult mlir::moe::addResiduals(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &,
                                      ModuleOp) {
  Strategy strategy = schedule.strategy;
  bool offloadsDispatched = strategy == Strategy::S1 || strategy == Strategy::S3;
  bool offloadsHidden = strategy == Strategy::S1 || strategy == Strategy::S2;
  MoeSetResidualsOptions residuals;
  residuals.dispatched = offloadsDispatched ? Residual::offload : Residual::recommunicate;
  residuals.hidden = offloadsHidden ? Residual::offload : Residual::recompute;
  // An exchange in a group of one is removed, with all that is set on it.
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createMoeSetResiduals(residuals));
  return success();
}

LogicalResult mlir::moe::addChunks(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &,
                                   ModuleOp) {
  if (schedule.chunks <= 1)
    return success();
  MoeChunkExpertsOptions chunks;
  chunks.chunks = schedule.chunks;
  chunks.exchangedRing = schedule.getRing();
  // One chunk at a time computes inside the experts, and only computation waits for a place there.
  chunks.hiddenRing = schedule.getRing() > 0 ? std::max<int64_t>(1, schedule.getRing() - 1) : 0;
  passes.addNestedPass<func::FuncOp>(createMoeChunkExperts(chunks));
  return success();
}

/// Number of phases of an exchange; 1 without the smart schedule.
static int64_t getNumPhases(const ParsedSchedule &schedule, const CompileOptions &options) {
  if (!schedule.smart)
    return 1;
  int64_t ranks = options.parallel.getEp() * options.parallel.getEsp();
  int64_t group = schedule.smart->groupSize;
  if (group == 0)
    group = getSmartGroupSize(ranks, options.devicesPerNode);
  return std::max<int64_t>(1, ranks / std::max(group, options.parallel.getEsp()));
}

//===----------------------------------------------------------------------===//
// FasterMoE
//===----------------------------------------------------------------------===//

/// Checks that layers are dropless: shadows and the smart schedule change ragged exchanges.
static LogicalResult checkDropless(StringRef name, ModuleOp graph) {
  for (LayerOp layer : (*graph.getOps<func::FuncOp>().begin()).getOps<LayerOp>())
    if (!layer.isDropless())
      return layer.emitOpError() << "expected a dropless layer (--dropless) for '" << name
                                 << "': with a capacity, the tokens' choices do not change how many rows the ranks "
                                    "send and the experts get";
  return success();
}

LogicalResult mlir::moe::addShadows(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                                    ModuleOp graph) {
  if (failed(checkDropless("shadow", graph)))
    return failure();
  MoeShadowExpertsOptions shadows;
  shadows.max = schedule.shadows->most;
  shadows.policy = schedule.shadows->policy;
  shadows.phases = getNumPhases(schedule, options);
  // A chunk or a phase may have all remaining rows of a layer.
  shadows.shrink = schedule.chunks == 1 && !schedule.smart;
  passes.addNestedPass<func::FuncOp>(createMoeShadowExperts(shadows));
  return success();
}

LogicalResult mlir::moe::addSmart(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                                  ModuleOp graph) {
  if (failed(checkDropless("smart", graph)))
    return failure();
  MoeSmartScheduleOptions smart;
  smart.groupSize = schedule.smart->groupSize;
  smart.order = schedule.smart->order;
  passes.addNestedPass<func::FuncOp>(createMoeSmartSchedule(smart));
  return success();
}
