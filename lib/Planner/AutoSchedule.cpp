//===- AutoSchedule.cpp - the best schedule of a model on a cluster -------===//
#include "moe/Planner/AutoSchedule.h"

#include "Evaluator.h"
#include "Explanation.h"
#include "OpenChoices.h"
#include "SearchSpace.h"
#include "StepTime.h"
#include "Threads.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"

#include "moe/Conversion/Variants.h"
#include "moe/Cost/ClusterProfile.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/Transforms/ProgramMemory.h"

using namespace mlir;
using namespace mlir::moe;
using mpipemoe::Strategy;

StringRef mlir::moe::getName(Verdict verdict) {
  static const StringLiteral names[] = {"illegal", "same", "bounded", "dominated", "too large", "simulated", "chosen"};
  return names[static_cast<unsigned>(verdict)];
}

namespace {
class AutoSearch {
public:
  AutoSearch(ModuleOp graph, const CompileOptions &options) : subject(graph, options), options(options) {}

  AutoResult run();

private:
  /// A class, with its first candidate's place in the result.
  struct Class {
    ScheduleClass schedules;
    size_t first;
  };

  AutoCandidate &add(const ParsedSchedule &schedule, const Class &of);
  void visit(const Class &one);
  void visitChunks(const Class &one, int64_t chunks);
  void visitRings(const Class &one, ParsedSchedule schedule, const AutoCandidate &candidate);
  void decide(const ParsedSchedule &schedule, AutoCandidate &candidate, bool isFirst);
  void simulate(const ParsedSchedule &schedule, AutoCandidate &candidate);
  SmallVector<OrderPolicy> getOtherOrders(const ParsedSchedule &schedule, const AutoCandidate &candidate) const;
  bool fits(const AutoCandidate &candidate) const;
  /// Whether of a part of the model it is not known what fits.
  bool mayNotFit() const { return options.memoryLimit > 0 && !subject.isWhole(); }
  /// Whether what was applied need not be simulated.
  bool isBeaten(const AutoCandidate &candidate) const;
  /// Whether memory may decide: something was too large, or of a part of the model it is not known what is.
  bool isTight() const;
  bool isStopped();
  void chooseBest();

  Evaluator subject;
  const CompileOptions &options;
  AutoResult result;
  llvm::StringMap<std::string> names; ///< of schedules, by what they come to
  double bestSeconds = std::numeric_limits<double>::infinity();
};
} // namespace

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

bool AutoSearch::fits(const AutoCandidate &candidate) const {
  return options.memoryLimit == 0 || !subject.isWhole() || candidate.memory <= options.memoryLimit;
}

/// Whether it is too large, or fits in an order alone that is not the fastest: with less kept it may be faster.
static bool isShort(const AutoCandidate &candidate) {
  return candidate.verdict == Verdict::TooLarge || (candidate.order && *candidate.order != OrderPolicy::Search);
}

bool AutoSearch::isTight() const {
  if (!subject.isWhole())
    return options.memoryLimit > 0;
  return llvm::any_of(result.candidates, isShort);
}

bool AutoSearch::isBeaten(const AutoCandidate &candidate) const {
  if (options.exhaustive)
    return false;
  if (!mayNotFit())
    return candidate.bound >= bestSeconds;
  // What is slower may be all that fits, unless it needs more memory too.
  return llvm::any_of(result.candidates, [&](const AutoCandidate &one) {
    return one.verdict == Verdict::Simulated && one.seconds <= candidate.bound && one.memory <= candidate.memory;
  });
}

bool AutoSearch::isStopped() {
  if (options.showProgress)
    options.showProgress(result, bestSeconds);
  result.isComplete &= !options.isStoppedEarly();
  return !result.isComplete;
}

AutoCandidate &AutoSearch::add(const ParsedSchedule &schedule, const Class &of) {
  AutoCandidate &candidate = result.candidates.emplace_back();
  candidate.schedule = schedule.getName();
  candidate.overlaps = schedule.canOverlap() || schedule.saa;
  candidate.scheduleClass = of.schedules.name;
  return candidate;
}

/// Worth a try besides the order that `candidate`, which was simulated, is compiled in by itself.
SmallVector<OrderPolicy> AutoSearch::getOtherOrders(const ParsedSchedule &schedule,
                                                    const AutoCandidate &candidate) const {
  if (options.order || candidate.verdict != Verdict::Simulated)
    return {};
  // Exchanges of a layer in one piece can run beside what computes the gradients of weights. The order of a pipeline is
  // one of all its stages.
  bool mayBeBest = options.exhaustive || candidate.bound < bestSeconds;
  if (!schedule.canOverlap() && mayBeBest && options.parallel.getPp() == 1)
    return {OrderPolicy::Search};
  // The fastest order may keep more alive than another one.
  if (schedule.canOverlap() && !fits(candidate))
    return {OrderPolicy::MPipeMoe, OrderPolicy::FasterMoe, OrderPolicy::Program};
  return {};
}

/// In the order that is over the limit by the fewest bytes, of such the fastest.
void AutoSearch::simulate(const ParsedSchedule &schedule, AutoCandidate &candidate) {
  AutoCandidate applied = candidate;
  subject.simulate(schedule, candidate);
  auto rank = [&](const AutoCandidate &one) {
    return std::pair(fits(one) ? 0 : one.memory - options.memoryLimit, one.seconds);
  };
  for (OrderPolicy order : getOtherOrders(schedule, candidate)) {
    AutoCandidate other = applied;
    other.order = order;
    subject.simulate(schedule, other);
    if (other.verdict == Verdict::Simulated && rank(other) < rank(candidate))
      candidate = std::move(other);
  }
}

/// Of what was applied last. The first of a class is always simulated, to know what chunks bring.
void AutoSearch::decide(const ParsedSchedule &schedule, AutoCandidate &candidate, bool isFirst) {
  ++result.applied;
  if (candidate.verdict == Verdict::Illegal)
    return;
  if (auto [same, isNew] = names.try_emplace(subject.getText(), candidate.schedule); !isNew) {
    candidate.verdict = Verdict::Same;
    candidate.reason = same->second;
    return;
  }
  if (!isFirst && isBeaten(candidate)) {
    ++result.bounded;
    return;
  }
  simulate(schedule, candidate);
  if (candidate.verdict != Verdict::Simulated)
    return;
  ++result.simulated;
  if (!fits(candidate)) {
    candidate.verdict = Verdict::TooLarge;
    return;
  }
  bestSeconds = std::min(bestSeconds, candidate.seconds);
}

/// One chunk count: all kept, and where that does not fit, or where that is not known, with less kept.
void AutoSearch::visitChunks(const Class &one, int64_t chunks) {
  ParsedSchedule schedule = one.schedules.first;
  schedule.chunks = chunks;
  bool needsLess = mayNotFit();
  for (Strategy strategy : getStrategies(*options.cluster)) {
    schedule.strategy = strategy;
    // The first of the class was decided on before.
    if (chunks == 1 && strategy == Strategy::None) {
      needsLess |= isShort(result.candidates[one.first]);
      continue;
    }
    AutoCandidate &candidate = add(schedule, one);
    if (strategy != Strategy::None && !needsLess && !options.exhaustive) {
      candidate.verdict = Verdict::Dominated;
      continue;
    }
    subject.apply(schedule, candidate);
    decide(schedule, candidate, /*isFirst=*/false);
    if (strategy == Strategy::None && candidate.verdict == Verdict::Illegal)
      return;
    needsLess |= isShort(candidate);
    if (isStopped())
      return;
    visitRings(one, schedule, candidate);
    if (!result.isComplete)
      return;
  }
}

/// `schedule`, which `candidate` is of, with fewer chunks' values alive, where that may decide: until one fits.
void AutoSearch::visitRings(const Class &one, ParsedSchedule schedule, const AutoCandidate &candidate) {
  bool wasSimulated = candidate.verdict == Verdict::TooLarge || candidate.verdict == Verdict::Simulated;
  if (!wasSimulated || (!isShort(candidate) && !mayNotFit() && !options.exhaustive))
    return;
  for (int64_t ring : getSmallerRings(schedule)) {
    schedule.ring = ring;
    AutoCandidate &smaller = add(schedule, one);
    subject.apply(schedule, smaller);
    decide(schedule, smaller, /*isFirst=*/false);
    bool doesFit = subject.isWhole() && smaller.verdict == Verdict::Simulated;
    if (isStopped() || (doesFit && !options.exhaustive))
      return;
  }
}

void AutoSearch::visit(const Class &one) {
  const AutoCandidate &first = result.candidates[one.first];
  if (first.verdict == Verdict::Illegal || first.verdict == Verdict::Same || first.verdict == Verdict::Dominated)
    return;
  if (!options.exhaustive && !mayNotFit() && first.bound >= bestSeconds) {
    ++result.bounded;
    return;
  }
  for (int64_t chunks : getChunkCounts()) {
    visitChunks(one, chunks);
    if (!result.isComplete)
      return;
  }
}

void AutoSearch::chooseBest() {
  AutoCandidate *best = nullptr;
  for (AutoCandidate &candidate : result.candidates)
    if (candidate.verdict == Verdict::Simulated && (!best || candidate.seconds < best->seconds))
      best = &candidate;
  if (!best)
    return;
  best->verdict = Verdict::Chosen;
  result.best = best - result.candidates.data();
}

AutoResult AutoSearch::run() {
  SmallVector<Class> classes;
  for (ScheduleClass &schedules : getScheduleClasses()) {
    Class &one = classes.emplace_back(Class{std::move(schedules), result.candidates.size()});
    AutoCandidate &first = add(one.schedules.first, one);
    // Where tokens choose evenly shadows save no time, but their buffers may be smaller.
    if (one.schedules.first.shadows && !options.routing && !options.exhaustive && !isTight()) {
      first.verdict = Verdict::Dominated;
      continue;
    }
    subject.apply(one.schedules.first, first);
    decide(one.schedules.first, first, /*isFirst=*/true);
    if (isStopped())
      break;
  }
  // Those that may be fast first, so that they prune the others.
  llvm::stable_sort(classes, [&](const Class &a, const Class &b) {
    return result.candidates[a.first].bound < result.candidates[b.first].bound;
  });
  for (const Class &one : classes)
    if (result.isComplete)
      visit(one);
  chooseBest();
  return std::move(result);
}

AutoResult mlir::moe::searchSpace(ModuleOp graph, const CompileOptions &options) {
  return AutoSearch(graph, options).run();
}

SmallVector<const AutoCandidate *> mlir::moe::sortBySeconds(const AutoResult &result) {
  SmallVector<const AutoCandidate *> sorted;
  for (const AutoCandidate &candidate : result.candidates)
    if (candidate.seconds > 0)
      sorted.push_back(&candidate);
  llvm::stable_sort(sorted, [](const AutoCandidate *a, const AutoCandidate *b) { return a->seconds < b->seconds; });
  return sorted;
}

//===----------------------------------------------------------------------===//
// A plan of the best
//===----------------------------------------------------------------------===//

static InFlightDiagnostic emitUsageError(ModuleOp graph) { return emitError(UnknownLoc::get(graph.getContext())); }

/// Why there is nothing to take.
static LogicalResult emitNoCandidate(ModuleOp graph, const AutoResult &result, int64_t memoryLimit) {
  const AutoCandidate *smallest = nullptr;
  for (const AutoCandidate &candidate : result.candidates)
    if (candidate.verdict == Verdict::TooLarge && (!smallest || candidate.memory < smallest->memory))
      smallest = &candidate;
  if (!result.isComplete)
    return emitUsageError(graph) << "expected a schedule but the search was interrupted before any that "
                                 << (smallest ? "fits" : "can be") << " was simulated";
  if (!smallest)
    return emitUsageError(graph) << "expected a schedule that can be, but of '" << result.candidates.front().schedule
                                 << "' the passes say: " << result.candidates.front().reason;
  return emitUsageError(graph) << "expected a plan of at most " << memoryLimit << " bytes a rank but the smallest of "
                               << result.applied << " needs " << smallest->memory << ", that of '" << smallest->schedule
                               << "': " << smallest->reason;
}

/// What came of a candidate in the whole model.
static void setWhole(AutoCandidate &candidate, WholeModel whole, int64_t memoryLimit) {
  candidate.modelMemory = whole.memory;
  candidate.modelSeconds = whole.seconds;
  candidate.verdict = Verdict::Simulated;
  if (!whole.error.empty()) {
    // What a layer alone can do may be too much for it among others.
    candidate.verdict = Verdict::Illegal;
    candidate.reason = std::move(whole.error);
  } else if (memoryLimit > 0 && whole.memory > memoryLimit) {
    candidate.verdict = Verdict::TooLarge;
    candidate.reason = std::move(whole.peak);
  }
}

/// Compiles the fastest of `sorted` whole, until enough of them fit; one has to do where the search is stopped.
static void measureFastest(ModuleOp graph, const CompileOptions &options, ArrayRef<AutoCandidate *> sorted) {
  constexpr size_t compared = 3;
  std::string text;
  llvm::raw_string_ostream(text) << graph;
  auto doesFit = [&](size_t index) {
    AutoCandidate &candidate = *sorted[index];
    CompileOptions whole = options;
    whole.schedule = candidate.schedule;
    whole.order = candidate.order ? candidate.order : options.order;
    setWhole(candidate, measureModel(text, whole), options.memoryLimit);
    return candidate.verdict == Verdict::Simulated;
  };
  takeWhileFew(graph.getContext(), sorted.size(), options.isStoppedEarly() ? 1 : compared, doesFit,
               [&](size_t fitting) { return fitting == 0 || !options.isStoppedEarly(); });
}

/// The fastest few in the whole model; the first that fit are compared.
static LogicalResult chooseForModel(ModuleOp graph, const CompileOptions &options, AutoResult &result) {
  auto sorted = llvm::map_to_vector(sortBySeconds(result), [&](const AutoCandidate *one) {
    return &result.candidates[one - result.candidates.data()];
  });
  measureFastest(graph, options, sorted);
  result.isComplete &= !options.isStoppedEarly();
  AutoCandidate *best = nullptr, *smallest = nullptr;
  for (AutoCandidate *candidate : sorted) {
    if (candidate->modelMemory == 0)
      continue;
    if (candidate->verdict == Verdict::Simulated && (!best || candidate->modelSeconds < best->modelSeconds))
      best = candidate;
    if (candidate->verdict == Verdict::TooLarge && (!smallest || candidate->modelMemory < smallest->modelMemory))
      smallest = candidate;
  }
  if (!best && !smallest)
    return emitNoCandidate(graph, result, options.memoryLimit);
  if (!best)
    return emitUsageError(graph) << "expected a plan of at most " << options.memoryLimit
                                 << " bytes a rank but the smallest of the model needs " << smallest->modelMemory
                                 << ", that of '" << smallest->schedule << "': " << smallest->reason;
  best->verdict = Verdict::Chosen;
  result.best = best - result.candidates.data();
  return success();
}

/// Of a model whose memory is limited, what is best of all that keeps everything for the backward; nothing where none
/// of that fits. What keeps less is several times as much to go through, and seldom faster.
static std::optional<AutoResult> searchKeepingAll(ModuleOp graph, const CompileOptions &options) {
  if (options.memoryLimit == 0 || options.exhaustive || isOneLayer(graph))
    return std::nullopt;
  CompileOptions unlimited = options;
  unlimited.memoryLimit = 0;
  AutoResult result = searchSpace(graph, unlimited);
  ScopedDiagnosticHandler quiet(graph.getContext(), [](Diagnostic &) { return success(); });
  if (!result.best || failed(chooseForModel(graph, options, result)))
    return std::nullopt;
  return result;
}

/// Where steps of the whole graph are known.
static void addThroughput(ModuleOp graph, const CompileOptions &options, AutoResult &result) {
  auto tokens = static_cast<double>(getTokens(graph) * options.microBatches);
  auto ranks = static_cast<double>(options.parallel.getWorld());
  for (AutoCandidate &candidate : result.candidates)
    if (double seconds = isOneLayer(graph) ? candidate.seconds : candidate.modelSeconds; seconds > 0)
      candidate.tokensPerSecond = tokens / seconds / ranks;
}

FailureOr<AutoResult> mlir::moe::chooseSchedule(ModuleOp graph, const CompileOptions &options) {
  if (!options.cluster)
    return emitUsageError(graph) << "expected a cluster for the schedule 'auto'";
  // Plans are compared, whatever is made of the best.
  CompileOptions planning = options;
  planning.stage = Stage::Plan;
  planning.runPasses = nullptr;
  std::optional<AutoResult> result = searchKeepingAll(graph, planning);
  if (!result) {
    result = searchSpace(graph, planning);
    if (!result->best)
      return emitNoCandidate(graph, *result, options.memoryLimit);
    if (!isOneLayer(graph) && failed(chooseForModel(graph, planning, *result)))
      return failure();
  }
  if (options.findChanges && result->isComplete)
    addChanges(graph, planning, *result);
  addThroughput(graph, options, *result);
  return std::move(*result);
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::compileBest(ModuleOp graph, const CompileOptions &options) {
  if ((*graph.getOps<func::FuncOp>().begin()).getOps<LayerOp>().empty())
    return compileSchedule(graph, ParsedSchedule(), options);
  FailureOr<AutoResult> result = chooseSchedule(graph, options);
  if (failed(result))
    return failure();
  const AutoCandidate &best = result->candidates[*result->best];
  CompileOptions ordered = options;
  if (best.order)
    ordered.order = best.order;
  FailureOr<OwningOpRef<ModuleOp>> module =
      compileSchedule(graph, *parseSchedule(graph.getContext(), best.schedule), ordered);
  if (failed(module))
    return failure();
  Builder builder(graph.getContext());
  (**module)->setAttr(plan::kScheduleAttrName, builder.getStringAttr(best.schedule));
  if (best.order)
    (**module)->setAttr(plan::kOrderAttrName, builder.getStringAttr(getName(*best.order)));
  (**module)->setAttr(plan::kExplainAttrName, getExplanation(*result, graph.getContext()));
  return module;
}
