//===- SchedulePasses.cpp - the passes of each part of a schedule ---------===//
#include "SchedulePasses.h"

#include "LayerRates.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Transforms/Passes.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Cost/CostModel.h"
#include "moe/Cost/Papers.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::moe;

using mpipemoe::Strategy;

static InFlightDiagnostic emitUsageError(MLIRContext *context) { return emitError(UnknownLoc::get(context)); }

//===----------------------------------------------------------------------===//
// Rewrites of layers
//===----------------------------------------------------------------------===//

static LogicalResult addPause(PassManager &passes, PauseMpSchedule schedule) {
  MoePauseMpOptions pause;
  pause.schedule = schedule;
  passes.addNestedPass<func::FuncOp>(createMoePauseMp(pause));
  return success();
}
LogicalResult mlir::moe::addS1(PassManager &passes, const ParsedSchedule &, const PipelineOptions &, ModuleOp) {
  return addPause(passes, PauseMpSchedule::S1);
}
LogicalResult mlir::moe::addS2(PassManager &passes, const ParsedSchedule &, const PipelineOptions &, ModuleOp) {
  return addPause(passes, PauseMpSchedule::S2);
}
/// How many phases Parm's SAA has, 1 where it cannot be: the exchange has to leave the node, and the gather over mp
/// not, to be on another stream.
static int64_t getSaaPhases(const PipelineOptions &options) {
  ParallelAttr parallel = options.parallel;
  int64_t fused = parallel.getEp() * parallel.getEsp(), mp = parallel.getMp();
  auto isInside = [&](StringRef name) {
    return parallel.getGroup(name).isInsideNode(options.devicesPerNode, parallel.getWorld());
  };
  if (mp == 1 || fused % mp != 0 || isInside("ep_esp") || !isInside("mp"))
    return 1;
  return fused / std::max(mp, parallel.getEsp());
}

/// alpha and beta, in seconds and seconds a byte, of a collective over the first ranks.
static FailureOr<parm::AlphaBeta> getLine(const CostModel &model, Collective collective, int64_t members,
                                          ModuleOp graph) {
  if (members == 1)
    return parm::AlphaBeta();
  // Of the exchanged values none is far from the input.
  auto input = cast<ShapedType>((*graph.getOps<func::FuncOp>().begin()).getArgumentTypes().front());
  std::string dtype;
  llvm::raw_string_ostream(dtype) << input.getElementType();
  SmallVector<int64_t> ranks = llvm::to_vector(llvm::seq<int64_t>(0, members));
  llvm::Expected<CostModel::AlphaBeta> line =
      model.getAlphaBeta(collective, ranks, dtype, getByteSize(input) / model.getNumRanks());
  if (!line)
    return emitUsageError(graph.getContext()) << llvm::toString(line.takeError());
  return parm::AlphaBeta{line->alpha, line->beta};
}

/// The pair that Eq. 14 has measured as one collective, from its parts: the longer one hides all but one phase of the
/// shorter. `gatherPerByte` is bytes gathered for each byte exchanged.
static parm::AlphaBeta overlap(parm::AlphaBeta exchange, parm::AlphaBeta gather, double gatherPerByte, int64_t phases) {
  auto n = static_cast<double>(phases);
  gather.beta *= gatherPerByte;
  if (exchange.beta >= gather.beta || phases == 1)
    return {exchange.alpha + gather.alpha, exchange.beta + gather.beta / n};
  return {exchange.alpha / n + n * gather.alpha, exchange.beta / n + gather.beta};
}

LogicalResult mlir::moe::addParmAuto(PassManager &passes, const ParsedSchedule &, const PipelineOptions &options,
                                     ModuleOp graph) {
  if (!options.cluster)
    return emitUsageError(graph.getContext()) << "expected a cluster for the schedule 'parm-auto'";
  ParallelAttr parallel = options.parallel;
  llvm::Expected<std::unique_ptr<CostModel>> model =
      CostModel::create(*options.cluster, parallel.getWorld(), CostForm::ClosedForm);
  if (!model)
    return emitUsageError(graph.getContext()) << llvm::toString(model.takeError());
  FailureOr<parm::AlphaBeta> exchange =
      getLine(**model, Collective::AllToAll, parallel.getEp() * parallel.getEsp(), graph);
  if (failed(exchange))
    return failure();
  FailureOr<parm::AlphaBeta> gather = getLine(**model, Collective::AllGather, parallel.getMp(), graph);
  if (failed(gather))
    return failure();
  // y = X / N_MP bytes are exchanged where E T M = X / N_ESP are gathered.
  double gatherPerByte = static_cast<double>(parallel.getMp()) / static_cast<double>(parallel.getEsp());
  parm::AlphaBeta both = overlap(*exchange, *gather, gatherPerByte, getSaaPhases(options));
  constexpr double micro = 1e6, perMb = 1e12;
  MoePauseMpOptions pause;
  pause.schedule = PauseMpSchedule::Auto;
  pause.allToAllAlphaUs = exchange->alpha * micro;
  pause.allToAllBetaUsPerMb = exchange->beta * perMb;
  pause.allGatherAlphaUs = gather->alpha * micro;
  pause.allGatherBetaUsPerMb = gather->beta * perMb;
  pause.overlappedAlphaUs = both.alpha * micro;
  pause.overlappedBetaUsPerMb = both.beta * perMb;
  passes.addNestedPass<func::FuncOp>(createMoePauseMp(pause));
  return success();
}

ParsedSchedule mlir::moe::getS2OfAuto(ParsedSchedule schedule, const PipelineOptions &options) {
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

void mlir::moe::addOverlap(PassManager &passes, const ParsedSchedule &schedule, const PipelineOptions &options,
                           func::FuncOp forward) {
  bool chosen = schedule.layer == LayerRewrite::ParmAuto && getSaaPhases(options) > 1 && hasS2(forward);
  if (chosen || schedule.saa)
    passes.addNestedPass<func::FuncOp>(createMoeSplitExchanges());
}

//===----------------------------------------------------------------------===//
// MPipeMoE
//===----------------------------------------------------------------------===//

LogicalResult mlir::moe::addResiduals(PassManager &passes, const ParsedSchedule &schedule, const PipelineOptions &,
                                      ModuleOp) {
  Strategy strategy = schedule.strategy;
  bool offloadsDispatched = strategy == Strategy::S1 || strategy == Strategy::S3;
  bool offloadsHidden = strategy == Strategy::S1 || strategy == Strategy::S2;
  MoeSetResidualsOptions residuals;
  residuals.dispatched = offloadsDispatched ? Residual::offload : Residual::recommunicate;
  residuals.hidden = offloadsHidden ? Residual::offload : Residual::recompute;
  // What is set on an exchange in a group of one would go with it.
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createMoeSetResiduals(residuals));
  return success();
}

LogicalResult mlir::moe::addPipeline(PassManager &passes, const ParsedSchedule &schedule, const PipelineOptions &,
                                     ModuleOp) {
  if (schedule.chunks <= 1)
    return success();
  MoePipelineOptions pipeline;
  pipeline.chunks = schedule.chunks;
  pipeline.exchangedRing = schedule.getRing();
  // What waits for a place inside the experts computes, which one chunk does at a time.
  pipeline.hiddenRing = schedule.getRing() > 0 ? std::max<int64_t>(1, schedule.getRing() - 1) : 0;
  passes.addNestedPass<func::FuncOp>(createMoePipeline(pipeline));
  return success();
}

/// Of an exchange, 1 without the smart schedule.
static int64_t getNumPhases(const ParsedSchedule &schedule, const PipelineOptions &options) {
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

/// Ragged exchanges are what shadows and the smart schedule change.
static LogicalResult checkDropless(StringRef name, ModuleOp graph) {
  for (LayerOp layer : (*graph.getOps<func::FuncOp>().begin()).getOps<LayerOp>())
    if (!layer.isDropless())
      return layer.emitOpError() << "expected a dropless layer (--dropless) for '" << name
                                 << "': with a capacity each expert gets as many rows, and each rank sends as many, "
                                    "whatever the tokens choose";
  return success();
}

static FailureOr<LayerRates> getRates(const ParsedSchedule &schedule, const PipelineOptions &options, ModuleOp graph) {
  if (!options.cluster)
    return emitUsageError(graph.getContext()) << "expected a cluster for '" << schedule.getName() << "'";
  llvm::Expected<LayerRates> rates = getLayerRates(graph, options);
  if (!rates)
    return emitUsageError(graph.getContext()) << llvm::toString(rates.takeError());
  return *rates;
}

LogicalResult mlir::moe::addShadows(PassManager &passes, const ParsedSchedule &schedule, const PipelineOptions &options,
                                    ModuleOp graph) {
  if (failed(checkDropless("shadow", graph)))
    return failure();
  FailureOr<LayerRates> rates = getRates(schedule, options, graph);
  if (failed(rates))
    return failure();
  constexpr double micro = 1e6;
  MoeShadowExpertsOptions shadows;
  shadows.max = schedule.shadows->most;
  shadows.policy = schedule.shadows->policy;
  shadows.flopsPerSecond = rates->flopsPerSecond;
  shadows.sendBytesPerSecond = rates->sendBytesPerSecond;
  shadows.localBytesPerSecond = rates->localBytesPerSecond;
  shadows.nodeBytesPerSecond = rates->nodeBytesPerSecond;
  shadows.broadcastBytesPerSecond = rates->broadcastBytesPerSecond;
  shadows.startUs = rates->startSeconds * micro;
  shadows.nodeRanks = options.devicesPerNode;
  shadows.phases = getNumPhases(schedule, options);
  // A chunk or a phase may have all that is left of a whole layer.
  shadows.shrink = schedule.chunks == 1 && !schedule.smart;
  passes.addNestedPass<func::FuncOp>(createMoeShadowExperts(shadows));
  return success();
}

LogicalResult mlir::moe::addTopologyGate(PassManager &passes, const ParsedSchedule &schedule,
                                         const PipelineOptions &options, ModuleOp graph) {
  FailureOr<LayerRates> rates = getRates(schedule, options, graph);
  if (failed(rates))
    return failure();
  MoeTopologyGateOptions gate;
  gate.nodeRanks = options.devicesPerNode;
  if (rates->localBytesPerSecond > 0) {
    gate.networkBytesPerSecond = rates->nodeBytesPerSecond;
    gate.localBytesPerSecond = rates->localBytesPerSecond;
  }
  passes.addNestedPass<func::FuncOp>(createMoeTopologyGate(gate));
  return success();
}

LogicalResult mlir::moe::addSmart(PassManager &passes, const ParsedSchedule &schedule, const PipelineOptions &options,
                                  ModuleOp graph) {
  if (failed(checkDropless("smart", graph)))
    return failure();
  MoeSmartScheduleOptions smart;
  smart.groupSize = schedule.smart->groupSize;
  smart.order = schedule.smart->order;
  smart.nodeRanks = options.devicesPerNode;
  passes.addNestedPass<func::FuncOp>(createMoeSmartSchedule(smart));
  return success();
}
