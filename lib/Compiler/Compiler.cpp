//===- Compiler.cpp - from a model graph to a plan ------------------------===//
#include "moe/Compiler/Compiler.h"

#include "DescribeCluster.h"
#include "PriceOps.h"
#include "SpmdProgram.h"
#include "Transfers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Compiler/Schedule.h"
#include "moe/Conversion/Passes.h"
#include "moe/Conversion/Variants.h"
#include "moe/Cost/ClusterProfile.h"
#include "moe/Cost/CostModel.h"
#include "moe/Dialect/Moe/IR/ElementTypes.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeLabels.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SchedulePasses.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"
#include "moe/LaunchOrder/Passes.h"

using namespace mlir;
using namespace mlir::moe;

void mlir::moe::registerDialects(DialectRegistry &registry) {
  registry.insert<MoeDialect, plan::PlanDialect, func::FuncDialect, LLVM::LLVMDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

/// A stage: the only place where the compiler makes a pass manager, so that `runner` sees all. `run` does what the
/// passes describe, where they are not run themselves.
static LogicalResult runStage(const PassRunner &runner, const llvm::Twine &stage, ModuleOp module,
                              function_ref<LogicalResult(PassManager &)> add, bool verify = true,
                              function_ref<LogicalResult()> run = nullptr) {
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  passes.enableVerifier(verify);
  if (failed(add(passes)))
    return failure();
  auto runItself = [&] { return passes.run(module); };
  if (!run)
    run = runItself;
  return runner ? runner(stage.str(), passes, run) : run();
}

static void addSimplification(PassManager &passes) {
  // Functions are one block each: there is nothing to simplify between blocks, and of a long one that takes a while.
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass(config));
  passes.addNestedPass<func::FuncOp>(createCSEPass());
}

static func::FuncOp getFunction(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

static void addCluster(PassManager &passes, ClusterAttr cluster) {
  std::string rates;
  llvm::raw_string_ostream(rates) << cluster;
  passes.addPass(createMoeSetCluster({rates}));
}

/// What is kept because it takes so many times as long to compute as to write. On an H100, `cheap` keeps attention and
/// products that sum over more than about 4000 columns; `cheap-8` 3000, and `cheap-4` 1400. Rows of experts count with
/// the room that is kept for them. `light` keeps norms and sums, and computes the activations of
/// experts and the rows for experts again.
static double getCostlyFrom(Recompute recompute) {
  switch (recompute) {
  case Recompute::Light:
    return 1.75;
  case Recompute::Cheap4:
    return 4;
  case Recompute::Cheap6:
    return 6;
  case Recompute::Cheap8:
    return 8;
  case Recompute::Cheap:
    return 12;
  default:
    return 0;
  }
}

/// What is decided by the times of ops and by bytes: stages, and what the backward computes again.
static void addChoices(PassManager &passes, const CompileOptions &options) {
  if (options.hasStages())
    passes.addNestedPass<func::FuncOp>(
        createMoeCutStages({options.parallel.getPp() * options.interleave, options.stageBoundaries}));
  else if (options.markParts)
    passes.addNestedPass<func::FuncOp>(createMoeCutStages({/*stages=*/0, /*boundaries=*/{}}));
  if (options.recompute != Recompute::None)
    passes.addNestedPass<func::FuncOp>(
        createMoeRecomputeBlocks({options.recompute <= Recompute::Selective, getCostlyFrom(options.recompute)}));
}

/// From the model graph to the forward SPMD program in its schedule; of the reference, in none.
static LogicalResult addForwardPasses(PassManager &passes, const ParsedSchedule &schedule,
                                      const CompileOptions &options, ModuleOp graph, bool reference) {
  if (!reference) {
    FailureOr<ClusterAttr> cluster = describeCluster(graph, schedule, options);
    if (failed(cluster))
      return failure();
    addCluster(passes, *cluster);
  }
  MoePartitionOptions partition;
  partition.reference = reference;
  if (reference)
    partition.groups = options.parallel.getTokenGroup().getSize();
  passes.addPass(createMoePartition(partition));
  if (reference)
    return success();
  if (options.ringAttention)
    passes.addNestedPass<func::FuncOp>(createMoeRingAttention());
  if (failed(addSchedule(passes, schedule, options, graph)))
    return failure();
  if (options.sequenceParallel)
    passes.addNestedPass<func::FuncOp>(createMoeSequenceParallel());
  // Else the backward computes no results of experts again.
  if (options.train && options.recompute >= Recompute::Cheap4)
    passes.addNestedPass<func::FuncOp>(createMoeWeighHidden());
  // Else compileWritten() copies them.
  if (!options.choices)
    addChoices(passes, options);
  // Without a bound there is room for all rows.
  if (llvm::any_of(getFunction(graph).getOps<LayerOp>(), [](LayerOp layer) { return layer.getMaxLoad().has_value(); }))
    passes.addNestedPass<func::FuncOp>(createMoeServeInPasses());
  return success();
}

/// Where start-ups are short, smaller buckets would be more exchanges and updates, and gain next to nothing.
static constexpr int64_t kLeastBucketBytes = int64_t(64) << 20, kMostBucketBytes = int64_t(1) << 30;
/// So much of the exchange of a bucket may be its start-up.
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
  SmallVector<int64_t> ranks;
  for (int64_t member = 0; member < group.getSize(); ++member)
    ranks.push_back(member * group.getStride());
  auto getSeconds = [&](int64_t bytes) {
    moe::GroupExchange exchange;
    exchange.collective = Collective::AllReduce;
    exchange.dtype = "bf16";
    exchange.payload = bytes;
    exchange.ranks = ranks;
    llvm::Expected<double> seconds = (*model)->getSeconds(exchange);
    if (seconds)
      return *seconds;
    // Who prices the plan reports it.
    llvm::consumeError(seconds.takeError());
    return 0.0;
  };
  if (!model) {
    llvm::consumeError(model.takeError());
    return kLeastBucketBytes;
  }
  int64_t bytes = kLeastBucketBytes;
  while (bytes < kMostBucketBytes && getSeconds(0) > kStartUpShare * getSeconds(bytes))
    bytes *= 2;
  return bytes;
}

/// So many micro-batches tell what any number of them do.
static constexpr int64_t kRepeated = 3;

/// From the forward program to all of it at the SPMD stage.
static void addBackwardPasses(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                              func::FuncOp forward, bool reference) {
  addSimplification(passes);
  if (options.optimizer && !reference)
    passes.addNestedPass<func::FuncOp>(createMoeBucketParameters(
        {getBucketBytes(options), options.zero, options.zeroRanks, options.optimizer->decay > 0}));
  int64_t written = options.written > 0 ? options.written : options.microBatches;
  bool repeats = options.repeats && written > kRepeated;
  if (options.microBatches > 1) {
    passes.addNestedPass<func::FuncOp>(createMoeAccumulate({options.microBatches, repeats ? kRepeated : written}));
    // What all micro-batches do alike, such as with parameters.
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

/// From a plan in its order to its waits and memory.
static void addPlanPasses(PassManager &passes, const CompileOptions &options) {
  passes.addNestedPass<func::FuncOp>(plan::createPlanAssignStreams());
  plan::PlanAssignMemoryOptions memory;
  // Of small values the gaps between them would be most of an arena.
  if (options.choices)
    memory.alignment = 8;
  passes.addNestedPass<func::FuncOp>(plan::createPlanAssignMemory(memory));
}

static LogicalResult orderBySearch(func::FuncOp program, const ParsedSchedule &schedule,
                                   const CompileOptions &options) {
  if (!options.cluster)
    return program.emitError() << "expected a cluster, on which to search for an order";
  // With uneven routing it is the busiest link that counts.
  int64_t world = options.parallel.getWorld();
  bool hasFlows = schedule.dependsOnRouting() && !options.cluster->links.empty() && world <= kMaxUnevenRanks;
  llvm::Expected<std::unique_ptr<CostModel>> model =
      CostModel::create(*options.cluster, world, hasFlows ? CostForm::LinkLevel : CostForm::ClosedForm);
  if (!model)
    return program.emitError() << llvm::toString(model.takeError());
  return orderPlan(program, OrderPolicy::Search, model->get());
}

/// Whether the launches of a rank program are put into another order: in a pipeline the order is one of all programs,
/// and another one of this alone may wait for what waits for it.
static bool isOrdered(func::FuncOp program, const ParsedSchedule &schedule, const CompileOptions &options) {
  return options.order || (schedule.canOverlap() && !program->hasAttr(plan::kRanksAttrName));
}

/// The launches of a rank program in the order that `options` say.
static LogicalResult orderLaunches(func::FuncOp program, const ParsedSchedule &schedule,
                                   const CompileOptions &options) {
  if (options.order == OrderPolicy::Search)
    return orderBySearch(program, schedule, options);
  if (options.order)
    return orderPlan(program, *options.order, /*model=*/nullptr);
  std::string reason;
  {
    ScopedDiagnosticHandler keep(program.getContext(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        reason = diagnostic.str();
      return success();
    });
    if (succeeded(orderBySearch(program, schedule, options)))
      return success();
  }
  emitWarning(UnknownLoc::get(program.getContext()))
      << "the plan has MPipeMoE's order of launches, since the search for an order failed: " << reason;
  return orderPlan(program, OrderPolicy::MPipeMoe, /*model=*/nullptr);
}

/// plan-order says what is done to each rank program; it is not run, since a search here knows more of the cluster.
static LogicalResult orderPrograms(ModuleOp module, const ParsedSchedule &schedule, const CompileOptions &options) {
  SmallVector<func::FuncOp> programs = plan::getRankPrograms(module);
  llvm::erase_if(programs, [&](func::FuncOp program) { return !isOrdered(program, schedule, options); });
  if (programs.empty())
    return success();
  auto add = [&](PassManager &passes) {
    PlanOrderOptions order;
    order.policy = options.order.value_or(OrderPolicy::Search);
    order.cluster = options.clusterPath;
    passes.addNestedPass<func::FuncOp>(createPlanOrder(order));
    return success();
  };
  auto run = [&] {
    return success(llvm::all_of(
        programs, [&](func::FuncOp program) { return succeeded(orderLaunches(program, schedule, options)); }));
  };
  return runStage(options.runPasses, "order", module, add, /*verify=*/true, run);
}

/// A rank is at home where its number says, a routing group of the whole batch where that of its rank does.
static LogicalResult copyGate(RouteOp route, LayerOp layer, int64_t world) {
  int64_t groups = layer.getGroups(), stride = route.getHomeStride();
  if (static_cast<int64_t>(route.getLeave()) < 0)
    return success();
  if (groups * stride % world != 0)
    return route.emitOpError() << "expected the same number of routing groups on each node but got " << groups
                               << " groups for " << world << " ranks on nodes of " << stride << " ranks";
  layer.setLeave(route.getLeave());
  layer.setHomes(route.getHomes());
  layer.setHomeSpan(groups * stride / world);
  return success();
}

/// Gives each layer of `graph` the routing groups that it has in `rank`, the forward program that was made of it, so
/// that the reference drops the same tokens where S1 routes parts of the layer's own groups. A part takes its share of
/// what a group may take. Capacities are not read from the schedule: one that changes them does not pass the
/// comparison.
static LogicalResult copyRouting(func::FuncOp rank, ModuleOp graph) {
  FailureOr<SpmdAnalysis> states = SpmdAnalysis::compute(rank);
  if (failed(states))
    return failure();
  auto layers = llvm::to_vector(getFunction(graph).getOps<LayerOp>());
  auto routes = llvm::to_vector(rank.getOps<RouteOp>());
  if (layers.size() != routes.size())
    return rank.emitError() << "expected " << layers.size() << " layers to be routed but got " << routes.size();
  for (auto [layer, route] : llvm::zip_equal(layers, routes)) {
    int64_t own = std::max<int64_t>(layer.getGroups(), getParallel(rank).getTokenGroup().getSize()),
            groups = route.getGroups();
    for (GroupAttr group : states->getAxes().getGroups(states->getState(route.getLogits())))
      groups *= group.getSize();
    layer.setGroups(groups);
    if (!layer.isDropless() && groups > own)
      layer.setExpertCapacity(
          llvm::divideCeil(layer.getCapacity(layer.getX().getType().getDimSize(0) / own), groups / own));
    if (failed(copyGate(route, layer, getParallel(rank).getWorld())))
      return failure();
  }
  return success();
}

/// Whole steps are long: what comes out of each pass is checked where assertions are, and what comes out of all once,
/// by compileSchedule.
#ifdef NDEBUG
static constexpr bool kVerifySteps = false;
#else
static constexpr bool kVerifySteps = true;
#endif

/// From a plan in the program's order to its own order, waits and memory.
static LogicalResult orderAndAssign(ModuleOp module, const ParsedSchedule &schedule, const CompileOptions &options,
                                    StringRef prefix) {
  auto assign = [&](PassManager &passes) {
    passes.addPass(plan::createPlanAssignSubprograms());
    if (options.written > 0)
      passes.addNestedPass<func::FuncOp>(plan::createPlanRollLoop());
    addPlanPasses(passes, options);
    return success();
  };
  return failure(failed(orderPrograms(module, schedule, options)) ||
                 failed(runStage(options.runPasses, prefix + "memory", module, assign, kVerifySteps)));
}

/// From the SPMD stage to a plan.
static LogicalResult lowerToPlan(ModuleOp module, const ParsedSchedule &schedule, const CompileOptions &options,
                                 StringRef prefix) {
  auto convert = [&](PassManager &passes) {
    passes.addPass(createMoeOutlinePasses());
    passes.addNestedPass<func::FuncOp>(createConvertMoeToPlan());
    return success();
  };
  if (failed(runStage(options.runPasses, prefix + "plan", module, convert, kVerifySteps)))
    return failure();
  return options.leaveOutOrder ? success() : orderAndAssign(module, schedule, options, prefix);
}

/// Gives the ops of `small` the stages and residuals that the same ops have in `large`, and its parameters the bytes
/// that they have there.
static LogicalResult copyChoices(func::FuncOp large, func::FuncOp small) {
  auto from = llvm::to_vector(llvm::make_pointer_range(large.getOps()));
  auto to = llvm::to_vector(llvm::make_pointer_range(small.getOps()));
  if (large.getNumArguments() != small.getNumArguments() || from.size() != to.size())
    return small.emitError() << "the small model has " << to.size() << " ops where the large one has " << from.size();
  for (auto [op, its] : llvm::zip_equal(from, to)) {
    if (op->getName() != its->getName())
      return its->emitError() << "the small model has '" << its->getName() << "' where the large one has '"
                              << op->getName() << "'";
    for (StringRef name : {kStageAttrName, kResidualAttrName})
      if (Attribute value = op->getAttr(name))
        its->setAttr(name, value);
  }
  Builder builder(small.getContext());
  for (auto [index, type] : llvm::enumerate(large.getArgumentTypes()))
    small.setArgAttr(index, kCountedBytesAttrName,
                     builder.getI64IntegerAttr(getByteSize(cast<RankedTensorType>(type))));
  return success();
}

/// A copy of the graph, compiled to one program: the rank program, whose routing `graph` then has too, or the
/// reference. `applied`: the name of the schedule without what no layer could be given.
static FailureOr<OwningOpRef<ModuleOp>> compileWritten(ModuleOp graph, const ParsedSchedule &schedule,
                                                       const CompileOptions &options, bool reference,
                                                       std::string *applied = nullptr) {
  OwningOpRef<ModuleOp> module = graph.clone();
  getFunction(*module).setName(reference ? kReferenceName : kRankName);
  StringRef prefix = reference ? "reference-" : "";
  auto addForward = [&](PassManager &passes) { return addForwardPasses(passes, schedule, options, graph, reference); };
  auto addBackward = [&](PassManager &passes) {
    addBackwardPasses(passes, schedule, options, getFunction(*module), reference);
    return success();
  };
  if (failed(runStage(options.runPasses, prefix + "forward", *module, addForward)))
    return failure();
  if (!reference && options.choices && failed(copyChoices(getFunction(options.choices), getFunction(*module))))
    return failure();
  if (!reference && failed(copyRouting(getFunction(*module), graph)))
    return failure();
  std::string name = getApplied(schedule, getFunction(*module)).getName();
  if (applied)
    *applied = name;
  if (options.stage == Stage::Forward)
    return module;
  if (failed(runStage(options.runPasses, prefix + "backward", *module, addBackward, kVerifySteps)))
    return failure();
  if (options.stage == Stage::Plan && failed(lowerToPlan(*module, schedule, options, prefix)))
    return failure();
  return module;
}

/// Whether the micro-batches of a program may become a loop: not where a search orders all launches of a step, where
/// chunks are in a ring, or where something else than the plan is asked for.
static bool mayHaveLoop(const ParsedSchedule &schedule, const CompileOptions &options, bool reference) {
  if (!options.hasLoop || options.stage != Stage::Plan || options.leaveOutOrder || options.markParts)
    return false;
  bool isPipeline = options.parallel.getPp() > 1;
  return reference || (schedule.getRing() == 0 && (isPipeline || (!options.order && !schedule.canOverlap())));
}

/// How many numbers of micro-batches are tried for a loop.
static constexpr int64_t kMostTries = 3;

/// By how many micro-batches the launches of a device repeat themselves.
static int64_t getPeriod(const CompileOptions &options, bool reference) {
  bool isInterleaved = options.interleave > 1 && (options.pipelineOrder == PipelineOrder::OneForwardOneBackward ||
                                                  options.pipelineOrder == PipelineOrder::Overlapped1F1B);
  return reference ? 1 : (isInterleaved ? options.parallel.getPp() : 1) * options.sideBySide;
}

/// So many micro-batches that a pipeline is filled, does the same at least twice, and is emptied. Tried out: orders
/// that are searched may need more.
static int64_t chooseWritten(const CompileOptions &options, bool reference) {
  int64_t pp = reference ? 1 : options.parallel.getPp(), period = getPeriod(options, reference);
  bool isInterleaved = period > options.sideBySide;
  int64_t filled = pp + 6;
  // Windows begin to be alike behind those of the first micro-batch, whose gradients are no sums yet.
  if (pp > 1 && options.interleave > 1)
    filled = (isInterleaved ? isOverlapped(options.pipelineOrder) ? 5 : 4 : 3) * pp;
  filled *= reference ? 1 : options.sideBySide;
  return filled + (options.microBatches - filled) % period;
}

/// Else a loop saves too little.
static bool isWorthALoop(int64_t written, int64_t microBatches) { return 4 * written <= 3 * microBatches; }

int64_t mlir::moe::getFewestMicroBatches(const CompileOptions &options, int64_t further) {
  const int64_t written = chooseWritten(options, /*reference=*/false), period = getPeriod(options, /*reference=*/false);
  if (!options.hasLoop || !isWorthALoop(written, options.microBatches))
    return options.microBatches;
  int64_t fewest = options.microBatches;
  while (fewest - 2 * period >= written)
    fewest -= period;
  return std::min(options.microBatches, fewest + 2 * further * std::max(period, options.parallel.getPp()));
}

/// Compiles a form that may not suit the program. Then `reason` is the first error, and another form is to be tried.
/// Else `said` is what is to be said if the form is taken.
static FailureOr<OwningOpRef<ModuleOp>> tryForm(ModuleOp graph, const ParsedSchedule &schedule,
                                                const CompileOptions &form, bool reference, std::string *applied,
                                                std::vector<Diagnostic> &said, std::string &reason) {
  said.clear();
  FailureOr<OwningOpRef<ModuleOp>> module = failure();
  {
    ScopedDiagnosticHandler keep(graph.getContext(), [&](Diagnostic &diagnostic) {
      said.push_back(std::move(diagnostic));
      return success();
    });
    module = compileWritten(graph, schedule, form, reference, applied);
  }
  auto isError = [](const Diagnostic &one) { return one.getSeverity() == DiagnosticSeverity::Error; };
  if (auto error = llvm::find_if(said, isError); failed(module) && error != said.end())
    reason = error->str();
  return module;
}

static bool fits(ModuleOp plan, const CompileOptions &options) {
  auto limit = static_cast<double>(options.memoryLimit);
  if (limit == 0 && options.cluster)
    limit = options.cluster->getPlanBytes();
  return limit <= 0 || static_cast<double>(getDeviceBytes(plan)) <= limit;
}

/// Tries the shortest forms of the program first: a loop of few micro-batches, and few of them in the passes before.
static FailureOr<OwningOpRef<ModuleOp>> compileProgram(ModuleOp graph, const ParsedSchedule &schedule,
                                                       const CompileOptions &options, bool reference,
                                                       std::string *applied = nullptr) {
  FailureOr<OwningOpRef<ModuleOp>> looped = failure(), whole = failure();
  std::vector<Diagnostic> saidOfLooped, saidOfWhole;
  std::string noLoop, notAlike;
  auto take = [&](FailureOr<OwningOpRef<ModuleOp>> &taken, std::vector<Diagnostic> &said) {
    for (Diagnostic &diagnostic : said)
      graph.getContext()->getDiagEngine().emit(std::move(diagnostic));
    return std::move(taken);
  };
  CompileOptions form = options;
  if (mayHaveLoop(schedule, options, reference))
    form.written = chooseWritten(options, reference);
  // A small model has the loop that a large one has.
  auto isShort = [&] {
    return options.choices ? form.written < options.microBatches : isWorthALoop(form.written, options.microBatches);
  };
  bool mayLoop = form.written > 0 && isShort();
  for (int64_t tries = 0; mayLoop && tries < kMostTries && failed(looped) && isShort(); ++tries) {
    looped = tryForm(graph, schedule, form, reference, applied, saidOfLooped, noLoop);
    form.written += std::max<int64_t>(options.parallel.getPp(), 2) * options.sideBySide;
  }
  if (succeeded(looped) && (reference || fits(**looped, options)))
    return take(looped, saidOfLooped);
  form.written = 0;
  if (options.microBatches > kRepeated)
    whole = tryForm(graph, schedule, form, reference, applied, saidOfWhole, notAlike);
  if (failed(whole) && failed(looped)) {
    form.repeats = false;
    return compileWritten(graph, schedule, form, reference, applied);
  }
  if (failed(whole) || (succeeded(looped) && getDeviceBytes(**looped) <= getDeviceBytes(**whole)))
    return take(looped, saidOfLooped);
  if (mayLoop)
    emitWarning(graph.getLoc()) << "the plan writes out all " << options.microBatches
                                << " micro-batches, and grows with them: "
                                << (failed(looped) ? "no loop can stand for them, since " + noLoop
                                                   : "with a loop it needs more memory than a device has");
  return take(whole, saidOfWhole);
}

/// The launches of a pipeline have one order.
static LogicalResult checkOrder(MLIRContext *context, const CompileOptions &options) {
  if (options.parallel.getPp() > 1 && options.order && *options.order != OrderPolicy::Program)
    return emitError(UnknownLoc::get(context))
           << "expected no --order, or --order=program, with pp = " << options.parallel.getPp()
           << ": the launches of a stage stay in the order of --pipeline, since other stages may wait for any of them";
  return success();
}

static LogicalResult checkGraph(ModuleOp graph) {
  if (isSpmdProgram(graph))
    return graph.emitError()
           << "expected a model graph but got a rank program, whose choices are made; moe-compile makes a "
              "plan of it";
  auto functions = graph.getOps<func::FuncOp>();
  if (!llvm::hasSingleElement(functions))
    return graph.emitError() << "expected a model graph of exactly one function but got "
                             << std::distance(functions.begin(), functions.end());
  func::FuncOp function = *functions.begin();
  return failure(
      failed(checkNames(function, "a model graph", {"input", "parameter", "step"}, {"output", "loss", "metric"})) ||
      failed(checkSizes(function)));
}

/// What a plan says of its exchanges on the cluster, and the proof that it is one.
static LogicalResult finishPlan(ModuleOp plan, const CompileOptions &options) {
  if (options.leaveOutProofs || options.leaveOutOrder)
    return success();
  if (options.cluster)
    setTransferSeconds(plan, options.parallel.getWorld(), *options.cluster);
  return runStage(options.runPasses, "verify", plan, [](PassManager &passes) {
    passes.addPass(plan::createPlanVerify());
    return success();
  });
}

static LogicalResult checkPrograms(ModuleOp plan) {
  return success(
      llvm::all_of(plan::getRankPrograms(plan), [](func::FuncOp program) { return succeeded(checkSizes(program)); }));
}

static void setWork(ModuleOp plan, const StepWork &work) {
  Builder builder(plan.getContext());
  plan->setAttr(plan::kModelFlopsAttrName, builder.getF64FloatAttr(work.modelFlops));
  plan->setAttr(plan::kTokensAttrName, builder.getI64IntegerAttr(static_cast<int64_t>(work.tokens)));
}

/// The rank program and, behind it, the reference.
FailureOr<OwningOpRef<ModuleOp>> mlir::moe::compileSchedule(ModuleOp prepared, const ParsedSchedule &schedule,
                                                            const CompileOptions &options) {
  if (options.recompute != Recompute::None && schedule.getRing() > 0)
    return emitError(UnknownLoc::get(prepared.getContext()))
           << "expected --recompute without a ring of buffers but got --schedule=" << schedule.getName()
           << ": a ring holds the values of " << schedule.getRing()
           << " chunks, but a backward that computes its block again needs the values of all chunks; use +pipeline:N "
              "without a ring and without +mpipe, or leave out --recompute";
  // The routing of its layers becomes the schedule's.
  OwningOpRef<ModuleOp> graph = prepared.clone();
  std::string applied;
  FailureOr<OwningOpRef<ModuleOp>> module = compileProgram(*graph, schedule, options, /*reference=*/false, &applied);
  if (failed(module))
    return failure();
  setWork(**module, getModelWork(prepared, options));
  if (options.stage == Stage::Forward)
    return module;
  if (failed(checkPrograms(**module)))
    return failure();
  if (options.reference) {
    FailureOr<OwningOpRef<ModuleOp>> reference = compileProgram(*graph, schedule, options, /*reference=*/true);
    if (failed(reference))
      return failure();
    getFunction(**reference)->moveAfter(&(**module).getBody()->back());
  }
  Builder builder(prepared.getContext());
  (**module)->setAttr(plan::kScheduleAttrName, builder.getStringAttr(applied));
  (**module)->setAttr(plan::kModeAttrName, builder.getStringAttr(options.train ? "train" : "forward"));
  if (options.stage == Stage::Plan) {
    if (failed(finishPlan(**module, options)))
      return failure();
    return module;
  }
  if (applied != schedule.getName())
    (**module)->setAttr(kRequestedAttrName, builder.getStringAttr(schedule.getName()));
  setLabels(**module);
  return module;
}

LogicalResult mlir::moe::orderCompiled(ModuleOp plan, const ParsedSchedule &schedule, const CompileOptions &options) {
  return failure(failed(orderAndAssign(plan, schedule, options, /*prefix=*/"")) || failed(finishPlan(plan, options)));
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::compileSpmd(ModuleOp program, const CompileOptions &given) {
  CompileOptions options = given;
  OwningOpRef<ModuleOp> module = program.clone();
  FailureOr<SpmdHeader> header = takeSpmdHeader(*module, options.reference);
  if (failed(header))
    return failure();
  options.parallel = header->parallel;
  if (!options.order)
    options.order = header->order;
  auto check = [](PassManager &passes) {
    passes.addNestedPass<func::FuncOp>(createMoeVerifySpmd());
    return success();
  };
  if (failed(runStage(options.runPasses, "check", *module, check)))
    return failure();
  if (options.stage == Stage::Spmd) {
    setLabels(*module);
    return module;
  }
  // Behind this stage the nodes alone matter, not the rates.
  ClusterRates rates = getClusterRates(*module);
  rates.nodeRanks = options.devicesPerNode;
  (*module)->setAttr(kClusterAttrName, ClusterAttr::get(module->getContext(), rates));
  (*module)->removeAttr(kRequestedAttrName);
  if (!(*module)->hasAttr(plan::kScheduleAttrName))
    (*module)->setAttr(plan::kScheduleAttrName, StringAttr::get(module->getContext(), "hand-written"));
  if (failed(lowerToPlan(*module, header->schedule, options, "")) || failed(checkPrograms(*module)) ||
      failed(finishPlan(*module, options)))
    return failure();
  return module;
}

LogicalResult mlir::moe::provePlan(ModuleOp plan, const CompileOptions &options) {
  return failure(failed(checkPrograms(plan)) || failed(finishPlan(plan, options)));
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::compileHalves(ModuleOp plan, const CompileOptions &options) {
  OwningOpRef<ModuleOp> halves = ModuleOp::create(plan.getLoc());
  for (StringRef half : {plan::kForwardHalf, plan::kBackwardHalf}) {
    OwningOpRef<ModuleOp> module = plan.clone();
    // It is of a whole step, as are these figures.
    if (Operation *reference = module->lookupSymbol(kReferenceName))
      reference->erase();
    (*module)->removeAttr(plan::kModelFlopsAttrName);
    (*module)->setAttr(plan::kHalfAttrName, StringAttr::get(plan.getContext(), half));
    auto extract = [&](PassManager &passes) {
      passes.addNestedPass<func::FuncOp>(plan::createPlanExtractHalf({half.str()}));
      addPlanPasses(passes, options);
      return success();
    };
    if (failed(runStage(options.runPasses, half + "-half", *module, extract)) || failed(finishPlan(*module, options)))
      return failure();
    halves->push_back(module.release());
  }
  return halves;
}

int64_t mlir::moe::getTokens(ModuleOp graph) {
  func::FuncOp function = getFunction(graph);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto role = function.getArgAttrOfType<StringAttr>(i, kRoleAttrName);
    auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[i]);
    if (role && role.getValue() == "input" && type && type.getRank() > 0)
      return type.getDimSize(0);
  }
  return 0;
}

StepWork mlir::moe::getModelWork(ModuleOp graph, const CompileOptions &options) {
  StepWork microBatch{0, static_cast<double>(getTokens(graph))};
  // The backward of a product is two products of the same size.
  graph.walk([&](MoeCostOpInterface op) { microBatch.modelFlops += op.getModelFlops() * (options.train ? 3 : 1); });
  return microBatch * static_cast<double>(options.microBatches);
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::prepareGraph(ModuleOp model, const CompileOptions &options) {
  if (failed(checkGraph(model)) || failed(checkOrder(model.getContext(), options)))
    return failure();
  OwningOpRef<ModuleOp> graph = model.clone();
  (*graph)->setAttr(kParallelAttrName, options.parallel);
  // Each layer that is left is routed.
  getFunction(*graph).walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
  });
  return graph;
}

LogicalResult mlir::moe::lowerToLLVM(ModuleOp plan, const PassRunner &runPasses) {
  return runStage(runPasses, "llvm", plan, [](PassManager &passes) {
    passes.addPass(createConvertPlanToLLVM());
    return success();
  });
}
