//===- Stages.cpp - the passes of each stage of the compiler --------------===//
#include "Stages.h"

#include "mlir/Transforms/Passes.h"

#include "moe/Conversion/Passes.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::moe;

LogicalResult mlir::moe::runStage(const PassRunner &runner, const llvm::Twine &stage, ModuleOp module,
                                  function_ref<void(PassManager &)> add, bool verify) {
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  passes.enableVerifier(verify);
  add(passes);
  auto run = [&] { return passes.run(module); };
  return runner ? runner(stage.str(), passes, run) : run();
}

func::FuncOp mlir::moe::getFunction(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

static void addSimplification(PassManager &passes) {
  // Functions are one block each: there is nothing to simplify between blocks, and of a long one that takes a while.
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass(config));
  passes.addNestedPass<func::FuncOp>(createCSEPass());
}

/// By level: the least time to compute a value that is kept, in times the time to write it. On an H100, `cheap` keeps
/// attention and products that sum over more than about 4000 columns; `cheap-8` 3000, and `cheap-4` 1400. Rows of
/// experts count with the room that is kept for them. `light` keeps norms and sums, and recomputes activations of
/// experts and rows for them.
static constexpr double kCostlyFrom[] = {0, 1.75, 0, 4, 6, 8, 12, 0};

/// Appends the passes that decide by the times of ops and by bytes: stages, and recomputation.
static void addChoices(PassManager &passes, const CompileOptions &options) {
  // Stages also tell forward and backward apart on one device that orders them separately.
  if (options.parallel.getPp() > 1 || splitsBackward(options.pipelineOrder) || options.sideBySide > 1)
    passes.addNestedPass<func::FuncOp>(
        createMoeCutStages({options.parallel.getPp() * options.interleave, options.stageBoundaries}));
  else if (options.markParts)
    passes.addNestedPass<func::FuncOp>(createMoeCutStages({/*stages=*/0, /*boundaries=*/{}}));
  if (options.recompute != Recompute::None)
    passes.addNestedPass<func::FuncOp>(createMoeRecomputeBlocks(
        {options.recompute <= Recompute::Selective, kCostlyFrom[static_cast<unsigned>(options.recompute)]}));
}

void mlir::moe::addForwardPasses(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                                 ModuleOp graph, ClusterAttr cluster) {
  if (!cluster) {
    passes.addPass(createMoePartition({.reference = true, .groups = options.parallel.getTokenGroup().getSize()}));
    return;
  }
  std::string rates;
  llvm::raw_string_ostream(rates) << cluster;
  passes.addPass(createMoeSetCluster({rates}));
  passes.addPass(createMoePartition());
  if (options.ringAttention)
    passes.addNestedPass<func::FuncOp>(createMoeRingAttention());
  addSchedule(passes, schedule, options);
  if (options.sequenceParallel)
    passes.addNestedPass<func::FuncOp>(createMoeSequenceParallel());
  // The other levels recompute no results of experts.
  if (options.train && options.recompute >= Recompute::Cheap4)
    passes.addNestedPass<func::FuncOp>(createMoeWeighHidden());
  // compileForm() copies the choices of a larger model.
  if (!options.choices)
    addChoices(passes, options);
  // Without a bound there is room for all rows.
  if (llvm::any_of(getFunction(graph).getOps<LayerOp>(), [](LayerOp layer) { return layer.getMaxLoad().has_value(); }))
    passes.addNestedPass<func::FuncOp>(createMoeServeInPasses());
}

/// Bounds on a bucket. Smaller ones would be more exchanges and updates, and gain little if start-ups are short.
static constexpr int64_t kLeastBucketBytes = int64_t(64) << 20, kMostBucketBytes = int64_t(1) << 30;
/// The largest share of a bucket's exchange that may be its start-up.
static constexpr double kStartUpShare = 0.1;

/// The bytes of a bucket whose exchange over dp has a short start-up.
static int64_t getBucketBytes(const CompileOptions &options) {
  if (options.bucketBytes)
    return *options.bucketBytes;
  GroupAttr group = options.parallel.getTokenGroup();
  if (!options.cluster || group.getSize() == 1)
    return kLeastBucketBytes;
  llvm::Expected<std::unique_ptr<CostModel>> model =
      CostModel::create(*options.cluster, options.parallel.getWorld(), CostForm::ClosedForm);
  if (!model) {
    llvm::consumeError(model.takeError());
    return kLeastBucketBytes;
  }
  SmallVector<int64_t> ranks;
  for (int64_t member = 0; member < group.getSize(); ++member)
    ranks.push_back(member * group.getStride());
  auto getSeconds = [&](int64_t bytes) {
    llvm::Expected<double> seconds = (*model)->getSeconds(
        GroupExchange{.collective = Collective::AllReduce, .dtype = "bf16", .payload = bytes, .ranks = ranks});
    if (seconds)
      return *seconds;
    // The error is reported when the plan is priced.
    llvm::consumeError(seconds.takeError());
    return 0.0;
  };
  int64_t bytes = kLeastBucketBytes;
  while (bytes < kMostBucketBytes && getSeconds(0) > kStartUpShare * getSeconds(bytes))
    bytes *= 2;
  return bytes;
}

void mlir::moe::addBackwardPasses(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                                  const ProgramForm &form, func::FuncOp forward, bool reference) {
  addSimplification(passes);
  if (options.optimizer && !reference)
    passes.addNestedPass<func::FuncOp>(createMoeBucketParameters(
        {getBucketBytes(options), options.zero, options.zeroRanks, options.optimizer->decay > 0}));
  int64_t written = form.written > 0 ? form.written : options.microBatches;
  bool repeats = form.repeats && written > kRepeated;
  if (options.microBatches > 1) {
    passes.addNestedPass<func::FuncOp>(createMoeAccumulate({options.microBatches, repeats ? kRepeated : written}));
    // All micro-batches do some things alike, such as with parameters.
    passes.addNestedPass<func::FuncOp>(createCSEPass());
  }
  if (options.train)
    passes.addNestedPass<func::FuncOp>(createMoeDifferentiate({options.wideGradients}));
  if (options.optimizer)
    passes.addNestedPass<func::FuncOp>(createMoeOptimize(*options.optimizer));
  if (options.train || options.optimizer)
    addSimplification(passes);
  int64_t pp = reference ? 1 : options.parallel.getPp();
  PipelineOrder order = reference ? PipelineOrder::OneForwardOneBackward : options.pipelineOrder;
  if (splitsBackward(order))
    // A window keeps gradients of weights near their backward, and so the values that it computes again.
    passes.addNestedPass<func::FuncOp>(
        createMoeSplitBackward({options.recompute >= Recompute::Cheap4 && order != PipelineOrder::Overlapped1F1B}));
  // Later passes move ops, or change layers in chunks.
  bool isVerifiedBefore = repeats && !schedule.canOverlap();
  if (!options.leaveOutProofs)
    passes.addNestedPass<func::FuncOp>(createMoeVerifyTypes());
  if (!options.leaveOutProofs && isVerifiedBefore)
    passes.addNestedPass<func::FuncOp>(createMoeVerifySpmd());
  bool hasWindows = splitsBackward(order) || (!reference && options.sideBySide > 1);
  if (hasWindows && options.cluster)
    passes.addNestedPass<func::FuncOp>(createMoePriceOps(*options.cluster, options.clusterPath));
  if (repeats)
    passes.addNestedPass<func::FuncOp>(createMoeRepeatMicroBatches({written}));
  if (options.microBatches > 1 || pp > 1 || options.markParts)
    passes.addNestedPass<func::FuncOp>(
        createMoeOrderMicroBatches({pp, options.mostKept, reference ? 1 : options.sideBySide, order}));
  if (!reference && options.ringAttention)
    passes.addNestedPass<func::FuncOp>(createMoeExpandRingAttention());
  if (!reference)
    addOverlap(passes, schedule, options, forward);
  if (!options.leaveOutProofs && !isVerifiedBefore)
    passes.addNestedPass<func::FuncOp>(createMoeVerifySpmd());
  if (!reference)
    passes.addPass(createMoeSplitStages());
}

void mlir::moe::addPlanPasses(PassManager &passes, const CompileOptions &options) {
  passes.addNestedPass<func::FuncOp>(plan::createPlanAssignStreams());
  plan::PlanAssignMemoryOptions memory;
  // Gaps between small values would be most of an arena.
  if (options.choices)
    memory.alignment = 8;
  passes.addNestedPass<func::FuncOp>(plan::createPlanAssignMemory(memory));
}
