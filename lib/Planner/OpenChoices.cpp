//===- OpenChoices.cpp - what is left open, decided by times and memory ---===//
#include "OpenChoices.h"

#include "SearchSpace.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/Transforms/ProgramMemory.h"
#include "moe/Simulator/Prediction.h"

using namespace mlir;
using namespace mlir::moe;
using mpipemoe::Strategy;

namespace {
struct Candidate {
  ParsedSchedule schedule;
  double seconds = 0;
  int64_t bytes = 0;
  /// Eq. 10, where it decides; then whether it is its choice among those of one chunk count.
  std::optional<double> equation10;
  bool isAllowed = true;
};

class Search {
public:
  Search(ModuleOp graph, const CompileOptions &options) : graph(graph), options(options) {}

  LogicalResult add(const ParsedSchedule &schedule);
  /// Keeps for each chunk count the strategy that Eq. 10 says.
  LogicalResult restrictToEquation10();
  /// Compiles the best once more, with what there is to say about it.
  FailureOr<OwningOpRef<ModuleOp>> finish();
  const Candidate *findBest() const;

private:
  /// To a plan. What there is to say is said of the one that is taken; errors are worth hearing.
  FailureOr<OwningOpRef<ModuleOp>> compileQuietly(const ParsedSchedule &schedule);
  FailureOr<OwningOpRef<ModuleOp>> failToFit();

  ModuleOp graph;
  const CompileOptions &options;
  SmallVector<Candidate> candidates;
};
} // namespace

static constexpr Strategy kStrategies[] = {Strategy::S1, Strategy::S2, Strategy::S3, Strategy::S4};

ArrayRef<int64_t> mlir::moe::getPipelineCounts() { return getChunkCounts(/*most=*/8); }

FailureOr<OwningOpRef<ModuleOp>> Search::compileQuietly(const ParsedSchedule &schedule) {
  CompileOptions planning = options;
  planning.stage = Stage::Plan;
  planning.runPasses = nullptr;
  ScopedDiagnosticHandler quiet(graph.getContext(), [](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  return compileSchedule(graph, schedule, planning);
}

LogicalResult Search::add(const ParsedSchedule &schedule) {
  Candidate &candidate = candidates.emplace_back();
  candidate.schedule = schedule;
  FailureOr<OwningOpRef<ModuleOp>> plan = compileQuietly(schedule);
  if (failed(plan))
    return failure();
  candidate.bytes = getMemory(getLargestProgram(**plan)).getDeviceBytes();
  llvm::Expected<Prediction> prediction = predict(**plan, "", *options.cluster);
  if (!prediction)
    return emitError(UnknownLoc::get(graph.getContext()))
           << "expected a cluster on which schedules can be compared: " << llvm::toString(prediction.takeError());
  candidate.seconds = prediction->result.seconds;
  return success();
}

LogicalResult Search::restrictToEquation10() {
  for (Candidate &candidate : candidates) {
    llvm::Expected<SmallVector<double, 5>> seconds = getStrategySeconds(graph, candidate.schedule, options);
    if (!seconds)
      return emitError(UnknownLoc::get(graph.getContext())) << llvm::toString(seconds.takeError());
    candidate.equation10 = (*seconds)[static_cast<unsigned>(candidate.schedule.strategy)];
  }
  for (Candidate &candidate : candidates)
    candidate.isAllowed = llvm::none_of(candidates, [&](const Candidate &other) {
      return other.schedule.chunks == candidate.schedule.chunks && *other.equation10 < *candidate.equation10;
    });
  return success();
}

const Candidate *Search::findBest() const {
  const Candidate *best = nullptr;
  for (const Candidate &candidate : candidates)
    if (candidate.isAllowed && (options.memoryLimit == 0 || candidate.bytes <= options.memoryLimit) &&
        (!best || candidate.seconds < best->seconds))
      best = &candidate;
  return best;
}

FailureOr<OwningOpRef<ModuleOp>> Search::failToFit() {
  const Candidate *smallest =
      llvm::min_element(candidates, [](const Candidate &a, const Candidate &b) { return a.bytes < b.bytes; });
  FailureOr<OwningOpRef<ModuleOp>> plan = compileQuietly(smallest->schedule);
  if (failed(plan))
    return failure();
  InFlightDiagnostic error = getLargestProgram(**plan).emitError()
                             << "expected a plan of at most " << options.memoryLimit
                             << " bytes a rank but the smallest of " << candidates.size() << " needs "
                             << smallest->bytes << ", that of '" << smallest->schedule.getName() << "'";
  std::string report;
  llvm::raw_string_ostream stream(report);
  printMemory(getLargestProgram(**plan), stream);
  error.attachNote() << report;
  return error;
}

FailureOr<OwningOpRef<ModuleOp>> Search::finish() {
  const Candidate *best = findBest();
  if (!best)
    return failToFit();
  FailureOr<OwningOpRef<ModuleOp>> module = compileSchedule(graph, best->schedule, options);
  if (failed(module))
    return failure();
  Builder builder(graph.getContext());
  SmallVector<Attribute> compared;
  for (const Candidate &candidate : candidates) {
    NamedAttrList entry;
    entry.append("schedule", builder.getStringAttr(candidate.schedule.getName()));
    entry.append("seconds", builder.getF64FloatAttr(candidate.seconds));
    entry.append("bytes", builder.getI64IntegerAttr(candidate.bytes));
    if (candidate.equation10)
      entry.append("equation10", builder.getF64FloatAttr(*candidate.equation10));
    entry.append("chosen", builder.getBoolAttr(&candidate == best));
    compared.push_back(entry.getDictionary(graph.getContext()));
  }
  (**module)->setAttr(plan::kSearchAttrName, builder.getArrayAttr(compared));
  return module;
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::searchSchedule(ModuleOp graph, const ParsedSchedule &schedule,
                                                           const CompileOptions &options) {
  if (!options.cluster)
    return emitError(UnknownLoc::get(graph.getContext()))
           << "expected a cluster for the schedule '" << schedule.getName() << "'";
  Search search(graph, options);
  ParsedSchedule candidate = schedule;
  candidate.chooseStrategy = false;
  bool savesMemory = schedule.chooseStrategy || schedule.strategy != Strategy::None;
  for (int64_t chunks : schedule.chunks ? ArrayRef(schedule.chunks) : getPipelineCounts()) {
    // Without chunks nothing takes turns, and a strategy saves next to nothing.
    if (savesMemory && chunks == 1 && schedule.chunks == 0)
      continue;
    candidate.chunks = chunks;
    for (Strategy strategy : schedule.chooseStrategy ? ArrayRef(kStrategies) : ArrayRef(schedule.strategy)) {
      candidate.strategy = strategy;
      if (failed(search.add(candidate)))
        return failure();
    }
  }
  if (schedule.chooseStrategy && failed(search.restrictToEquation10()))
    return failure();
  return search.finish();
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::searchToFit(ModuleOp graph, const ParsedSchedule &schedule,
                                                        const CompileOptions &options, int64_t bytes) {
  if (!options.cluster)
    return emitError(UnknownLoc::get(graph.getContext())) << "expected a cluster where memory is limited";
  Search search(graph, options);
  llvm::SmallSetVector<int64_t, 8> counts;
  counts.insert(schedule.chunks);
  if (schedule.hasExchanges())
    for (int64_t chunks : getChunkCounts().drop_front())
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
        << options.memoryLimit << "; '" << best->schedule.getName() << "', the fastest of "
        << counts.size() * strategies.size() << " that fits, needs " << best->bytes;
  return search.finish();
}
