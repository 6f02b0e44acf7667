//===- ParallelEstimates.cpp - groups of whole models, from samples -------===//
#include "ParallelSearch.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::moe;

/// Factors on estimated memory: of a candidate unlike all compiled ones, and of one that is scaled to a compiled step.
static constexpr double kMemoryMargin = 1.03, kKnownMemoryMargin = 1.005;

static double getMemoryMargin(const Candidate &candidate) {
  return candidate.memoryScale ? kKnownMemoryMargin : kMemoryMargin;
}

/// Whether an estimate fits, with room for gaps between buffers.
static bool mayFit(const ParallelQuestion &question, const Candidate &candidate) {
  return question.fits(
      static_cast<int64_t>(getMemoryMargin(candidate) * static_cast<double>(candidate.estimate.bytes)));
}

/// The open orders that estimates tell apart; at least one.
static SmallVector<PipelineOrder> getEstimatedOrders(const ParallelQuestion &question, const Candidate &candidate) {
  ArrayRef<PipelineOrder> all = question.request.space.pipelineOrders;
  if (candidate.parallel.getPp() == 1)
    return {all.front()};
  SmallVector<PipelineOrder> orders(llvm::make_filter_range(all, isEstimated));
  return orders.empty() ? SmallVector<PipelineOrder>{all.front()} : orders;
}

/// The open recomputation that keeps the least, of those that the rules allow in some open order.
static Recompute getCoarsest(const ParallelQuestion &question, Candidate like) {
  static constexpr StringRef open[] = {"interleave", "schedule", "zero"};
  ArrayRef<Recompute> all = question.request.space.recomputes;
  for (Recompute recompute : llvm::reverse(all))
    for (PipelineOrder order : question.request.space.pipelineOrders) {
      like.recompute = recompute;
      like.pipelineOrder = order;
      if (question.getBrokenRule(like, open).empty())
        return recompute;
    }
  return all.back();
}

//===----------------------------------------------------------------------===//
// Variants of a candidate
//===----------------------------------------------------------------------===//

namespace {
/// Estimates variants of a candidate, and keeps the best: the fastest that fits, otherwise the smallest.
class BestVariant {
public:
  /// With `roughDp`, estimates are rough: all that is done once is estimated on that many data-parallel ranks.
  explicit BestVariant(ParallelSearch &search, std::optional<int64_t> roughDp = std::nullopt)
      : search(search), question(search.question), space(search.question.request.space), roughDp(roughDp) {}

  std::optional<Candidate> best;
  std::string reason; ///< why the first that cannot be estimated cannot

  /// Compares `one` alone. Whether it fits, or breaks a rule, so that less memory would not help.
  bool compare(Candidate one);
  /// Compares `like` in each order that is estimated, and in all numbers of stages on a device. Whether all fit.
  bool compareAll(Candidate like, StringRef schedule, Recompute recompute);
  /// Compares `like` with ever less kept until it fits: that makes no step faster. Whether all fit that keep the most.
  bool compareRecomputes(const Candidate &like);
  /// Compares levels that keep more than the best does and lie between two that were compared, while they are better.
  void compareFinerRecompute();
  /// Compares larger micro-batches than the best has, while they are better.
  void compareBatches();
  /// Compares further stages of ZeRO.
  void compareZeros();
  /// Turns on each choice that may be on. Whether the best has one that `candidate` does not have.
  bool compareFlags(const Candidate &candidate);

private:
  void take(Candidate one);

  ParallelSearch &search;
  const ParallelQuestion &question;
  const StepSpace &space;
  std::optional<int64_t> roughDp;
};
} // namespace

void BestVariant::take(Candidate one) {
  auto rank = [&](const Candidate &other) {
    return PlanRank(mayFit(question, other) ? 0 : other.estimate.bytes, other.estimate.seconds);
  };
  if (!best || rank(one) < rank(*best))
    best = std::move(one);
}

bool BestVariant::compare(Candidate one) {
  std::string why = question.getBrokenRule(one);
  if (!why.empty()) {
    reason = reason.empty() ? why : reason;
    return true;
  }
  std::optional<PipelineEstimate> step = search.estimator->estimate(one, why, roughDp);
  if (reason.empty())
    reason = why;
  if (!step)
    return false;
  one.estimate.seconds = step->seconds;
  one.secondsScale = 1;
  one.stageBoundaries = step->stageBoundaries;
  one.estimate.bytes = static_cast<int64_t>(step->bytes * one.memoryScale.value_or(1));
  bool isFitting = mayFit(question, one);
  take(std::move(one));
  return isFitting;
}

bool BestVariant::compareAll(Candidate like, StringRef schedule, Recompute recompute) {
  like.schedule = schedule.str();
  like.recompute = recompute;
  bool allFit = true;
  for (PipelineOrder order : getEstimatedOrders(question, like))
    for (int64_t interleave : getInterleaves(question, like, order)) {
      like.pipelineOrder = order;
      like.interleave = interleave;
      allFit &= compare(like);
    }
  return allFit;
}

bool BestVariant::compareRecomputes(const Candidate &like) {
  if (compareAll(like, like.schedule, space.recomputes.front()))
    return true;
  for (Recompute recompute : ArrayRef(space.recomputes).drop_front())
    if (compareAll(like, like.schedule, recompute))
      break;
  return false;
}

void BestVariant::compareFinerRecompute() {
  while (best->recompute != space.recomputes.front()) {
    auto finer = static_cast<Recompute>(static_cast<int>(best->recompute) - 1);
    if (llvm::is_contained(space.recomputes, finer))
      return;
    compareAll(*best, best->schedule, finer);
    if (best->recompute != finer)
      return;
  }
}

void BestVariant::compareBatches() {
  // Candidates of each batch size recompute no more than memory requires, so that the comparison is fair.
  if (space.batches.back() > best->batch)
    compareFinerRecompute();
  for (int64_t batch : space.batches) {
    if (batch <= best->batch)
      continue;
    Candidate one = *best;
    setBatch(question, one, batch);
    if (one.verdict == Verdict::Illegal)
      return;
    BestVariant larger(search);
    larger.compareRecomputes(one);
    if (!larger.best)
      return;
    larger.compareFinerRecompute();
    take(std::move(*larger.best));
    if (best->batch != batch)
      return;
  }
}

void BestVariant::compareZeros() {
  // In a pipeline a device has few of the parameters, and exchanges them in each of many micro-batches.
  auto isRoomShort = [&] {
    bool isPipeline = best->parallel.getPp() > 1;
    return !mayFit(question, *best) || (!isPipeline && best->recompute != space.recomputes.front());
  };
  for (int64_t zero : ArrayRef(space.zeros).drop_front()) {
    // Stages 2 and 3 exchange more than stage 1, so that they pay only if they make room.
    if (zero >= 2 && !isRoomShort())
      continue;
    Candidate one = *best;
    one.zero = zero;
    if (zero < 2)
      compare(one);
    else if (compareRecomputes(one))
      break;
  }
}

bool BestVariant::compareFlags(const Candidate &candidate) {
  bool isSwitched = false;
  visitChoices([&](auto member, const ChoiceInfo &info) {
    if constexpr (std::is_same_v<decltype(member), bool StepChoice::*>) {
      if (!llvm::is_contained(space.flags, member) || (info.hasEffect && !info.hasEffect(candidate.parallel)))
        return;
      Candidate one = *best;
      one.*member = true;
      compare(one);
      isSwitched |= (*best).*member != candidate.*member;
    }
  });
  return isSwitched;
}

//===----------------------------------------------------------------------===//
// Rough estimates
//===----------------------------------------------------------------------===//

/// The best of `candidate` by a few rough comparisons.
static BestVariant compareRoughly(ParallelSearch &search, const Candidate &candidate, int64_t dp) {
  const StepSpace &space = search.question.request.space;
  BestVariant rough(search, dp);
  // Schedules are compared with what needs the least memory. The baseline comes first, and computes each token on all
  // members of mp: it is tried only if no other schedule is possible.
  SmallVector<std::string> schedules = getSchedules(search.question, candidate);
  bool computesTwice = candidate.parallel.getMp() > 1 && schedules.size() > 1 && schedules.front() == "baseline";
  Recompute coarsest = getCoarsest(search.question, candidate);
  for (const std::string &schedule : ArrayRef(schedules).drop_front(computesTwice))
    rough.compareAll(candidate, schedule, coarsest);
  if (!rough.best)
    rough.compareAll(candidate, schedules.front(), coarsest);
  if (rough.best && space.recomputes.size() > 1)
    rough.compareAll(candidate, rough.best->schedule, space.recomputes.front());
  int64_t most = *llvm::max_element(space.zeros);
  if (rough.best && !mayFit(search.question, *rough.best) && most > rough.best->zero) {
    Candidate one = *rough.best;
    one.zero = most;
    rough.compareAll(one, one.schedule, coarsest);
  }
  return rough;
}

/// Estimates candidates whose groups differ in pp alone, as if all had many data-parallel ranks to divide states among.
static void estimateRoughly(ParallelSearch &search, ArrayRef<Candidate *> alike) {
  // More ranks than that hold little less each, and take as long to add gradients up.
  int64_t dp = limitDp(alike.front()->parallel, /*most=*/64);
  for (Candidate *candidate : alike) {
    std::optional<BestVariant> rough = compareRoughly(search, *candidate, dp);
    // With ZeRO-2 and 3 more ranks hold much less each.
    if (rough->best && rough->best->zero >= 2 && candidate->parallel.getDp() > dp &&
        !mayFit(search.question, *rough->best))
      rough.emplace(compareRoughly(search, *candidate, candidate->parallel.getDp()));
    if (!rough->best) {
      refuse(*candidate, Verdict::Illegal, rough->reason);
      continue;
    }
    *candidate = *rough->best;
    refuse(*candidate, Verdict::Slower, "by a rough estimate");
    if (!mayFit(search.question, *candidate))
      refuseSize(search.question, *candidate, "by a rough estimate that leaves out some of the optimizer's states");
    search.noteBest(*candidate);
  }
}

static void estimateAllRoughly(ParallelSearch &search, MutableArrayRef<Candidate> candidates) {
  std::vector<SmallVector<Candidate *>> groups;
  llvm::StringMap<size_t> places;
  for (Candidate &candidate : candidates) {
    if (candidate.verdict == Verdict::Illegal)
      continue;
    ParallelAttr all = candidate.parallel;
    std::string name = llvm::formatv("{0} {1} {2} {3}", all.getCp(), all.getMp(), all.getEp(), all.getEsp());
    auto [place, isNew] = places.try_emplace(name, groups.size());
    if (isNew)
      groups.emplace_back();
    groups[place->second].push_back(&candidate);
  }
  search.visitAll("rough estimates", groups.size(), [&](size_t index) { estimateRoughly(search, groups[index]); });
}

//===----------------------------------------------------------------------===//
// Close estimates
//===----------------------------------------------------------------------===//

void mlir::moe::estimate(ParallelSearch &search, Candidate &candidate) {
  const ParallelQuestion &question = search.question;
  BestVariant close(search);
  candidate.verdict = Verdict::Skipped;
  SmallVector<std::string> schedules = getSchedules(question, candidate);
  if (candidate.schedule.empty())
    candidate.schedule = schedules.front();
  close.compareRecomputes(candidate);
  for (const std::string &schedule : schedules)
    if (schedule != candidate.schedule)
      close.compareAll(close.best ? *close.best : candidate, schedule,
                       close.best ? close.best->recompute : getCoarsest(question, candidate));
  if (!close.best)
    return refuse(candidate, Verdict::Illegal, close.reason);
  close.compareBatches();
  close.compareZeros();
  // The choices that are on may need less memory, so that more can be kept.
  if (close.compareFlags(candidate))
    close.compareRecomputes(*close.best);
  close.compareFinerRecompute();
  candidate = std::move(*close.best);
  refuse(candidate, Verdict::Estimated, "");
  if (!mayFit(question, candidate))
    refuseSize(
        question, candidate,
        llvm::formatv("by samples, with {0:f1}% for gaps between buffers", 100 * getMemoryMargin(candidate) - 100)
            .str(),
        getMemoryMargin(candidate));
  search.noteBest(candidate);
}

/// Estimates candidates closely in the order of the rough estimates, until enough fit.
static void estimateNearest(ParallelSearch &search, MutableArrayRef<Candidate> candidates) {
  constexpr size_t enough = 24;
  SmallVector<Candidate *> sorted;
  for (Candidate &candidate : candidates)
    if (candidate.verdict == Verdict::Slower)
      sorted.push_back(&candidate);
  const ParallelQuestion &question = search.question;
  llvm::stable_sort(sorted, [&](Candidate *a, Candidate *b) { return question.getCost(*a) < question.getCost(*b); });
  search.visitBest("estimates that fit", sorted, enough, [&](Candidate &candidate) {
    estimate(search, candidate);
    return candidate.verdict == Verdict::Estimated;
  });
}

/// Estimates the smallest closely where nothing fits: an error names it. The rough estimates so far are on other
/// data-parallel ranks, which hold other shares of the states.
static void estimateSmallest(ParallelSearch &search, MutableArrayRef<Candidate> candidates) {
  if (!sortBest(search.question, candidates).empty())
    return;
  search.visitAll("the smallest", candidates.size(), [&](size_t index) {
    Candidate &one = candidates[index];
    if (one.verdict != Verdict::TooLarge)
      return;
    one.estimate = {};
    if (BestVariant rough = compareRoughly(search, one, one.parallel.getDp()); rough.best)
      one.estimate = rough.best->estimate;
    refuseSize(search.question, one, "by a rough estimate");
  });
  constexpr size_t most = 8;
  llvm::SmallPtrSet<const Candidate *, most> close;
  while (!search.isStopped() && close.size() < most && sortBest(search.question, candidates).empty()) {
    const Candidate *smallest = findSmallest(candidates);
    if (!smallest || !close.insert(smallest).second)
      return;
    estimate(search, candidates[smallest - candidates.data()]);
  }
}

void mlir::moe::estimateCandidates(ParallelSearch &search, MutableArrayRef<Candidate> candidates) {
  estimateAllRoughly(search, candidates);
  estimateNearest(search, candidates);
  estimateSmallest(search, candidates);
}
