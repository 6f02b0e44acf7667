//===- Compiler.cpp - from a model graph to a plan ------------------------===//
#include "moe/Compiler/Compiler.h"

#include "Stages.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/Support/Format.h"

#include "moe/Conversion/Passes.h"
#include "moe/Conversion/Variants.h"
#include "moe/Dialect/Moe/IR/MoeLabels.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::moe;

void mlir::moe::registerDialects(DialectRegistry &registry) {
  registry.insert<MoeDialect, plan::PlanDialect, func::FuncDialect, LLVM::LLVMDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

/// Refuses another order for the launches of a pipeline, which all stages share.
static LogicalResult checkOrder(MLIRContext *context, const CompileOptions &options) {
  if (options.parallel.getPp() > 1 && options.order && *options.order != OrderPolicy::Program)
    return emitError(UnknownLoc::get(context))
           << "--order=" << getName(*options.order) << " cannot be combined with pp = " << options.parallel.getPp()
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

/// Seconds by program and launch.
static llvm::Expected<std::vector<std::vector<double>>> getSeconds(ModuleOp plan, const CompileOptions &options) {
  llvm::Expected<std::unique_ptr<CostModel>> model =
      CostModel::create(*options.cluster, options.parallel.getWorld(), CostForm::ClosedForm);
  if (!model)
    return model.takeError();
  llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(plan, LoopForm::Once);
  if (!programs)
    return programs.takeError();
  return getLaunchSeconds(*programs, **model);
}

/// Sets `seconds` of exchanges and host copies, and the cluster's name; neither if the profile does not have enough.
static void setTransferSeconds(ModuleOp plan, const CompileOptions &options) {
  llvm::Expected<std::vector<std::vector<double>>> all = getSeconds(plan, options);
  if (!all)
    return llvm::consumeError(all.takeError());
  Builder builder(plan.getContext());
  for (auto [program, seconds] : llvm::zip_equal(plan::getRankPrograms(plan), *all))
    program.walk([&, next = seconds.begin()](plan::LaunchOp launch) mutable {
      double time = *next++;
      if (Resource resource = launch.getOpCost().resource;
          resource == Resource::Network || resource == Resource::HostLink)
        launch.setSecondsAttr(builder.getF64FloatAttr(time));
    });
  plan->setAttr(plan::kClusterAttrName, builder.getStringAttr(options.cluster->name));
}

/// Records the seconds of the plan's exchanges on the cluster, and proves that it is a plan.
static LogicalResult finishPlan(ModuleOp plan, const CompileOptions &options) {
  if (options.leaveOutProofs || options.leaveOutOrder)
    return success();
  if (options.cluster)
    setTransferSeconds(plan, options);
  return runStage(options.runPasses, "verify", plan, [](PassManager &passes) {
    passes.addNestedPass<func::FuncOp>(createPlanVerifyTypes());
    passes.addPass(plan::createPlanVerify());
  });
}

static LogicalResult checkPrograms(ModuleOp plan) {
  return success(
      llvm::all_of(plan::getRankPrograms(plan), [](func::FuncOp program) { return succeeded(checkSizes(program)); }));
}

/// Writes "=2", "=0.5", "=swiglu", or nothing for an attribute without a value.
static std::string describeValue(Attribute value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto number = dyn_cast<IntegerAttr>(value))
    os << "=" << number.getInt();
  else if (auto real = dyn_cast<FloatAttr>(value))
    os << llvm::format("=%g", real.getValueAsDouble());
  else if (!isa<UnitAttr>(value))
    os << "=" << value;
  // An enum is written as #moe<activation swiglu>.
  StringRef kind = StringRef(text).split(' ').first;
  return kind.starts_with("=#moe<") ? "=" + StringRef(text).drop_front(kind.size() + 1).drop_back().str() : text;
}

/// Describes what the different layers of a graph compute. Options and schedules decide the attributes that are left
/// out.
static ArrayAttr describeLayers(ModuleOp graph) {
  static constexpr StringLiteral others[] = {"layer_name", "capacity_factor", "expert_capacity",
                                             "max_load",   "groups",          "leave",
                                             "homes",      "home_span",       "operandSegmentSizes"};
  SmallVector<std::string> all;
  graph.walk([&](LayerOp layer) {
    std::string &text = all.emplace_back();
    llvm::raw_string_ostream os(text);
    llvm::ListSeparator separator;
    for (NamedAttribute attribute : layer->getAttrs())
      if (!llvm::is_contained(others, attribute.getName()))
        os << separator << attribute.getName().getValue() << describeValue(attribute.getValue());
  });
  llvm::sort(all);
  all.erase(llvm::unique(all), all.end());
  return Builder(graph.getContext()).getStrArrayAttr(llvm::map_to_vector(all, [](const std::string &text) {
    return StringRef(text);
  }));
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::compileSchedule(ModuleOp prepared, const ParsedSchedule &schedule,
                                                            const CompileOptions &options) {
  if (options.recompute != Recompute::None && schedule.getRing() > 0)
    return emitError(UnknownLoc::get(prepared.getContext()))
           << "--recompute and --schedule=" << schedule.getName()
           << " are mutually exclusive: a ring holds the values of " << schedule.getRing()
           << " chunks, but a backward that computes its block again needs the values of all chunks; use +chunks:N "
              "without a ring and without +mpipe, or leave out --recompute";
  // The routing of the graph's layers becomes the schedule's.
  OwningOpRef<ModuleOp> graph = prepared.clone();
  FailureOr<CompiledProgram> rank = compileProgram(*graph, schedule, options, /*reference=*/false);
  if (failed(rank))
    return failure();
  ModuleOp module = *rank->module;
  Builder builder(prepared.getContext());
  StepWork work = getModelWork(prepared, options);
  module->setAttr(plan::kModelFlopsAttrName, builder.getF64FloatAttr(work.modelFlops));
  if (ArrayAttr layers = describeLayers(prepared); !layers.empty())
    module->setAttr(plan::kLayersAttrName, layers);
  module->setAttr(plan::kTokensAttrName, builder.getI64IntegerAttr(static_cast<int64_t>(work.tokens)));
  if (options.stage == Stage::Forward)
    return std::move(rank->module);
  if (failed(checkPrograms(module)))
    return failure();
  if (options.reference) {
    FailureOr<CompiledProgram> reference = compileProgram(*graph, schedule, options, /*reference=*/true);
    if (failed(reference))
      return failure();
    getFunction(*reference->module)->moveAfter(&module.getBody()->back());
  }
  module->setAttr(plan::kScheduleAttrName, builder.getStringAttr(rank->applied));
  module->setAttr(plan::kModeAttrName, builder.getStringAttr(options.train ? "train" : "forward"));
  if (options.stage == Stage::Plan) {
    if (failed(finishPlan(module, options)))
      return failure();
    return std::move(rank->module);
  }
  if (rank->applied != schedule.getName())
    module->setAttr(kRequestedAttrName, builder.getStringAttr(schedule.getName()));
  setLabels(module);
  return std::move(rank->module);
}

LogicalResult mlir::moe::orderCompiled(ModuleOp plan, const ParsedSchedule &schedule, const CompileOptions &options) {
  return failure(failed(orderAndAssign(plan, schedule, options)) || failed(finishPlan(plan, options)));
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
    passes.addNestedPass<func::FuncOp>(createMoeVerifyTypes());
    passes.addNestedPass<func::FuncOp>(createMoeVerifySpmd());
  };
  if (failed(runStage(options.runPasses, "check", *module, check)))
    return failure();
  if (options.stage == Stage::Spmd) {
    setLabels(*module);
    return module;
  }
  // Later stages use the nodes of the cluster alone, not its rates.
  ClusterRates rates = getClusterRates(*module);
  rates.nodeRanks = options.devicesPerNode;
  (*module)->setAttr(kClusterAttrName, ClusterAttr::get(module->getContext(), rates));
  (*module)->removeAttr(kRequestedAttrName);
  if (!(*module)->hasAttr(plan::kScheduleAttrName))
    (*module)->setAttr(plan::kScheduleAttrName, StringAttr::get(module->getContext(), "hand-written"));
  if (failed(lowerToPlan(*module, header->schedule, options)) || failed(provePlan(*module, options)))
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
    // The reference and these figures are of a whole step.
    if (Operation *reference = module->lookupSymbol(kReferenceName))
      reference->erase();
    (*module)->removeAttr(plan::kModelFlopsAttrName);
    (*module)->setAttr(plan::kHalfAttrName, StringAttr::get(plan.getContext(), half));
    auto extract = [&](PassManager &passes) {
      passes.addNestedPass<func::FuncOp>(plan::createPlanExtractHalf({half.str()}));
      addPlanPasses(passes, options);
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

ParameterCounts mlir::moe::countParameters(ModuleOp graph) {
  func::FuncOp function = getFunction(graph);
  ParameterCounts counts;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto role = function.getArgAttrOfType<StringAttr>(i, kRoleAttrName); role && role.getValue() == "parameter")
      counts.all += cast<RankedTensorType>(function.getArgumentTypes()[i]).getNumElements();
  counts.active = counts.all;
  function.walk([&](LayerOp layer) {
    int64_t experts = layer.getW1().getType().getDimSize(0);
    for (Value ofExperts : {Value(layer.getW1()), Value(layer.getW2()), Value(layer.getB1()), Value(layer.getB2())})
      if (ofExperts)
        counts.active -= cast<RankedTensorType>(ofExperts.getType()).getNumElements() / experts *
                         (experts - static_cast<int64_t>(layer.getTopK()));
  });
  return counts;
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::prepareGraph(ModuleOp model, const CompileOptions &options) {
  if (failed(checkGraph(model)) || failed(checkOrder(model.getContext(), options)))
    return failure();
  OwningOpRef<ModuleOp> graph = model.clone();
  (*graph)->setAttr(kParallelAttrName, options.parallel);
  // Dead layers would not be routed.
  getFunction(*graph).walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
  });
  return graph;
}

LogicalResult mlir::moe::lowerToLLVM(ModuleOp plan, const PassRunner &runPasses) {
  return runStage(runPasses, "llvm", plan, [](PassManager &passes) { passes.addPass(createConvertPlanToLLVM()); });
}
