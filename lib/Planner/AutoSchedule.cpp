//===- AutoSchedule.cpp - the best schedule of a model on a cluster -------===//
#include "moe/Planner/AutoSchedule.h"

#include "BestPlan.h"
#include "LayerSamples.h"
#include "ModelStep.h"

#include "llvm/ADT/StringMap.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Planner/RunnablePlan.h"
#include "moe/Planner/SearchSpace.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;
using mpipemoe::Strategy;

namespace {
class AutoSearch {
public:
  AutoSearch(ModuleOp graph, const PlanOptions &options) : layers(graph, options), options(options) {
    graph.walk([&](LayerOp layer) {
      model.isDropless |= layer.isDropless();
      model.experts = std::max(model.experts, layer.getW1().getType().getDimSize(0));
    });
  }

  ScheduleExplanation run();

private:
  /// Schedules that differ only in chunks and in the values that they keep for the backward. All do the work of the
  /// first in more pieces or twice, and take at least as long on each stream.
  struct Class {
    ParsedSchedule schedule; ///< the first one
    size_t first;            ///< place of its candidate in the result
  };

  Candidate &add(const ParsedSchedule &schedule, const Class &of);
  void visit(const Class &one);
  void visitChunks(const Class &one, int64_t chunks);
  void visitRings(const Class &one, ParsedSchedule schedule, const Candidate &candidate);
  void decide(const ParsedSchedule &schedule, Candidate &candidate, bool isFirst);
  void simulate(const ParsedSchedule &schedule, Candidate &candidate);
  SmallVector<OrderPolicy> getOtherOrders(const ParsedSchedule &schedule, const Candidate &candidate) const;
  /// Whether only a part of the model is simulated, so that its memory does not tell whether a plan fits.
  bool mayNotFit() const { return options.memoryLimit > 0 && !layers.isWhole(); }
  /// Whether the candidate that was applied need not be simulated.
  bool isBeaten(const Candidate &candidate) const;
  /// Whether memory may decide: a candidate was too large, or it is not known which ones are.
  bool isTight() const;
  bool isStopped();
  bool isAllowed(const ParsedSchedule &schedule) const;
  void chooseBest();

  LayerSamples layers;
  const PlanOptions &options;
  RuledModel model;
  ScheduleExplanation result;
  llvm::StringMap<std::string> names; ///< schedules by their text after the passes
  double bestSeconds = std::numeric_limits<double>::infinity();
};
} // namespace

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

/// Whether a candidate is too large, or fits only in an order that is not the fastest. It may be faster with less kept.
static bool isShort(const Candidate &candidate) {
  return candidate.verdict == Verdict::TooLarge || (candidate.order && *candidate.order != OrderPolicy::Search);
}

bool AutoSearch::isTight() const {
  if (!layers.isWhole())
    return options.memoryLimit > 0;
  return llvm::any_of(result.candidates, isShort);
}

bool AutoSearch::isBeaten(const Candidate &candidate) const {
  if (options.exhaustive)
    return false;
  if (!mayNotFit())
    return candidate.bound >= bestSeconds;
  // A slower candidate may be the only one that fits, unless it needs more memory too.
  return llvm::any_of(result.candidates, [&](const Candidate &one) {
    return one.verdict == Verdict::Simulated && one.estimate.seconds <= candidate.bound &&
           one.estimate.bytes <= candidate.estimate.bytes;
  });
}

bool AutoSearch::isStopped() {
  if (options.showProgress)
    options.showProgress(result, bestSeconds);
  result.isComplete &= !options.isStoppedEarly();
  return !result.isComplete;
}

/// Whether the rules allow a schedule with the choices of the options.
bool AutoSearch::isAllowed(const ParsedSchedule &schedule) const {
  if (!options.rules)
    return true;
  StepChoice choice = options;
  choice.schedule = schedule.getName();
  return refusePlan(*options.rules, choice, model).empty();
}

Candidate &AutoSearch::add(const ParsedSchedule &schedule, const Class &of) {
  Candidate &candidate = result.candidates.emplace_back();
  candidate.schedule = schedule.getName();
  candidate.overlaps = schedule.canOverlap() || schedule.saa;
  candidate.byNode = schedule.isByNode();
  candidate.scheduleClass = of.schedule.getName();
  return candidate;
}

/// Orders that are tried besides the default order of `candidate`, which was simulated.
SmallVector<OrderPolicy> AutoSearch::getOtherOrders(const ParsedSchedule &schedule, const Candidate &candidate) const {
  if (options.order || candidate.verdict != Verdict::Simulated)
    return {};
  // Exchanges of a layer in one piece can run beside weight gradients. All stages of a pipeline share one order.
  bool mayBeBest = options.exhaustive || candidate.bound < bestSeconds;
  if (!schedule.canOverlap() && mayBeBest && options.parallel.getPp() == 1)
    return {OrderPolicy::Search};
  // The fastest order may keep more alive than another one.
  if (schedule.canOverlap() && !layers.fits(candidate))
    return {OrderPolicy::MPipeMoe, OrderPolicy::FasterMoe, OrderPolicy::Program};
  return {};
}

/// Simulates the candidate in the fastest order that fits, otherwise in the smallest.
void AutoSearch::simulate(const ParsedSchedule &schedule, Candidate &candidate) {
  Candidate applied = candidate;
  layers.simulate(schedule, candidate);
  auto rank = [&](const Candidate &one) {
    return rankPlan(one.estimate.bytes, one.estimate.seconds, layers.isWhole() ? options.memoryLimit : 0);
  };
  for (OrderPolicy order : getOtherOrders(schedule, candidate)) {
    Candidate other = applied;
    other.order = order;
    layers.simulate(schedule, other);
    if (other.verdict == Verdict::Simulated && rank(other) < rank(candidate))
      candidate = std::move(other);
  }
}

/// Decides the fate of the candidate that was applied last. The first of a class shows the gain of chunks.
void AutoSearch::decide(const ParsedSchedule &schedule, Candidate &candidate, bool isFirst) {
  ++result.applied;
  if (candidate.verdict == Verdict::Illegal)
    return;
  if (auto [same, isNew] = names.try_emplace(layers.getText(), candidate.schedule); !isNew) {
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
  if (!layers.fits(candidate)) {
    candidate.verdict = Verdict::TooLarge;
    return;
  }
  bestSeconds = std::min(bestSeconds, candidate.estimate.seconds);
}

/// Visits one number of chunks: with all values kept and, if that may not fit, with fewer.
void AutoSearch::visitChunks(const Class &one, int64_t chunks) {
  ParsedSchedule schedule = one.schedule;
  schedule.chunks = chunks;
  bool needsLess = mayNotFit();
  for (Strategy strategy : getStrategies(*options.cluster)) {
    schedule.strategy = strategy;
    if (!isPossible(schedule) || !isAllowed(schedule))
      continue;
    // The first of the class is decided already.
    if (chunks == 1 && strategy == Strategy::None) {
      needsLess |= isShort(result.candidates[one.first]);
      continue;
    }
    Candidate &candidate = add(schedule, one);
    if (strategy != Strategy::None && !needsLess && !options.exhaustive) {
      candidate.verdict = Verdict::Dominated;
      continue;
    }
    layers.apply(schedule, candidate);
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

/// Visits the schedule of `candidate` with the values of fewer chunks alive, if memory may decide, until one fits.
void AutoSearch::visitRings(const Class &one, ParsedSchedule schedule, const Candidate &candidate) {
  bool wasSimulated = candidate.verdict == Verdict::TooLarge || candidate.verdict == Verdict::Simulated;
  if (!wasSimulated || (!isShort(candidate) && !mayNotFit() && !options.exhaustive))
    return;
  // Each chunk has a place of its own without a ring.
  int64_t own = schedule.getRing() ? std::min(schedule.chunks, schedule.getRing()) : schedule.chunks;
  for (int64_t ring : {2, 1}) {
    if (ring >= own)
      continue;
    schedule.ring = ring;
    if (!isPossible(schedule) || !isAllowed(schedule))
      return;
    Candidate &smaller = add(schedule, one);
    layers.apply(schedule, smaller);
    decide(schedule, smaller, /*isFirst=*/false);
    bool doesFit = layers.isWhole() && smaller.verdict == Verdict::Simulated;
    if (isStopped() || (doesFit && !options.exhaustive))
      return;
  }
}

void AutoSearch::visit(const Class &one) {
  const Candidate &first = result.candidates[one.first];
  if (first.verdict == Verdict::Illegal || first.verdict == Verdict::Same || first.verdict == Verdict::Dominated)
    return;
  if (!options.exhaustive && !mayNotFit() && first.bound >= bestSeconds) {
    ++result.bounded;
    return;
  }
  for (int64_t chunks : kChunkCounts) {
    visitChunks(one, chunks);
    if (!result.isComplete)
      return;
  }
}

void AutoSearch::chooseBest() {
  Candidate *best = nullptr;
  for (Candidate &candidate : result.candidates)
    if (candidate.verdict == Verdict::Simulated && (!best || candidate.estimate.seconds < best->estimate.seconds))
      best = &candidate;
  if (!best)
    return;
  best->verdict = Verdict::Chosen;
  result.best = best - result.candidates.data();
}

ScheduleExplanation AutoSearch::run() {
  SmallVector<Class> classes;
  for (const ParsedSchedule &schedule : getCombinations()) {
    if (!mayExchangeByNode(schedule, options.parallel, options.devicesPerNode, model.isDropless) ||
        !isAllowed(schedule))
      continue;
    Class &one = classes.emplace_back(Class{schedule, result.candidates.size()});
    Candidate &first = add(schedule, one);
    // If tokens choose evenly, shadows save no time, but their buffers may be smaller.
    if (schedule.shadows && !options.routing && !options.exhaustive && !isTight()) {
      first.verdict = Verdict::Dominated;
      continue;
    }
    layers.apply(schedule, first);
    decide(schedule, first, /*isFirst=*/true);
    if (isStopped())
      break;
  }
  // Classes that may be fast come first, so that they prune the others.
  llvm::stable_sort(classes, [&](const Class &a, const Class &b) {
    return result.candidates[a.first].bound < result.candidates[b.first].bound;
  });
  for (const Class &one : classes)
    if (result.isComplete)
      visit(one);
  chooseBest();
  return std::move(result);
}

ScheduleExplanation mlir::moe::searchSpace(ModuleOp graph, const PlanOptions &options) {
  return AutoSearch(graph, options).run();
}

//===----------------------------------------------------------------------===//
// A plan of the best
//===----------------------------------------------------------------------===//

static LogicalResult emitNoSchedule(ModuleOp graph, const ScheduleExplanation &result, int64_t memoryLimit) {
  return emitNothingFound(graph.getContext(), result.candidates,
                          {"schedule", !result.isComplete, std::to_string(memoryLimit) + " bytes",
                           static_cast<size_t>(result.applied),
                           [](const Candidate &one) { return "'" + one.schedule + "'"; }, /*showsBytes=*/true});
}

/// Compiles a candidate in the whole model, `graph`.
static void measureWhole(const GraphReader &graph, const PlanOptions &options, Candidate &candidate) {
  PlanOptions whole = options;
  whole.schedule = candidate.schedule;
  whole.order = candidate.order ? candidate.order : options.order;
  whole.memoryLimit = 0;
  std::string reason;
  std::optional<WholeModel> model = measureFilledModel(graph, whole, options.memoryLimit, reason);
  if (!model) {
    // A schedule that is possible for a layer alone may not be possible in the model.
    candidate.verdict = Verdict::Illegal;
    candidate.reason = std::move(reason);
    return;
  }
  candidate.whole = std::move(model->step);
  candidate.verdict = model->peak.empty() ? Verdict::Simulated : Verdict::TooLarge;
  if (!model->peak.empty())
    candidate.reason = std::move(model->peak);
}

/// Compiles the fastest of `sorted` whole, until enough of them fit. One is enough if the search is stopped.
static void measureFastest(ModuleOp graph, const PlanOptions &options, ArrayRef<Candidate *> sorted) {
  constexpr size_t compared = 3;
  std::string text;
  llvm::raw_string_ostream(text) << graph;
  auto doesFit = [&](size_t index) {
    measureWhole(readText(text), options, *sorted[index]);
    return sorted[index]->verdict == Verdict::Simulated;
  };
  takeWhileFew(graph.getContext(), sorted.size(), options.isStoppedEarly() ? 1 : compared, doesFit,
               [&](size_t fitting) { return fitting == 0 || !options.isStoppedEarly(); });
}

/// Chooses by the whole model: of the fastest few, the first that fit are compared.
static LogicalResult chooseForModel(ModuleOp graph, const PlanOptions &options, ScheduleExplanation &result) {
  auto sorted = llvm::map_to_vector(sortBySeconds(result.candidates), [&](const Candidate *one) {
    return &result.candidates[one - result.candidates.data()];
  });
  measureFastest(graph, options, sorted);
  result.isComplete &= !options.isStoppedEarly();
  Candidate *best = nullptr;
  for (Candidate *candidate : sorted)
    if (candidate->whole.bytes > 0 && candidate->verdict == Verdict::Simulated &&
        (!best || candidate->whole.seconds < best->whole.seconds))
      best = candidate;
  if (!best)
    return emitNoSchedule(graph, result, options.memoryLimit);
  best->verdict = Verdict::Chosen;
  result.best = best - result.candidates.data();
  return success();
}

/// Searches only schedules that keep everything for the backward. The others are many, and seldom faster.
static std::optional<ScheduleExplanation> searchKeepingAll(ModuleOp graph, const PlanOptions &options) {
  if (options.memoryLimit == 0 || options.exhaustive || isOneLayer(graph))
    return std::nullopt;
  PlanOptions unlimited = options;
  unlimited.memoryLimit = 0;
  ScheduleExplanation result = searchSpace(graph, unlimited);
  ScopedDiagnosticHandler quiet(graph.getContext(), [](Diagnostic &) { return success(); });
  if (!result.best || failed(chooseForModel(graph, options, result)))
    return std::nullopt;
  return result;
}

/// Adds the distance of the choice from the others that fit.
static void addMargin(const PlanOptions &options, ScheduleExplanation &result) {
  const Candidate &best = result.candidates[*result.best];
  // In a model of many layers the whole decides, among those that were compiled whole.
  auto getStep = [&](const Candidate &one) -> const StepFigures & {
    return best.whole.seconds > 0 ? one.whole : one.estimate;
  };
  auto isCompared = [&](const Candidate &one) { return one.verdict == Verdict::Simulated && getStep(one).seconds > 0; };
  result.margin = getMargin(best, result.candidates, isCompared, [&](const Candidate &one) {
    return Choice{one.schedule, getStep(one).seconds, getStep(one).errors, options.cluster->measured.pairError};
  });
  if (!result.margin)
    return;
  // A candidate that was left out for its bound, or that of its class, may take just as long as the choice.
  double limit = best.estimate.seconds * (1 + result.margin->uncertainty);
  result.isOpen = result.bounded > 0 && llvm::any_of(result.candidates, [&](const Candidate &one) {
                    return &one != &best && one.bound >= best.estimate.seconds && one.bound <= limit;
                  });
}

/// Adds the speed of candidates whose steps of the whole graph are known.
static void addThroughput(ModuleOp graph, const PlanOptions &options, ScheduleExplanation &result) {
  StepWork work = getModelWork(graph, options) * (1 / static_cast<double>(options.parallel.getWorld()));
  for (Candidate &candidate : result.candidates) {
    const StepFigures &step = isOneLayer(graph) ? candidate.estimate : candidate.whole;
    candidate.speed = getSpeed(work, step.seconds, step.peakFlops);
  }
}

FailureOr<ScheduleExplanation> mlir::moe::chooseSchedule(ModuleOp graph, const PlanOptions &options) {
  if (!options.cluster)
    return emitUsageError(graph.getContext()) << "expected a cluster for the schedule 'auto'";
  // The search compares plans, whatever stage the best is compiled to.
  PlanOptions planning = options;
  planning.stage = Stage::Plan;
  planning.runPasses = nullptr;
  std::optional<ScheduleExplanation> result = searchKeepingAll(graph, planning);
  if (!result) {
    result = searchSpace(graph, planning);
    if (!result->best)
      return emitNoSchedule(graph, *result, options.memoryLimit);
    if (!isOneLayer(graph) && failed(chooseForModel(graph, planning, *result)))
      return failure();
  }
  if (options.findChanges && result->isComplete)
    addChanges(graph, planning, *result);
  addThroughput(graph, options, *result);
  addMargin(options, *result);
  return std::move(*result);
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::compileBest(ModuleOp graph, const PlanOptions &options) {
  if ((*graph.getOps<func::FuncOp>().begin()).getOps<LayerOp>().empty())
    return compileSchedule(graph, ParsedSchedule(), options);
  FailureOr<ScheduleExplanation> result = chooseSchedule(graph, options);
  if (failed(result))
    return failure();
  const Candidate &best = result->candidates[*result->best];
  PlanOptions ordered = options;
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
  setExplanation(**module, *result);
  return module;
}
