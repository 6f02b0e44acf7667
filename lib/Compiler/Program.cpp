//===- Program.cpp - one program of a plan --------------------------------===//
#include "Stages.h"

#include "llvm/Support/MathExtras.h"

#include "moe/Conversion/Passes.h"
#include "moe/Dialect/Moe/IR/ElementTypes.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"
#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// The order of launches
//===----------------------------------------------------------------------===//

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
/// Runs plan-order on a cluster that the caller has already read. The schedule says whether routing is even.
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

/// Puts the launches of a plan's programs into the order that `options` ask for.
static LogicalResult orderPrograms(ModuleOp module, const ParsedSchedule &schedule, const CompileOptions &options) {
  if (llvm::none_of(plan::getRankPrograms(module),
                    [&](func::FuncOp program) { return isOrdered(program, schedule, options); }))
    return success();
  auto add = [&](PassManager &passes) {
    passes.addNestedPass<func::FuncOp>(std::make_unique<OrderPrograms>(schedule, options));
  };
  return runStage(options.runPasses, "order", module, add, verifiesSteps(options));
}

//===----------------------------------------------------------------------===//
// One form
//===----------------------------------------------------------------------===//

LogicalResult mlir::moe::orderAndAssign(ModuleOp module, const ParsedSchedule &schedule, const CompileOptions &options,
                                        const ProgramForm &form, StringRef prefix) {
  auto assign = [&](PassManager &passes) {
    passes.addPass(plan::createPlanAssignSubprograms());
    if (form.written > 0)
      passes.addNestedPass<func::FuncOp>(plan::createPlanRollLoop());
    addPlanPasses(passes, options);
  };
  return failure(failed(orderPrograms(module, schedule, options)) ||
                 failed(runStage(options.runPasses, prefix + "memory", module, assign, verifiesSteps(options))));
}

LogicalResult mlir::moe::lowerToPlan(ModuleOp module, const ParsedSchedule &schedule, const CompileOptions &options,
                                     const ProgramForm &form, StringRef prefix) {
  auto convert = [&](PassManager &passes) {
    passes.addPass(createMoeOutlinePasses());
    passes.addNestedPass<func::FuncOp>(createConvertMoeToPlan());
  };
  if (failed(runStage(options.runPasses, prefix + "plan", module, convert, verifiesSteps(options))))
    return failure();
  return options.leaveOutOrder ? success() : orderAndAssign(module, schedule, options, form, prefix);
}

/// Copies the homes of a gate. The number of a rank gives its home, and the rank of a routing group gives the group's.
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

/// Gives a layer more routing groups than `own`, which its baseline has. Each takes its share of what one of `own` may
/// take. Fails if this drops other tokens, and may not.
static LogicalResult divideGroups(LayerOp layer, int64_t groups, int64_t own, bool keepsDrops) {
  layer.setGroups(groups);
  int64_t tokens = layer.getX().getType().getDimSize(0) / own, capacity = layer.getCapacity(tokens);
  if (layer.isDropless() || groups <= own)
    return success();
  if (keepsDrops && capacity < tokens)
    return layer.emitOpError() << "has a capacity of " << capacity << " for " << tokens
                               << " tokens, and in this schedule " << groups / own
                               << " members share it: other tokens are dropped than in the baseline. "
                               << "--vary=drops allows that";
  layer.setExpertCapacity(llvm::divideCeil(capacity, groups / own));
  return success();
}

/// Gives each layer of `graph` the routing groups that it has in `rank`, its forward program, so that the reference
/// drops the same tokens. Capacities are not read from the schedule: one that changes them does not pass the
/// comparison.
static LogicalResult copyRouting(func::FuncOp rank, ModuleOp graph, bool keepsDrops) {
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
    if (failed(divideGroups(layer, groups, own, keepsDrops)) ||
        failed(copyGate(route, layer, getParallel(rank).getWorld())))
      return failure();
  }
  return success();
}

/// Gives the ops of `small` the stages and residuals of the same ops in `large`, and its parameters their bytes there.
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

/// Records the types that the program of `graph` is asked to have.
static void setTypes(ModuleOp module, func::FuncOp graph, const CompileOptions &options) {
  FloatType dtype = getProgramType(graph);
  if (!dtype)
    return;
  module->setAttr(kDTypeAttrName, TypeAttr::get(dtype));
  if (options.train)
    module->setAttr(kGradientDTypeAttrName, TypeAttr::get(options.wideGradients ? getAccumulatorType(dtype) : dtype));
}

static FailureOr<CompiledProgram> compileForm(ModuleOp graph, const ParsedSchedule &schedule,
                                              const CompileOptions &options, const ProgramForm &form, bool reference) {
  CompiledProgram program{graph.clone(), ""};
  ModuleOp module = *program.module;
  getFunction(module).setName(reference ? kReferenceName : kRankName);
  setTypes(module, getFunction(graph), options);
  StringRef prefix = reference ? "reference-" : "";
  ClusterAttr cluster;
  if (!reference) {
    FailureOr<ClusterAttr> described = describeCluster(graph, schedule, options);
    if (failed(described) || failed(checkLayers(schedule, graph)))
      return failure();
    cluster = *described;
  }
  auto addForward = [&](PassManager &passes) { addForwardPasses(passes, schedule, options, graph, cluster); };
  auto addBackward = [&](PassManager &passes) {
    addBackwardPasses(passes, schedule, options, form, getFunction(module), reference);
  };
  if (failed(runStage(options.runPasses, prefix + "forward", module, addForward)))
    return failure();
  if (!reference && options.choices && failed(copyChoices(getFunction(options.choices), getFunction(module))))
    return failure();
  if (!reference && failed(copyRouting(getFunction(module), graph, options.keepsDrops)))
    return failure();
  program.applied = getApplied(schedule, getFunction(module)).getName();
  if (options.stage == Stage::Forward)
    return program;
  if (failed(runStage(options.runPasses, prefix + "backward", module, addBackward, verifiesSteps(options))))
    return failure();
  if (options.stage == Stage::Plan && failed(lowerToPlan(module, schedule, options, form, prefix)))
    return failure();
  return program;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// Whether micro-batches may become a loop: no search orders all launches, and no chunks are in a ring.
static bool mayHaveLoop(const ParsedSchedule &schedule, const CompileOptions &options, bool reference) {
  if (!options.hasLoop || options.stage != Stage::Plan || options.leaveOutOrder || options.markParts)
    return false;
  bool isPipeline = options.parallel.getPp() > 1;
  return reference || (schedule.getRing() == 0 && (isPipeline || (!options.order && !schedule.canOverlap())));
}

/// Number of micro-batches after which the launches of a device repeat themselves.
static int64_t getPeriod(const CompileOptions &options, bool reference) {
  bool isInterleaved = options.interleave > 1 && (options.pipelineOrder == PipelineOrder::OneForwardOneBackward ||
                                                  options.pipelineOrder == PipelineOrder::Overlapped1F1B);
  return reference ? 1 : (isInterleaved ? options.parallel.getPp() : 1) * options.sideBySide;
}

/// Number of micro-batches in which a pipeline is filled, does the same at least twice, and is emptied: by experiment.
static int64_t chooseWritten(const CompileOptions &options, bool reference) {
  int64_t pp = reference ? 1 : options.parallel.getPp(), period = getPeriod(options, reference);
  bool isInterleaved = period > options.sideBySide;
  int64_t filled = pp + 6;
  // Windows are alike only after those of the first micro-batch, whose gradients are no sums yet.
  if (pp > 1 && options.interleave > 1)
    filled = (isInterleaved ? isOverlapped(options.pipelineOrder) ? 5 : 4 : 3) * pp;
  filled *= reference ? 1 : options.sideBySide;
  return filled + (options.microBatches - filled) % period;
}

/// Whether a loop saves enough.
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

//===----------------------------------------------------------------------===//
// The best form
//===----------------------------------------------------------------------===//

namespace {
/// A program in a form that may not suit it. Its diagnostics wait until it is taken.
class Attempt {
public:
  Attempt() = default;
  Attempt(ModuleOp graph, const ParsedSchedule &schedule, const CompileOptions &options, const ProgramForm &form,
          bool reference) {
    ScopedDiagnosticHandler keep(graph.getContext(), [&](Diagnostic &diagnostic) {
      diagnostics.push_back(std::move(diagnostic));
      return success();
    });
    program = compileForm(graph, schedule, options, form, reference);
  }

  bool succeeded() const { return mlir::succeeded(program); }
  int64_t getDeviceBytes() { return moe::getDeviceBytes(*program->module); }
  /// The first error.
  std::string getReason() const {
    for (const Diagnostic &diagnostic : diagnostics)
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        return diagnostic.str();
    return "";
  }
  CompiledProgram take() {
    DiagnosticEngine &engine = (*program->module)->getContext()->getDiagEngine();
    for (Diagnostic &diagnostic : diagnostics)
      engine.emit(std::move(diagnostic));
    return std::move(*program);
  }

private:
  FailureOr<CompiledProgram> program = failure();
  std::vector<Diagnostic> diagnostics;
};
} // namespace

/// Tries loops of ever more micro-batches.
static Attempt tryLoops(ModuleOp graph, const ParsedSchedule &schedule, const CompileOptions &options, bool reference) {
  constexpr int64_t mostTries = 3;
  Attempt attempt;
  ProgramForm form;
  form.written = chooseWritten(options, reference);
  // A small model has the loop that a large one has.
  auto isShort = [&] {
    return options.choices ? form.written < options.microBatches : isWorthALoop(form.written, options.microBatches);
  };
  for (int64_t tries = 0; tries < mostTries && !attempt.succeeded() && isShort(); ++tries) {
    attempt = Attempt(graph, schedule, options, form, reference);
    form.written += std::max<int64_t>(options.parallel.getPp(), 2) * options.sideBySide;
  }
  return attempt;
}

static bool fits(int64_t bytes, const CompileOptions &options) {
  auto limit = static_cast<double>(options.memoryLimit);
  if (limit == 0 && options.cluster)
    limit = options.cluster->getPlanBytes();
  return limit <= 0 || static_cast<double>(bytes) <= limit;
}

FailureOr<CompiledProgram> mlir::moe::compileProgram(ModuleOp graph, const ParsedSchedule &schedule,
                                                     const CompileOptions &options, bool reference) {
  Attempt looped, whole;
  if (mayHaveLoop(schedule, options, reference))
    looped = tryLoops(graph, schedule, options, reference);
  if (looped.succeeded() && (reference || fits(looped.getDeviceBytes(), options)))
    return looped.take();
  if (options.microBatches > kRepeated)
    whole = Attempt(graph, schedule, options, ProgramForm(), reference);
  if (!whole.succeeded() && !looped.succeeded())
    return compileForm(graph, schedule, options, {/*written=*/0, /*repeats=*/false}, reference);
  if (!whole.succeeded() || (looped.succeeded() && looped.getDeviceBytes() <= whole.getDeviceBytes()))
    return looped.take();
  if (std::string reason = looped.getReason(); looped.succeeded() || !reason.empty())
    emitWarning(graph.getLoc()) << "the plan writes out all " << options.microBatches
                                << " micro-batches, and grows with them: "
                                << (looped.succeeded() ? "with a loop it needs more memory than a device has"
                                                       : "no loop can stand for them, since " + reason);
  return whole.take();
}
