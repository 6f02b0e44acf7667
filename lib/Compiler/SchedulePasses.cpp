//===- SchedulePasses.cpp - the passes of each part of a schedule ---------===//
#include "Stages.h"

#include "mlir/Transforms/Passes.h"

#include "moe/Compiler/Passes.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"

using namespace mlir;
using namespace mlir::moe;

using mpipemoe::Strategy;

//===----------------------------------------------------------------------===//
// Rewrites of layers
//===----------------------------------------------------------------------===//

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

void mlir::moe::addParmAuto(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options) {
  SmallVector<std::string> given;
  if (options.choices)
    if (auto choices = getFunction(options.choices)->getAttrOfType<ArrayAttr>(kScheduleChoicesAttrName))
      for (auto choice : choices.getAsRange<DictionaryAttr>())
        given.push_back(choice.getAs<StringAttr>("chosen").str());
  passes.addNestedPass<func::FuncOp>(createMoeParmAlgorithm1({given}));
  addPause<PauseMpSchedule::Chosen>(passes, schedule, options);
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

void mlir::moe::addOnce(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options) {
  MoeSendOnceOptions once;
  if (schedule.once->hasNodes)
    once.nodeRanks = schedule.once->nodeRanks ? schedule.once->nodeRanks : options.devicesPerNode;
  once.chunks = std::max<int64_t>(1, schedule.chunks);
  // A group of one has no exchanges.
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createMoeSendOnce(once));
}

void mlir::moe::addHier(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options) {
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(
      createMoeExchangeByNode({*schedule.hierRanks ? *schedule.hierRanks : options.devicesPerNode}));
}

//===----------------------------------------------------------------------===//
// MPipeMoE
//===----------------------------------------------------------------------===//

void mlir::moe::addResiduals(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &) {
  Strategy strategy = schedule.strategy;
  bool offloadsDispatched = strategy == Strategy::S1 || strategy == Strategy::S3;
  bool offloadsHidden = strategy == Strategy::S1 || strategy == Strategy::S2;
  // An exchange in a group of one is removed, with all that is set on it.
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(
      createMoeSetResiduals({.dispatched = offloadsDispatched ? Residual::offload : Residual::recommunicate,
                             .hidden = offloadsHidden ? Residual::offload : Residual::recompute}));
}

void mlir::moe::addChunks(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &) {
  if (schedule.chunks <= 1)
    return;
  int64_t ring = schedule.getRing();
  // One chunk at a time computes inside the experts, and only computation waits for a place there.
  passes.addNestedPass<func::FuncOp>(createMoeChunkExperts(
      {.chunks = schedule.chunks, .exchangedRing = ring, .hiddenRing = ring > 0 ? std::max<int64_t>(1, ring - 1) : 0}));
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

LogicalResult mlir::moe::checkLayers(const ParsedSchedule &schedule, ModuleOp graph) {
  if (!schedule.dependsOnRouting())
    return success();
  for (LayerOp layer : getFunction(graph).getOps<LayerOp>())
    if (!layer.isDropless())
      return layer.emitOpError() << "expected a dropless layer (--dropless) for '"
                                 << (schedule.shadows ? "shadow" : "smart")
                                 << "': with a capacity, the tokens' choices do not change how many rows the ranks "
                                    "send and the experts get";
  return success();
}

void mlir::moe::addShadows(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options) {
  MoeShadowExpertsOptions shadows;
  shadows.max = schedule.shadows->most;
  shadows.policy = schedule.shadows->policy;
  shadows.phases = getNumPhases(schedule, options);
  // A chunk or a phase may have all remaining rows of a layer.
  shadows.shrink = schedule.chunks == 1 && !schedule.smart;
  passes.addNestedPass<func::FuncOp>(createMoeShadowExperts(shadows));
}

void mlir::moe::addSmart(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &) {
  passes.addNestedPass<func::FuncOp>(createMoeSmartSchedule({schedule.smart->groupSize, schedule.smart->order}));
}
