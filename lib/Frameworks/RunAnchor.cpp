//===- RunAnchor.cpp - a profile anchored in a user's jobs ----------------===//
#include "moe/Frameworks/RunAnchor.h"

#include "mlir/IR/Threading.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Frameworks/MegatronJob.h"
#include "moe/Import/Import.h"
#include "moe/Planner/AutoParallel.h"
#include "moe/Support/InputFile.h"
#include "moe/Support/JsonReader.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Plans of runs
//===----------------------------------------------------------------------===//

namespace {
/// The step of a run on several profiles, in a context of its own. It is composed from samples, or else its whole plan
/// is compiled once and simulated on each profile.
class RunPlan {
public:
  RunPlan(const MeasuredRun &run, const FrameworkProfile &framework, const DialectRegistry &registry)
      : run(run), framework(framework), context(registry, MLIRContext::Threading::DISABLED) {
    context.loadDialect<MoeDialect>();
  }

  llvm::Error prepare(const ClusterProfile &cluster, const RoutingSource *routing);
  llvm::Expected<double> getSeconds(const ClusterProfile &cluster, const Anchor &anchor);
  ArrayRef<std::string> getRemarks() const { return remarks; }

private:
  llvm::Expected<ModelConfig> readModel() const;
  llvm::Error takeBlocks();
  llvm::Error readJob();
  PlanOptions getOptions(const ClusterProfile &cluster) const;
  ModelSource getSource() const;
  void setStages(const ClusterProfile &cluster);
  llvm::Error compile(const ClusterProfile &cluster);
  /// The profile with the times of the framework and the anchor.
  llvm::Expected<ClusterProfile> apply(ClusterProfile cluster, const Anchor &anchor) const;
  /// The step from samples. None if they do not tell it; `reason` says why.
  std::optional<double> sample(const ClusterProfile &cluster, std::string &reason);
  llvm::Expected<double> simulatePlan(const ClusterProfile &cluster);
  /// Names the run in an error that has no place.
  llvm::Error makeError(llvm::Error error) const {
    return llvm::createStringError("error: " + run.name + ": " + llvm::toString(std::move(error)));
  }
  void remark(const Twine &text) { remarks.push_back(text.str()); }

  const MeasuredRun &run;
  const FrameworkProfile &framework;
  MLIRContext context;
  std::vector<std::string> remarks;
  ModelConfig model;
  MegatronJob job;
  const RoutingSource *routing = nullptr;
  SmallVector<int64_t> stageBoundaries;
  OwningOpRef<ModuleOp> plan; ///< null if samples tell the step
  std::optional<RoutingTrace> trace;
};
} // namespace

llvm::Expected<ModelConfig> RunPlan::readModel() const {
  if (run.model.empty())
    return readMegatronModel(run.arguments, /*whole=*/true);
  llvm::Expected<std::string> path = findShareFile("models", run.model);
  if (!path)
    return path.takeError();
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(*path);
  if (!file)
    return file.takeError();
  return parseModelConfig((*file)->getBuffer(), *path, /*whole=*/true);
}

/// Takes the first blocks of a shared model, as many as the arguments say.
llvm::Error RunPlan::takeBlocks() {
  llvm::Expected<JsonReader> reader = JsonReader::parse(run.arguments.json, run.arguments.fileName);
  if (!reader)
    return reader.takeError();
  auto all = static_cast<int64_t>(model.model->blocks.size());
  int64_t blocks = reader->getInteger("num_layers", 1, all, all);
  if (reader->hasFailed())
    return reader->takeError();
  model.model->blocks.truncate(blocks);
  return llvm::Error::success();
}

/// Reads the model and the job, and lets the job's tokens go to experts as its dispatcher sends them.
llvm::Error RunPlan::readJob() {
  llvm::Expected<ModelConfig> config = readModel();
  if (!config)
    return config.takeError();
  model = std::move(*config);
  if (llvm::Error error = takeBlocks())
    return error;
  auto blocks = static_cast<int64_t>(model.model->blocks.size());
  llvm::Expected<MegatronJob> read = readMegatronJob(&context, run.arguments, run.ranks, blocks, model.layer.experts);
  if (!read)
    return read.takeError();
  job = std::move(*read);
  for (ArrayRef<ConfigRemark> all : {ArrayRef(run.arguments.remarks), ArrayRef(job.remarks)})
    for (const ConfigRemark &one : all)
      remark(llvm::formatv("{0}:{1}:{2}: warning: {3}", run.arguments.fileName, one.place.line, one.place.column,
                           one.text));
  std::string &schedule = job.plan.schedule;
  if (framework.sendsOnce(run.use.dispatcher) && !StringRef(schedule).contains("once"))
    schedule = schedule == "baseline" ? "once:node" : schedule + "+once:node";
  return llvm::Error::success();
}

static ImportType getType(StringRef name) {
  return name == "bf16" ? ImportType::bf16 : name == "f16" ? ImportType::f16 : ImportType::f32;
}

ModelSource RunPlan::getSource() const {
  // As without --max-load.
  constexpr double defaultMaxLoad = 2;
  ModelSource source;
  source.read = [=, this](MLIRContext &own, const ModelForm &form) -> FailureOr<OwningOpRef<ModuleOp>> {
    ImportOptions options;
    options.batch = form.batch.value_or(job.plan.batch);
    options.seq = job.sequence;
    options.dtype = getType(job.dtype);
    options.whole = options.loss = true;
    options.dataParallel = form.dataParallel;
    options.defaultMaxLoad = form.maxLoad.value_or(defaultMaxLoad);
    ModelConfig config = model;
    if (!form.blocks.empty()) {
      config.model->blocks.clear();
      for (int64_t block : form.blocks)
        config.model->blocks.push_back(model.model->blocks[block]);
    }
    llvm::Expected<OwningOpRef<ModuleOp>> module = importModel(own, config, options);
    if (module)
      return std::move(*module);
    return emitUsageError(own) << llvm::toString(module.takeError());
  };
  ArrayRef<BlockSpec> blocks = model.model->blocks;
  for (const BlockSpec &block : blocks)
    source.kinds.push_back(llvm::find(blocks, block) - blocks.begin());
  return source;
}

PlanOptions RunPlan::getOptions(const ClusterProfile &cluster) const {
  PlanOptions options;
  static_cast<StepChoice &>(options) = job.plan;
  options.reference = false;
  options.leaveOutProofs = true;
  options.devicesPerNode = cluster.devicesPerNode;
  options.cluster = &cluster;
  options.wideGradients = job.wideGradients;
  MoeOptimizeOptions optimizer;
  optimizer.kind = job.optimizer == "sgd" ? OptimizerKind::Sgd : OptimizerKind::Adam;
  // Other numbers of the optimizer do not change its time.
  for (auto [option, number] : job.optimizerNumbers)
    if (option == "clip-norm")
      optimizer.clipNorm = number;
  options.optimizer = optimizer;
  options.stageBoundaries = stageBoundaries;
  options.routing = routing;
  return options;
}

/// Lets stages begin with the job's blocks.
void RunPlan::setStages(const ClusterProfile &cluster) {
  if (job.plan.parallel.getPp() == 1)
    return;
  std::string reason;
  if (std::optional<SmallVector<int64_t>> parts = getBlockParts(getSource(), getOptions(cluster), job.plan, reason))
    stageBoundaries = getStageBoundaries(*parts, job.firstBlocks);
  if (stageBoundaries.empty())
    remark("warning: stages of " + run.name + " take about equal time in MoePlan, and do not begin with its blocks" +
           (reason.empty() ? "" : ": " + reason));
}

llvm::Error RunPlan::prepare(const ClusterProfile &cluster, const RoutingSource *given) {
  if (llvm::Error error = readJob())
    return error;
  routing = given;
  setStages(cluster);
  llvm::Expected<ClusterProfile> applied = apply(cluster, kNoAnchor);
  if (!applied)
    return applied.takeError();
  // A model of few blocks is compiled soon, and its first and last blocks are a large part of it.
  constexpr size_t fewBlocks = 8;
  std::string reason;
  if (model.model->blocks.size() > fewBlocks && sample(*applied, reason))
    return llvm::Error::success();
  return compile(cluster);
}

llvm::Error RunPlan::compile(const ClusterProfile &cluster) {
  std::string reason;
  FirstErrorHandler keep(&context, reason);
  PlanOptions options = getOptions(cluster);
  FailureOr<OwningOpRef<ModuleOp>> graph = getSource().read(context, {options.parallel.getDp()});
  FailureOr<OwningOpRef<ModuleOp>> compiled = failure();
  if (succeeded(graph))
    compiled = planAndCompile(**graph, options);
  if (failed(compiled))
    return makeError(llvm::createStringError(reason));
  plan = std::move(*compiled);
  llvm::Expected<RoutingTrace> made = makeTrace(*plan, routing);
  if (!made)
    return makeError(made.takeError());
  trace = std::move(*made);
  return llvm::Error::success();
}

llvm::Expected<ClusterProfile> RunPlan::apply(ClusterProfile cluster, const Anchor &anchor) const {
  if (llvm::Error error = framework.apply(cluster, run.use))
    return makeError(std::move(error));
  applyAnchor(anchor, cluster);
  return cluster;
}

llvm::Expected<double> RunPlan::getSeconds(const ClusterProfile &cluster, const Anchor &anchor) {
  llvm::Expected<ClusterProfile> applied = apply(cluster, anchor);
  if (!applied)
    return applied.takeError();
  if (plan)
    return simulatePlan(*applied);
  std::string reason;
  if (std::optional<double> seconds = sample(*applied, reason))
    return *seconds;
  return makeError(llvm::createStringError(reason));
}

std::optional<double> RunPlan::sample(const ClusterProfile &cluster, std::string &reason) {
  FirstErrorHandler keep(&context, reason);
  PlanOptions options = getOptions(cluster);
  if (!isSampled(options))
    return std::nullopt;
  Candidate candidate;
  static_cast<StepChoice &>(candidate) = job.plan;
  candidate.stageBoundaries = stageBoundaries;
  std::optional<SampledStep> step = sampleStep(getSource(), options, candidate, reason);
  return step ? std::optional(step->seconds) : std::nullopt;
}

llvm::Expected<double> RunPlan::simulatePlan(const ClusterProfile &cluster) {
  llvm::Expected<std::unique_ptr<CostModel>> costs = CostModel::create(cluster, run.ranks, CostForm::ClosedForm);
  if (!costs)
    return makeError(costs.takeError());
  SimOptions options = getSimOptions(&*trace);
  options.figures = false;
  llvm::Expected<SimResult> result = simulate(*plan, **costs, options);
  if (!result)
    return makeError(result.takeError());
  return result->seconds;
}

//===----------------------------------------------------------------------===//
// The fit
//===----------------------------------------------------------------------===//

/// Calls `visit` for each run, on the threads of `context`, and returns the first error.
static llvm::Error visitRuns(MLIRContext &context, size_t count, function_ref<llvm::Error(size_t)> visit) {
  std::vector<std::string> errors(count);
  parallelFor(&context, 0, count, [&](size_t run) {
    if (llvm::Error error = visit(run))
      errors[run] = llvm::toString(std::move(error));
  });
  for (const std::string &error : errors)
    if (!error.empty())
      return llvm::createStringError(error);
  return llvm::Error::success();
}

llvm::Expected<AnchorFit> mlir::moe::fitAnchorToRuns(MLIRContext &context, ArrayRef<MeasuredRun> runs,
                                                     const ClusterProfile &cluster, const FrameworkProfile &framework,
                                                     const RoutingSource *routing, std::vector<std::string> &remarks) {
  std::vector<std::unique_ptr<RunPlan>> plans;
  for (const MeasuredRun &run : runs)
    plans.push_back(std::make_unique<RunPlan>(run, framework, context.getDialectRegistry()));
  if (llvm::Error error =
          visitRuns(context, runs.size(), [&](size_t run) { return plans[run]->prepare(cluster, routing); }))
    return error;
  for (const std::unique_ptr<RunPlan> &plan : plans)
    llvm::append_range(remarks, plan->getRemarks());
  std::vector<double> measured;
  for (const MeasuredRun &run : runs)
    measured.push_back(run.seconds);
  return fitAnchor(measured, [&](const Anchor &anchor) -> llvm::Expected<std::vector<double>> {
    std::vector<double> seconds(runs.size());
    if (llvm::Error error = visitRuns(context, runs.size(), [&](size_t run) -> llvm::Error {
          llvm::Expected<double> its = plans[run]->getSeconds(cluster, anchor);
          if (!its)
            return its.takeError();
          seconds[run] = *its;
          return llvm::Error::success();
        }))
      return error;
    return seconds;
  });
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

static void printFactor(const AnchorFit &fit, size_t factor, llvm::raw_ostream &os) {
  auto [name, least, most] = kAnchorFactors[factor];
  os << name << " ";
  if (!fit.isFitted[factor]) {
    os << "1 (not fitted)";
    return;
  }
  os << llvm::format("%.3f", fit.anchor[factor]);
  if (fit.isOnBound(factor))
    os << llvm::format(" (on its bound, %.2g to %.2g: another cause is likely)", least, most);
}

void mlir::moe::printAnchor(ArrayRef<MeasuredRun> runs, const AnchorFit &fit, llvm::raw_ostream &os) {
  constexpr double milli = 1e-3, percent = 1e-2;
  os << "anchored in your own steps     measured ms   predicted  error   with the anchor  error\n";
  for (auto [run, before, after] : llvm::zip_equal(runs, fit.before, fit.after)) {
    auto error = [&seconds = run.seconds](double predicted) { return (predicted / seconds - 1) / percent; };
    os << llvm::format("  %-28s %11.1f %11.1f %+5.0f%% %17.1f %+5.0f%%", run.name.c_str(), run.seconds / milli,
                       before / milli, error(before), after / milli, error(after));
    os << (run.warmUp.empty() ? "" : "  median of " + run.warmUp) << "\n";
  }
  os << "  times as long: ";
  for (size_t factor = 0; factor < kAnchorFactors.size(); ++factor) {
    os << (factor > 0 ? ", " : "");
    printFactor(fit, factor, os);
  }
  os << "\n";
  if (runs.size() < kAnchorFactors.size())
    os << "  " << runs.size() << (runs.size() == 1 ? " step decides one factor" : " steps decide two factors")
       << ": of the largest part of the simulated step; give more steps for the others\n";
}
