//===- Evaluator.cpp - what a plan costs ----------------------------------===//
#include "Evaluator.h"

#include "llvm/Support/Format.h"

#include "moe/Dialect/Plan/Transforms/MemoryReport.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;

ParallelAttr mlir::moe::getStageParallel(ParallelAttr all, int64_t dp) {
  return ParallelAttr::get(all.getContext(), dp * all.getCp() * all.getMp(), /*pp=*/1, dp, all.getMp(), all.getEp(),
                           all.getEsp(), all.getCp());
}

Evaluator::Evaluator(const PlanOptions &options) : options(options) {
  this->options.stage = Stage::Plan;
  this->options.reference = false;
  this->options.runPasses = nullptr;
}

OwningOpRef<ModuleOp> Evaluator::compileUnordered(ModuleOp graph, const ParsedSchedule &schedule, std::string &reason) {
  FirstErrorHandler keep(graph.getContext(), reason);
  // Reading the name refuses parts that cannot be combined.
  FailureOr<ParsedSchedule> known = parseSchedule(graph.getContext(), schedule.getName());
  if (failed(known))
    return nullptr;
  PlanOptions unordered = options;
  unordered.leaveOutOrder = true;
  return compileSchedule(graph, *known, unordered).value_or(nullptr);
}

std::optional<Evaluator::Plan> Evaluator::order(ModuleOp unordered, const ParsedSchedule &schedule,
                                                std::optional<OrderPolicy> order, std::string &reason) {
  FirstErrorHandler keep(unordered.getContext(), reason);
  PlanOptions ordered = options;
  ordered.order = order;
  OwningOpRef<ModuleOp> plan = unordered.clone();
  if (failed(orderCompiled(*plan, schedule, ordered)))
    return std::nullopt;
  return Plan(*this, std::move(plan));
}

std::optional<Evaluator::Plan> Evaluator::compile(ModuleOp graph, const ParsedSchedule &schedule, std::string &reason) {
  OwningOpRef<ModuleOp> unordered = compileUnordered(graph, schedule, reason);
  return unordered ? order(*unordered, schedule, options.order, reason) : std::nullopt;
}

std::optional<Evaluator::Plan> Evaluator::search(ModuleOp graph, std::string &reason) {
  FirstErrorHandler keep(graph.getContext(), reason);
  FailureOr<OwningOpRef<ModuleOp>> module = planAndCompile(graph, options);
  if (failed(module))
    return std::nullopt;
  return Plan(*this, std::move(*module));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

ProgramMemory Evaluator::Plan::getMemory() const { return moe::getMemory(getLargestProgram(getModule())); }

std::string Evaluator::Plan::describePeak() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  constexpr double giga = 1e-9;
  constexpr size_t shown = 3;
  for (plan::ArenaReport &arena : plan::reportMemory(getLargestProgram(getModule()))) {
    if (arena.space != plan::Space::device || !arena.peak)
      continue;
    os << llvm::format("%.3f GB alive at ", static_cast<double>(arena.liveBytes) * giga) << arena.peak.describe();
    for (plan::LiveBuffer &buffer : llvm::MutableArrayRef(arena.live).take_front(shown))
      os << llvm::format(", %.3f GB of ", static_cast<double>(buffer.bytes) * giga) << buffer.writer.describe();
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

llvm::Expected<const CostModel *> Evaluator::Plan::prepareStep() {
  const PlanOptions &options = evaluator.options;
  if (!evaluator.model) {
    llvm::Expected<std::unique_ptr<CostModel>> made =
        CostModel::create(*options.cluster, options.parallel.getWorld(), CostForm::ClosedForm);
    if (!made)
      return made.takeError();
    evaluator.model = std::move(*made);
  }
  if (!trace) {
    llvm::Expected<RoutingTrace> made = makeTrace(*module, options.routing);
    if (!made)
      return made.takeError();
    trace = std::move(*made);
  }
  return evaluator.model.get();
}

llvm::Expected<double> Evaluator::Plan::getBound() {
  llvm::Expected<const CostModel *> model = prepareStep();
  if (!model)
    return model.takeError();
  llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(*module);
  if (!programs)
    return programs.takeError();
  return getStepBound(*programs, **model, getSimOptions(&*trace));
}

/// "compute 83%".
static std::string describeLimit(const SimReport &report, double seconds) {
  const StreamUse *most = nullptr;
  for (const StreamUse &use : report.mean.streams)
    if (!most || use.busy > most->busy)
      most = &use;
  std::string text;
  if (most && seconds > 0)
    llvm::raw_string_ostream(text) << most->stream << llvm::format(" %.0f%%", 100 * most->busy / seconds);
  return text;
}

/// Sets `interval` and its parts: the time of the first stage from the forward of one late micro-batch to that of the
/// next. It then does one forward and one backward in turn, as all stages do, and waits for the slowest one. This holds
/// for 1F1B with one stage on a device.
static void setInterval(StepFigures &figures, const SimResult &step, const PlanOptions &options) {
  if (options.interleave > 1 || splitsBackward(options.pipelineOrder) || options.microBatches < 3 ||
      options.parallel.getPp() == 1 || !step.isWhole())
    return;
  const SimProgram &program = step.programs.front();
  const SimRank *rank = &*llvm::find_if(step.ranks, [](const SimRank &one) { return one.program == 0; });
  std::vector<double> ends(options.microBatches, 0);
  for (const SimTime &one : step.times) {
    const SimLaunch &launch = program.launches[one.launch];
    if (&step.ranks[one.rank] != rank || launch.stage < 0 || launch.isBackward || launch.microBatch < 0)
      continue;
    // The next stage decides when it receives.
    if (launch.group < 0 || !program.groups[launch.group].isChannel())
      ends[launch.microBatch] = std::max(ends[launch.microBatch], one.end);
  }
  double begin = ends[options.microBatches - 3], end = ends[options.microBatches - 2];
  figures.interval = end - begin;
  figures.intervalParts = getStepParts(step, begin, end);
}

llvm::Expected<SimResult> Evaluator::Plan::runStep() {
  llvm::Expected<const CostModel *> model = prepareStep();
  if (!model)
    return model.takeError();
  SimOptions simulation = getSimOptions(&*trace);
  simulation.figures = false;
  llvm::Expected<SimResult> step = moe::simulate(*module, **model, simulation);
  return step ? writeOut(std::move(*step), *module) : std::move(step);
}

llvm::Expected<StepFigures> Evaluator::Plan::simulate() {
  llvm::Expected<const CostModel *> model = prepareStep();
  if (!model)
    return model.takeError();
  llvm::Expected<Prediction> prediction = predict(*module, "", **model, &*trace);
  if (!prediction)
    return prediction.takeError();
  const SimReport &report = prediction->report;
  StepFigures step;
  step.seconds = prediction->result.seconds;
  setInterval(step, prediction->result, evaluator.options);
  step.parts = report.mean;
  step.work = report.work * (1 / static_cast<double>(report.numRanks));
  step.peakFlops = prediction->result.roofline.peakFlops;
  for (const KernelUse &kernel : report.kernels)
    step.flops += kernel.flops;
  step.bytesSent = prediction->result.sent.getSum();
  step.bytesBetweenNodes = prediction->result.sent.betweenNodes;
  step.bytes = getMemory().getDeviceBytes();
  // Errors of less than half of the critical path say too little about the step.
  if (2 * report.critical.fitted >= step.seconds)
    step.errors = report.critical.getErrors();
  if (report.measured) {
    step.low = report.measured->low;
    step.high = report.measured->high;
    step.ownSteps = report.measured->isOwn ? report.measured->steps : 0;
  }
  step.uncertainty = step.seconds > 0 ? step.errors.getSeconds() / step.seconds : 0;
  step.limit = describeLimit(report, step.seconds);
  return step;
}

llvm::Expected<StepFigures> mlir::moe::simulatePlan(OwningOpRef<ModuleOp> &module, const PlanOptions &options) {
  Evaluator evaluator(options);
  Evaluator::Plan plan(evaluator, std::move(module));
  llvm::Expected<StepFigures> step = plan.simulate();
  module = plan.release();
  return step;
}
