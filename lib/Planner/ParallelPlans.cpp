//===- ParallelPlans.cpp - plans of the nearest candidates ----------------===//
#include "ParallelSearch.h"

#include <set>

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// Graphs that are small enough to be compiled in all groups
//===----------------------------------------------------------------------===//

/// Compiles `candidate` in the fastest of the simple schedules that fits, otherwise in the smallest.
static void compileInBest(ParallelSearch &search, Candidate &candidate) {
  const ParallelQuestion &question = search.question;
  std::optional<WholeModel> best;
  std::string first;
  for (const std::string &schedule : getSchedules(question, candidate)) {
    candidate.schedule = schedule;
    std::string reason = question.getBrokenRule(candidate);
    std::optional<WholeModel> whole;
    if (reason.empty())
      whole = measureModel(question.getReader(candidate), question.getOptions(candidate), reason);
    if (first.empty())
      first = reason;
    if (!whole)
      continue;
    whole->schedule = schedule;
    if (!best || question.getRank(whole->step) < question.getRank(best->step))
      best = std::move(whole);
  }
  if (!best)
    return refuse(candidate, Verdict::Illegal, first);
  candidate.schedule = best->schedule;
  candidate.estimate = candidate.whole = best->step;
  candidate.verdict = Verdict::Estimated;
  if (!question.fits(candidate.whole.bytes))
    refuseSize(question, candidate, describeMemory(best->memory));
}

void mlir::moe::compileAll(ParallelSearch &search, MutableArrayRef<Candidate> candidates) {
  search.visitAll("groups", candidates.size(), [&](size_t index) {
    if (candidates[index].verdict != Verdict::Illegal)
      compileInBest(search, candidates[index]);
  });
}

//===----------------------------------------------------------------------===//
// Corrections
//===----------------------------------------------------------------------===//

namespace {
/// Least factors by which compiled steps took longer than estimated. They correct other estimates of the same kind.
class Corrections {
public:
  Corrections() = default;
  explicit Corrections(ArrayRef<Candidate> candidates);
  /// Corrects the estimate of `one`.
  void apply(Candidate &one) const;

private:
  /// Properties that decide how much exchange time windows hide: order, recomputation and group sizes.
  using Kind = std::tuple<PipelineOrder, Recompute, int64_t, int64_t, int64_t>;
  static Kind getKind(const Candidate &one) {
    ParallelAttr all = one.parallel;
    return {one.pipelineOrder, one.recompute, all.getCp(), all.getMp(), all.getEp() * all.getEsp()};
  }

  std::map<Kind, double> ratios;
  std::map<PipelineOrder, double> orderRatios; ///< ratios of orders that several compiled candidates have
};
} // namespace

Corrections::Corrections(ArrayRef<Candidate> candidates) {
  constexpr int64_t several = 2;
  std::map<PipelineOrder, int64_t> counts;
  auto note = [](auto &known, auto key, double ratio) {
    auto [it, isNew] = known.try_emplace(key, ratio);
    it->second = std::min(it->second, ratio);
  };
  for (const Candidate &one : candidates)
    if (one.verdict == Verdict::Compiled) {
      double ratio = one.whole.seconds * one.secondsScale / one.estimate.seconds;
      note(ratios, getKind(one), ratio);
      note(orderRatios, one.pipelineOrder, ratio);
      ++counts[one.pipelineOrder];
    }
  for (auto [order, count] : counts)
    if (count < several)
      orderRatios.erase(order);
}

void Corrections::apply(Candidate &one) const {
  double ratio = 1;
  if (auto own = ratios.find(getKind(one)); own != ratios.end())
    ratio = own->second;
  else if (auto like = orderRatios.find(one.pipelineOrder); like != orderRatios.end())
    ratio = like->second;
  ratio = std::max(1.0, ratio);
  one.estimate.seconds *= ratio / one.secondsScale;
  one.secondsScale = ratio;
}

//===----------------------------------------------------------------------===//
// Whole plans
//===----------------------------------------------------------------------===//

/// Gives the candidate as many stages on a device as its order needs, and their beginnings; false if that cannot be.
static bool setStages(ParallelSearch &search, Candidate &candidate) {
  bool train = search.question.options.train;
  std::optional<int64_t> needed = getStagesPerDevice(candidate.pipelineOrder);
  if (needed && *needed != candidate.interleave) {
    candidate.interleave = *needed;
    // The candidate is estimated as 1F1B.
    int64_t pp = candidate.parallel.getPp();
    std::string reason;
    std::optional<PipelineEstimate> step;
    if (PipelineShape{pp, pp * *needed, candidate.microBatches, train}.check().empty())
      step = search.estimator->estimate(candidate, reason);
    if (!step)
      return false;
    candidate.stageBoundaries = step->stageBoundaries;
  }
  return candidate.getPipelineShape(train).check().empty();
}

/// `asked` in its order, and in the open orders that are not estimated, as far as rules allow them. On one device these
/// have two micro-batches.
static std::vector<Candidate> getOrdersOf(ParallelSearch &search, const Candidate &asked) {
  const StepSpace &space = search.question.request.space;
  std::vector<Candidate> all = {asked};
  bool isAlone = asked.parallel.getPp() == 1;
  auto isOpen = [&](PipelineOrder order) {
    return isAlone ? order == PipelineOrder::Overlapped1F1B && asked.microBatches > 1 : !isEstimated(order);
  };
  for (PipelineOrder order : space.pipelineOrders)
    if (isOpen(order) && order != asked.pipelineOrder) {
      all.push_back(asked);
      all.back().pipelineOrder = order;
      if (!setStages(search, all.back()) || !search.question.getBrokenRule(all.back()).empty())
        all.pop_back();
    }
  if (isAlone && space.mayBeSideBySide && asked.sideBySide == 1 && asked.microBatches % 2 == 0) {
    all.push_back(asked);
    all.back().sideBySide = 2;
  }
  return all;
}

/// Compiles `candidate` in the fastest of the open orders that fits, otherwise in the smallest.
static std::optional<WholeModel> measureOrders(ParallelSearch &search, Candidate &candidate, std::string &reason) {
  const ParallelQuestion &question = search.question;
  std::optional<WholeModel> best;
  for (Candidate &one : getOrdersOf(search, candidate)) {
    std::string why;
    std::optional<WholeModel> whole =
        measureFilledModel(question.getReader(one), question.getOptions(one), /*limit=*/0, why);
    if (!whole && reason.empty())
      reason = why;
    if (!whole || (best && question.getRank(whole->step) >= question.getRank(best->step)))
      continue;
    best = std::move(whole);
    candidate = std::move(one);
  }
  return best;
}

/// Whether the candidate's plan is possible and fits. If it needs more memory than estimated, it is estimated again.
static bool compileWhole(ParallelSearch &search, const Corrections &corrections, Candidate &candidate) {
  const ParallelQuestion &question = search.question;
  std::string reason;
  std::optional<WholeModel> whole = measureOrders(search, candidate, reason);
  if (!whole) {
    refuse(candidate, Verdict::Illegal, reason);
    return false;
  }
  if (question.fits(whole->step.bytes)) {
    candidate.whole = whole->step;
    candidate.verdict = Verdict::Compiled;
    search.noteBest(candidate);
    return true;
  }
  if (whole->step.bytes > candidate.estimate.bytes) {
    candidate.memoryScale = candidate.memoryScale.value_or(1) * static_cast<double>(whole->step.bytes) /
                            static_cast<double>(candidate.estimate.bytes);
    estimate(search, candidate);
    corrections.apply(candidate);
    if (candidate.verdict == Verdict::Estimated)
      return false;
  }
  candidate.whole = whole->step;
  refuseSize(question, candidate, describeMemory(whole->memory));
  return false;
}

namespace {
/// Estimates candidates again from large samples if a framework runs them: its host bounds the time of many steps, and
/// small samples tell that badly.
class Refiner {
public:
  explicit Refiner(ParallelSearch &search)
      : search(search),
        estimator(search.question.source, search.question.options, search.question.request.world, SampleSize::Large) {}

  /// Estimates the nearest until the first `count` are known closely.
  void refine(MutableArrayRef<Candidate> candidates, size_t count);
  /// Estimates one. It takes the fastest of the orders that are compared in whole plans.
  void refineOne(Candidate &one);

private:
  ParallelSearch &search;
  StepEstimator estimator;
  std::set<const Candidate *> known;
};
} // namespace

void Refiner::refineOne(Candidate &one) {
  if (search.question.options.cluster->framework.empty())
    return;
  std::optional<double> seconds;
  for (const Candidate &order : getOrdersOf(search, one)) {
    std::string reason;
    std::optional<PipelineEstimate> step = estimator.estimate(order, reason);
    if (!step)
      return;
    seconds = std::min(seconds.value_or(step->seconds), step->seconds);
  }
  one.estimate.seconds = *seconds * one.secondsScale;
}

void Refiner::refine(MutableArrayRef<Candidate> candidates, size_t count) {
  if (search.question.options.cluster->framework.empty())
    return;
  while (!search.isStopped()) {
    SmallVector<Candidate *> nearest = sortBest(search.question, candidates);
    llvm::erase_if(nearest, [](const Candidate *one) { return one->verdict != Verdict::Estimated; });
    nearest.truncate(std::min(nearest.size(), count));
    llvm::erase_if(nearest, [&](const Candidate *one) { return !known.insert(one).second; });
    if (nearest.empty())
      return;
    search.visitAll("closer estimates", nearest.size(), [&](size_t index) { refineOne(*nearest[index]); });
  }
}

/// Drops those that are slower than what another search has found.
static void dropBeaten(const ParallelQuestion &question, SmallVectorImpl<Candidate *> &sorted) {
  if (double most = question.options.secondsToBeat; most > 0)
    llvm::erase_if(sorted, [&](Candidate *one) { return question.getCost(*one) > most; });
}

/// Compiles the nearest by estimate, then all that may be faster. Returns what their steps say of other estimates.
static Corrections compileFastest(ParallelSearch &search, Refiner &refiner, MutableArrayRef<Candidate> candidates) {
  constexpr size_t compared = 2;
  const ParallelQuestion &question = search.question;
  Corrections corrections;
  refiner.refine(candidates, compared);
  SmallVector<Candidate *> nearest = sortBest(question, candidates);
  dropBeaten(question, nearest);
  search.visitBest("whole plans", nearest, compared,
                   [&](Candidate &candidate) { return compileWhole(search, corrections, candidate); });
  while (!search.isStopped()) {
    corrections = Corrections(candidates);
    for (Candidate &one : candidates)
      if (one.verdict == Verdict::Estimated)
        corrections.apply(one);
    refiner.refine(candidates, compared);
    SmallVector<Candidate *> sorted = sortBest(question, candidates), faster;
    for (Candidate *candidate : sorted)
      if (candidate->verdict == Verdict::Estimated &&
          (sorted.front()->verdict == Verdict::Estimated ||
           question.getCost(*candidate) < question.getCost(*sorted.front())))
        faster.push_back(candidate);
    dropBeaten(question, faster);
    if (faster.empty())
      break;
    // The fastest of these may rule out the others.
    faster.truncate(std::min(faster.size(), compared));
    search.visitAll("whole plans that may be faster", faster.size(),
                    [&](size_t index) { compileWhole(search, corrections, *faster[index]); });
  }
  return corrections;
}

/// A candidate, and its estimate without room to spare.
using Fuller = std::pair<Candidate *, Candidate>;

/// Estimates again what may be faster without room to spare. The memory of a candidate that was compiled is known.
static std::vector<Fuller> estimateFuller(ParallelSearch &search, const Corrections &corrections,
                                          MutableArrayRef<Candidate> candidates) {
  std::vector<Fuller> fuller;
  for (Candidate &one : candidates) {
    bool mayBeTaken = one.verdict == Verdict::Compiled || one.verdict == Verdict::Estimated ||
                      (one.verdict == Verdict::TooLarge && search.question.fits(one.getBytes()));
    if (!one.memoryScale && mayBeTaken)
      fuller.emplace_back(&one, one);
  }
  search.visitAll("estimates that fill the memory", fuller.size(), [&](size_t index) {
    auto &[one, again] = fuller[index];
    again.memoryScale =
        one->whole.bytes > 0 ? static_cast<double>(one->whole.bytes) / static_cast<double>(one->estimate.bytes) : 1;
    again.whole = {};
    estimate(search, again);
    corrections.apply(again);
  });
  return fuller;
}

/// Leaves the nearest of the estimates without room to spare that are faster than what is known.
static void keepFaster(const ParallelQuestion &question, MutableArrayRef<Candidate> candidates,
                       std::vector<Fuller> &fuller, size_t count) {
  // A plan of the largest models takes seconds to compile.
  constexpr double leastGain = 1.01;
  SmallVector<Candidate *> sorted = sortBest(question, candidates);
  llvm::erase_if(fuller, [&](const Fuller &pair) {
    const auto &[one, again] = pair;
    bool isSame = one->verdict == Verdict::Compiled && describeOptions(*one) == describeOptions(again);
    bool isBeaten = question.options.secondsToBeat > 0 && question.getCost(again) > question.options.secondsToBeat;
    return again.verdict != Verdict::Estimated || isSame || isBeaten ||
           (!sorted.empty() && question.getCost(again) * leastGain > question.getCost(*sorted.front()));
  });
  llvm::stable_sort(fuller, [&](const Fuller &a, const Fuller &b) {
    return question.getCost(a.second) < question.getCost(b.second);
  });
  fuller.resize(std::min(fuller.size(), count));
}

/// Compiles the nearest of the estimates without room to spare, and takes those that are faster.
static void compileFuller(ParallelSearch &search, Refiner &refiner, const Corrections &corrections,
                          MutableArrayRef<Candidate> candidates) {
  constexpr size_t compared = 2, refined = 6;
  const ParallelQuestion &question = search.question;
  std::vector<Fuller> fuller = estimateFuller(search, corrections, candidates);
  keepFaster(question, candidates, fuller, refined);
  search.visitAll("closer estimates", fuller.size(), [&](size_t index) { refiner.refineOne(fuller[index].second); });
  keepFaster(question, candidates, fuller, compared);
  search.visitAll("plans that fill the memory", fuller.size(), [&](size_t index) {
    auto &[one, again] = fuller[index];
    if (compileWhole(search, corrections, again) &&
        (one->verdict == Verdict::TooLarge || question.getCost(again) < question.getCost(*one)))
      *one = std::move(again);
  });
}

void mlir::moe::compileNearest(ParallelSearch &search, MutableArrayRef<Candidate> candidates) {
  Refiner refiner(search);
  Corrections corrections = compileFastest(search, refiner, candidates);
  compileFuller(search, refiner, corrections, candidates);
}
