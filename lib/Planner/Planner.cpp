//===- Planner.cpp - the best plan of a model graph -----------------------===//
#include "Evaluator.h"

#include "llvm/ADT/SetVector.h"

#include "moe/Dialect/Plan/Transforms/MemoryReport.h"
#include "moe/Planner/AutoSchedule.h"
#include "moe/Planner/SearchSpace.h"

using namespace mlir;
using namespace mlir::moe;
using mpipemoe::Strategy;

//===----------------------------------------------------------------------===//
// Open parts of a schedule
//===----------------------------------------------------------------------===//

namespace {
class Search {
public:
  Search(ModuleOp graph, const PlanOptions &options) : graph(graph), options(options), evaluator(options) {}

  LogicalResult add(const ParsedSchedule &schedule);
  /// Keeps for each chunk count the strategy that Eq. 10 says.
  LogicalResult restrictToEquation10();
  /// Compiles the best once more, with its diagnostics.
  FailureOr<OwningOpRef<ModuleOp>> finish();
  /// Null if none fits.
  const Candidate *findBest() const;

private:
  FailureOr<OwningOpRef<ModuleOp>> failToFit();
  const ParsedSchedule &getSchedule(const Candidate &candidate) const {
    return schedules[&candidate - candidates.data()];
  }

  ModuleOp graph;
  const PlanOptions &options;
  Evaluator evaluator;
  std::vector<Candidate> candidates;
  std::vector<ParsedSchedule> schedules; ///< schedules of the candidates
};
} // namespace

LogicalResult Search::add(const ParsedSchedule &schedule) {
  Candidate &candidate = candidates.emplace_back();
  schedules.push_back(schedule);
  candidate.schedule = schedule.getName();
  std::optional<Evaluator::Plan> plan = evaluator.compile(graph, schedule, candidate.reason);
  if (!plan) {
    // Compiles once more, to report the errors.
    (void)compileSchedule(graph, schedule, evaluator.getOptions());
    return failure();
  }
  llvm::Expected<StepFigures> step = plan->simulate();
  if (!step)
    return emitError(UnknownLoc::get(graph.getContext()))
           << "expected a cluster on which schedules can be compared: " << llvm::toString(step.takeError());
  candidate.whole = std::move(*step);
  bool fits = options.memoryLimit == 0 || candidate.whole.bytes <= options.memoryLimit;
  candidate.verdict = fits ? Verdict::Simulated : Verdict::TooLarge;
  return success();
}

LogicalResult Search::restrictToEquation10() {
  for (Candidate &candidate : candidates) {
    const ParsedSchedule &schedule = getSchedule(candidate);
    llvm::Expected<SmallVector<double, 5>> seconds = getStrategySeconds(graph, schedule, options);
    if (!seconds)
      return emitError(UnknownLoc::get(graph.getContext())) << llvm::toString(seconds.takeError());
    candidate.equation10 = (*seconds)[static_cast<unsigned>(schedule.strategy)];
  }
  for (Candidate &candidate : candidates)
    if (llvm::any_of(candidates, [&](const Candidate &other) {
          return getSchedule(other).chunks == getSchedule(candidate).chunks &&
                 *other.equation10 < *candidate.equation10;
        }))
      candidate.verdict = Verdict::Slower;
  return success();
}

const Candidate *Search::findBest() const {
  const Candidate *best = nullptr;
  for (const Candidate &candidate : candidates)
    if (candidate.verdict == Verdict::Simulated && (!best || candidate.whole.seconds < best->whole.seconds))
      best = &candidate;
  return best;
}

FailureOr<OwningOpRef<ModuleOp>> Search::failToFit() {
  const Candidate &smallest = *llvm::min_element(
      candidates, [](const Candidate &a, const Candidate &b) { return a.whole.bytes < b.whole.bytes; });
  std::string reason;
  std::optional<Evaluator::Plan> plan = evaluator.compile(graph, getSchedule(smallest), reason);
  if (!plan)
    return failure();
  func::FuncOp program = getLargestProgram(plan->getModule());
  InFlightDiagnostic error = program.emitError()
                             << "no schedule with a plan of at most " << options.memoryLimit
                             << " bytes per rank: the smallest of " << candidates.size() << " needs "
                             << smallest.whole.bytes << " bytes, that of '" << smallest.schedule << "'";
  std::string report;
  llvm::raw_string_ostream stream(report);
  plan::printMemory(program, stream);
  error.attachNote() << report;
  return error;
}

FailureOr<OwningOpRef<ModuleOp>> Search::finish() {
  const Candidate *best = findBest();
  if (!best)
    return failToFit();
  FailureOr<OwningOpRef<ModuleOp>> module = compileSchedule(graph, getSchedule(*best), options);
  if (failed(module))
    return failure();
  candidates[best - candidates.data()].verdict = Verdict::Chosen;
  setCompared(**module, candidates);
  return module;
}

/// Compiles all schedules that the open parts of `schedule` allow, and returns the fastest by prediction that fits
/// options.memoryLimit. Eq. 10 gives the strategy of mpipe-auto. The module's `plan.search` has the schedules that were
/// compared. If none fits, the error has the memory of the smallest.
static FailureOr<OwningOpRef<ModuleOp>> searchSchedule(ModuleOp graph, const ParsedSchedule &schedule,
                                                       const PlanOptions &options) {
  if (!options.cluster)
    return emitError(UnknownLoc::get(graph.getContext()))
           << "expected a cluster for the schedule '" << schedule.getName() << "'";
  Search search(graph, options);
  ParsedSchedule candidate = schedule;
  candidate.chooseStrategy = false;
  bool savesMemory = schedule.chooseStrategy || schedule.strategy != Strategy::None;
  for (int64_t chunks : schedule.chunks ? ArrayRef(schedule.chunks) : ArrayRef(kPipelineCounts)) {
    // A strategy saves little without chunks that take turns.
    if (savesMemory && chunks == 1 && schedule.chunks == 0)
      continue;
    candidate.chunks = chunks;
    for (Strategy strategy : schedule.chooseStrategy ? ArrayRef(kMpipeStrategies) : ArrayRef(schedule.strategy)) {
      candidate.strategy = strategy;
      if (failed(search.add(candidate)))
        return failure();
    }
  }
  if (schedule.chooseStrategy && failed(search.restrictToEquation10()))
    return failure();
  return search.finish();
}

/// Searches numbers of chunks and strategies that need less memory than `schedule`, which needs `bytes`.
static FailureOr<OwningOpRef<ModuleOp>> searchToFit(ModuleOp graph, const ParsedSchedule &schedule,
                                                    const PlanOptions &options, int64_t bytes) {
  if (!options.cluster)
    return emitError(UnknownLoc::get(graph.getContext())) << "expected a cluster where memory is limited";
  Search search(graph, options);
  llvm::SmallSetVector<int64_t, 8> counts;
  counts.insert(schedule.chunks);
  if (schedule.hasExchanges())
    for (int64_t chunks : ArrayRef(kChunkCounts).drop_front())
      counts.insert(chunks);
  SmallVector<Strategy> strategies = getStrategies(*options.cluster);
  for (int64_t chunks : counts)
    for (Strategy strategy : strategies) {
      ParsedSchedule candidate = schedule;
      candidate.chunks = chunks;
      candidate.strategy = strategy;
      if (failed(search.add(candidate)))
        return failure();
    }
  if (const Candidate *best = search.findBest())
    emitWarning(UnknownLoc::get(graph.getContext()))
        << "the plan of '" << schedule.getName() << "' needs " << bytes << " bytes a rank, more than the limit of "
        << options.memoryLimit << "; '" << best->schedule << "', the fastest of " << counts.size() * strategies.size()
        << " that fits, needs " << best->whole.bytes;
  return search.finish();
}

//===----------------------------------------------------------------------===//
// One plan
//===----------------------------------------------------------------------===//

/// Compiles a plan that may need too much memory, and so without options.runPasses.
static FailureOr<OwningOpRef<ModuleOp>> compileToMeasure(ModuleOp graph, const ParsedSchedule &schedule,
                                                         const PlanOptions &options) {
  PlanOptions unseen = options;
  unseen.runPasses = nullptr;
  // The plan that is returned gives the warnings.
  ScopedDiagnosticHandler quiet(graph.getContext(), [&](Diagnostic &diagnostic) {
    return success(options.runPasses && diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  return compileSchedule(graph, schedule, unseen);
}

/// The most bytes that devices may keep for gradients in a plan that fits; none if none is found. Only plans tell it.
static std::optional<int64_t> findRoomToKeep(ModuleOp graph, const ParsedSchedule &schedule, PlanOptions options) {
  constexpr int64_t maxPlans = 7;
  options.runPasses = nullptr;
  options.reference = false;
  options.leaveOutProofs = true;
  ScopedDiagnosticHandler quiet(graph.getContext(), [](Diagnostic &) { return success(); });
  std::optional<int64_t> found;
  int64_t low = 0, high = options.memoryLimit;
  for (int64_t plan = 0; plan < maxPlans && low + 1 < high && !options.isStoppedEarly(); ++plan) {
    options.mostKept = low + (high - low) / 2;
    FailureOr<OwningOpRef<ModuleOp>> module = compileSchedule(graph, schedule, options);
    bool fits = succeeded(module) && getDeviceBytes(**module) <= options.memoryLimit;
    if (fits)
      found = options.mostKept;
    // The compilation fails if no order keeps so little.
    (fits || failed(module) ? low : high) = options.mostKept;
  }
  return found;
}

/// Compiles another plan instead of one that needs `bytes`, which is too much.
static FailureOr<OwningOpRef<ModuleOp>> compileToFit(ModuleOp graph, const ParsedSchedule &schedule,
                                                     const PlanOptions &options, int64_t bytes) {
  std::optional<int64_t> room;
  if (options.pipelineOrder == PipelineOrder::Search && options.parallel.getPp() > 1)
    room = findRoomToKeep(graph, schedule, options);
  if (!room)
    return searchToFit(graph, schedule, options, bytes);
  emitWarning(UnknownLoc::get(graph.getContext()))
      << "the plan of the fastest order of the pipeline needs " << bytes << " bytes a rank, more than the limit of "
      << options.memoryLimit << "; the order that is taken keeps at most " << *room << " bytes for gradients";
  PlanOptions limited = options;
  limited.mostKept = *room;
  return compileSchedule(graph, schedule, limited);
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::planAndCompile(ModuleOp model, const PlanOptions &options) {
  FailureOr<ParsedSchedule> schedule = parseSchedule(model.getContext(), options.schedule);
  if (failed(schedule))
    return failure();
  FailureOr<OwningOpRef<ModuleOp>> graph = prepareGraph(model, options);
  if (failed(graph))
    return failure();
  if (schedule->everything)
    return compileBest(**graph, options);
  if (schedule->isOpen())
    return searchSchedule(**graph, *schedule, options);
  if (options.stage != Stage::Plan || options.memoryLimit == 0)
    return compileSchedule(**graph, *schedule, options);
  FailureOr<OwningOpRef<ModuleOp>> module = compileToMeasure(**graph, *schedule, options);
  if (failed(module))
    return failure();
  int64_t bytes = getDeviceBytes(**module);
  if (bytes > options.memoryLimit)
    return compileToFit(**graph, *schedule, options, bytes);
  return options.runPasses ? compileSchedule(**graph, *schedule, options) : std::move(module);
}
