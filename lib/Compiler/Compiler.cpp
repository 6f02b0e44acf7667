//===- Compiler.cpp - from a model graph to a plan ------------------------===//
#include "moe/Compiler/Compiler.h"

#include "Search.h"
#include "Transfers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Compiler/AutoSchedule.h"
#include "moe/Compiler/Memory.h"
#include "moe/Conversion/Passes.h"
#include "moe/Cost/ClusterProfile.h"
#include "moe/Cost/CostModel.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/Transforms/HappensBefore.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::moe;

void mlir::moe::registerDialects(DialectRegistry &registry) {
  registry.insert<MoeDialect, plan::PlanDialect, func::FuncDialect, LLVM::LLVMDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

static void addSimplification(PassManager &passes) {
  // Functions are one block each: there is nothing to simplify between blocks, and of a long one that takes a while.
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass(config));
  passes.addNestedPass<func::FuncOp>(createCSEPass());
}

static func::FuncOp getFunction(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

/// Bytes a second that a rank exchanges with the others of `ranks` neighbours; 0 where the cluster does not say.
static double getExchangeRate(const ClusterProfile &cluster, int64_t ranks, StringRef dtype) {
  constexpr int64_t manyBytes = int64_t(1) << 26;
  llvm::Expected<std::unique_ptr<CostModel>> model = CostModel::create(cluster, ranks, CostForm::ClosedForm);
  if (!model) {
    llvm::consumeError(model.takeError());
    return 0;
  }
  auto line =
      (*model)->getAlphaBeta(Collective::AllToAll, llvm::to_vector(llvm::seq<int64_t>(0, ranks)), dtype, manyBytes);
  if (!line) {
    llvm::consumeError(line.takeError());
    return 0;
  }
  return line->beta > 0 ? 1 / line->beta : 0;
}

/// Stages that take about as long as each other on the cluster, or on devices of today.
static MoeCutStagesOptions getStages(const CompileOptions &options, ModuleOp graph) {
  MoeCutStagesOptions stages;
  stages.stages = options.parallel.getPp() * options.interleave;
  stages.nodeRanks = options.devicesPerNode;
  if (!options.cluster)
    return stages;
  stages.memoryBytesPerSecond = options.cluster->memoryBytesPerSecond;
  for (Type type : getFunction(graph).getArgumentTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && isa<FloatType>(tensor.getElementType())) {
      std::string dtype;
      llvm::raw_string_ostream(dtype) << tensor.getElementType();
      if (const DeviceRate *rate = options.cluster->getRate(dtype))
        stages.flopsPerSecond = rate->flopsPerSecond;
      int64_t node = options.devicesPerNode, most = options.cluster->getMaxDevices();
      if (double rate = getExchangeRate(*options.cluster, std::min(node, most), dtype); rate > 0)
        stages.nodeBytesPerSecond = rate;
      if (double rate = getExchangeRate(*options.cluster, std::min(2 * node, most), dtype); rate > 0)
        stages.sendBytesPerSecond = rate;
      break;
    }
  return stages;
}

/// From the model graph to the forward SPMD program in its schedule; of the reference, in none.
static LogicalResult addForwardPasses(PassManager &passes, const ParsedSchedule &schedule,
                                      const CompileOptions &options, ModuleOp graph, bool reference) {
  MoePartitionOptions partition;
  partition.reference = reference;
  if (reference)
    partition.groups = options.parallel.getDp();
  passes.addPass(createMoePartition(partition));
  if (reference)
    return success();
  if (failed(addSchedule(passes, schedule, options, graph)))
    return failure();
  if (options.sequenceParallel)
    passes.addNestedPass<func::FuncOp>(createMoeSequenceParallel());
  if (options.parallel.getPp() > 1)
    passes.addNestedPass<func::FuncOp>(createMoeCutStages(getStages(options, graph)));
  if (options.recompute)
    passes.addNestedPass<func::FuncOp>(createMoeRecomputeBlocks());
  return success();
}

/// From the forward program to all of it at the SPMD stage, or to a plan without an order.
static void addBackwardPasses(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                              func::FuncOp forward, bool reference) {
  addSimplification(passes);
  if (options.microBatches > 1) {
    passes.addNestedPass<func::FuncOp>(createMoeAccumulate({options.microBatches}));
    // What all micro-batches do alike, such as with parameters.
    passes.addNestedPass<func::FuncOp>(createCSEPass());
  }
  if (options.train)
    passes.addNestedPass<func::FuncOp>(createMoeDifferentiate());
  if (options.optimizer)
    passes.addNestedPass<func::FuncOp>(createMoeOptimize(*options.optimizer));
  if (options.train || options.optimizer)
    addSimplification(passes);
  int64_t pp = reference ? 1 : options.parallel.getPp();
  if (options.microBatches > 1 || pp > 1)
    passes.addNestedPass<func::FuncOp>(createMoeOrderMicroBatches({pp}));
  if (!reference)
    addOverlap(passes, schedule, options, forward);
  passes.addNestedPass<func::FuncOp>(createMoeVerifySpmd());
  if (!reference)
    passes.addPass(createMoeSplitStages());
  if (options.stage == Stage::Spmd)
    return;
  passes.addNestedPass<func::FuncOp>(createConvertMoeToPlan());
}

/// From a plan in its order to its waits and memory.
static void addPlanPasses(PassManager &passes, const CompileOptions &options) {
  plan::PlanAssignStreamsOptions streams;
  streams.devicesPerNode = options.devicesPerNode;
  passes.addNestedPass<func::FuncOp>(plan::createPlanAssignStreams(streams));
  passes.addNestedPass<func::FuncOp>(plan::createPlanAssignMemory());
}

static LogicalResult orderBySearch(func::FuncOp program, const ParsedSchedule &schedule,
                                   const CompileOptions &options) {
  if (!options.cluster)
    return program.emitError() << "expected a cluster to search an order on";
  // With uneven routing it is the busiest link that counts.
  int64_t world = options.parallel.getWorld();
  bool hasFlows = schedule.dependsOnRouting() && !options.cluster->links.empty() && world <= kMaxUnevenRanks;
  llvm::Expected<std::unique_ptr<CostModel>> model =
      CostModel::create(*options.cluster, world, hasFlows ? CostForm::LinkLevel : CostForm::ClosedForm);
  if (!model)
    return program.emitError() << llvm::toString(model.takeError());
  return orderPlan(program, OrderPolicy::Search, model->get(), options.devicesPerNode);
}

/// The launches of a rank program in the order that `options` say.
static LogicalResult orderLaunches(func::FuncOp program, const ParsedSchedule &schedule,
                                   const CompileOptions &options) {
  if (options.order == OrderPolicy::Search)
    return orderBySearch(program, schedule, options);
  if (options.order)
    return orderPlan(program, *options.order, /*model=*/nullptr, options.devicesPerNode);
  // In a pipeline the order is one of all programs: another one of this alone may wait for what waits for it.
  if (!schedule.canOverlap() || program->hasAttr(plan::kRanksAttrName))
    return success();
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
      << "the plan is in MPipeMoE's order, since none can be searched: " << reason;
  return orderPlan(program, OrderPolicy::MPipeMoe, /*model=*/nullptr, options.devicesPerNode);
}

/// A rank is at home where its number says, a routing group of the whole batch where that of its rank does.
static LogicalResult copyGate(RouteOp route, LayerOp layer, int64_t world) {
  int64_t groups = layer.getGroups(), stride = route.getHomeStride();
  if (static_cast<int64_t>(route.getLeave()) < 0)
    return success();
  if (groups * stride % world != 0)
    return route.emitOpError() << "expected as many routing groups in each node but got " << groups << " for " << world
                               << " ranks in nodes of " << stride;
  layer.setLeave(route.getLeave());
  layer.setHomes(route.getHomes());
  layer.setHomeSpan(groups * stride / world);
  return success();
}

/// Schedules may route in other groups, or pad capacities: gives each layer of `graph` the routing that it has in
/// `rank`, the forward program that was made of it, so that the reference drops the same tokens.
static LogicalResult copyRouting(func::FuncOp rank, ModuleOp graph) {
  FailureOr<SpmdAnalysis> states = SpmdAnalysis::compute(rank);
  if (failed(states))
    return failure();
  auto layers = llvm::to_vector(getFunction(graph).getOps<LayerOp>());
  auto routes = llvm::to_vector(rank.getOps<RouteOp>());
  if (layers.size() != routes.size())
    return rank.emitError() << "expected " << layers.size() << " layers to be routed but got " << routes.size();
  for (auto [layer, route] : llvm::zip_equal(layers, routes)) {
    int64_t groups = route.getGroups();
    for (GroupAttr group : states->getAxes().getGroups(states->getState(route.getLogits())))
      groups *= group.getSize();
    layer.setGroups(groups);
    if (!layer.isDropless())
      layer.setExpertCapacity(route.getCapacity());
    if (failed(copyGate(route, layer, getParallel(rank).getWorld())))
      return failure();
  }
  return success();
}

/// Passes over whole steps, which are long: what comes out of each is checked where assertions are, and what comes out
/// of all once, by compileSchedule.
static LogicalResult runOnStep(PassManager &passes, ModuleOp module) {
#ifdef NDEBUG
  passes.enableVerifier(false);
#endif
  return passes.run(module);
}

/// A copy of the graph, compiled to one program: the rank program, whose routing `graph` then has too, or the
/// reference.
static FailureOr<OwningOpRef<ModuleOp>> compileProgram(ModuleOp graph, const ParsedSchedule &schedule,
                                                       const CompileOptions &options, bool reference) {
  OwningOpRef<ModuleOp> module = graph.clone();
  getFunction(*module).setName(reference ? "reference" : "rank");
  PassManager forward(graph.getContext()), backward(graph.getContext());
  if (failed(addForwardPasses(forward, schedule, options, graph, reference)) || failed(forward.run(*module)))
    return failure();
  if (!reference && failed(copyRouting(getFunction(*module), graph)))
    return failure();
  if (options.stage == Stage::Forward)
    return module;
  addBackwardPasses(backward, schedule, options, getFunction(*module), reference);
  if (failed(runOnStep(backward, *module)))
    return failure();
  if (options.stage == Stage::Spmd)
    return module;
  for (func::FuncOp program : plan::getRankPrograms(*module))
    if (failed(orderLaunches(program, schedule, options)))
      return failure();
  PassManager plan(graph.getContext());
  addPlanPasses(plan, options);
  if (failed(runOnStep(plan, *module)))
    return failure();
  return module;
}

/// Every type that the program holds is small enough to count its bytes, and those of many such, in 64 bits.
static LogicalResult checkSizes(func::FuncOp program) {
  constexpr int64_t maxBytes = int64_t(1) << 48;
  auto isSmall = [](Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    if (!shaped || !shaped.hasStaticShape() || !shaped.getElementType().isIntOrFloat())
      return true;
    int64_t bytes = llvm::divideCeil(shaped.getElementTypeBitWidth(), 8);
    for (int64_t size : shaped.getShape())
      if (llvm::MulOverflow(bytes, size, bytes) || bytes > maxBytes)
        return false;
    return true;
  };
  auto check = [&](Operation *op, TypeRange types) -> LogicalResult {
    for (Type type : types)
      if (!isSmall(type))
        return op->emitError() << "expected tensors of at most " << maxBytes << " bytes but got " << type;
    return success();
  };
  if (failed(check(program, program.getArgumentTypes())))
    return failure();
  WalkResult walk = program.getBody().walk([&](Operation *op) { return WalkResult(check(op, op->getResultTypes())); });
  return failure(walk.wasInterrupted());
}

/// Arguments and results are found by name at run time.
static LogicalResult checkNames(func::FuncOp function) {
  llvm::StringSet<> arguments, results;
  auto check = [&](DictionaryAttr attributes, llvm::StringSet<> &seen, ArrayRef<StringRef> roles) -> LogicalResult {
    auto name = attributes ? attributes.getAs<StringAttr>(kNameAttrName) : StringAttr();
    if (name && !seen.insert(name.getValue()).second)
      return function.emitError() << "expected each " << kNameAttrName << " once but got " << name << " twice";
    auto role = attributes ? attributes.getAs<StringAttr>(kRoleAttrName) : StringAttr();
    if (role && !llvm::is_contained(roles, role.getValue()))
      return function.emitError() << "expected " << kRoleAttrName << " in a model graph to be "
                                  << llvm::join(roles, " or ") << " but got " << role;
    return success();
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (failed(check(function.getArgAttrDict(i), arguments, {"input", "parameter", "step"})))
      return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (failed(check(function.getResultAttrDict(i), results, {"output", "loss", "metric"})))
      return failure();
  return success();
}

static LogicalResult checkGraph(ModuleOp graph) {
  auto functions = graph.getOps<func::FuncOp>();
  if (!llvm::hasSingleElement(functions))
    return graph.emitError() << "expected a model graph of exactly one function but got "
                             << std::distance(functions.begin(), functions.end());
  func::FuncOp function = *functions.begin();
  return failure(failed(checkNames(function)) || failed(checkSizes(function)));
}

/// The rank program and, at the plan stage, the reference.
FailureOr<OwningOpRef<ModuleOp>> mlir::moe::compileSchedule(ModuleOp prepared, const ParsedSchedule &schedule,
                                                            const CompileOptions &options) {
  // The routing of its layers becomes the schedule's.
  OwningOpRef<ModuleOp> graph = prepared.clone();
  FailureOr<OwningOpRef<ModuleOp>> module = compileProgram(*graph, schedule, options, /*reference=*/false);
  if (failed(module) || options.stage != Stage::Plan)
    return module;
  SmallVector<func::FuncOp> programs = plan::getRankPrograms(**module);
  for (func::FuncOp program : programs)
    if (failed(checkSizes(program)))
      return failure();
  if (options.reference) {
    FailureOr<OwningOpRef<ModuleOp>> reference = compileProgram(*graph, schedule, options, /*reference=*/true);
    if (failed(reference))
      return failure();
    getFunction(**reference)->moveAfter(programs.back());
  }
  Builder builder(prepared.getContext());
  (**module)->setAttr("plan.schedule", builder.getStringAttr(schedule.getName()));
  (**module)->setAttr("plan.mode", builder.getStringAttr(options.train ? "train" : "forward"));
  if (options.cluster)
    setTransferSeconds(**module, options.parallel.getWorld(), *options.cluster);
  PassManager passes(prepared.getContext());
  passes.addPass(plan::createPlanVerify());
  if (failed(passes.run(**module)))
    return failure();
  return module;
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

/// A copy of the graph for `options`, without layers that nobody needs: each that is left is routed.
static OwningOpRef<ModuleOp> prepare(ModuleOp model, const CompileOptions &options) {
  OwningOpRef<ModuleOp> graph = model.clone();
  (*graph)->setAttr(kParallelAttrName, options.parallel);
  getFunction(*graph).walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
  });
  return graph;
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::compile(ModuleOp model, const CompileOptions &options) {
  FailureOr<ParsedSchedule> schedule = parseSchedule(model.getContext(), options.schedule);
  if (failed(schedule) || failed(checkGraph(model)))
    return failure();
  OwningOpRef<ModuleOp> graph = prepare(model, options);
  if (schedule->everything)
    return compileBest(*graph, options);
  if (schedule->isOpen())
    return searchSchedule(*graph, *schedule, options);
  FailureOr<OwningOpRef<ModuleOp>> module = compileSchedule(*graph, *schedule, options);
  if (failed(module) || options.stage != Stage::Plan || options.memoryLimit == 0)
    return module;
  int64_t bytes = getMemory(getLargestProgram(**module)).getDeviceBytes();
  return bytes <= options.memoryLimit ? std::move(module) : searchToFit(*graph, *schedule, options, bytes);
}

LogicalResult mlir::moe::lowerToLLVM(ModuleOp plan) {
  PassManager passes(plan.getContext());
  passes.addPass(createConvertPlanToLLVM());
  return passes.run(plan);
}
