//===- ParallelEstimates.cpp - groups of whole models, from samples -------===//
#include "ParallelSearch.h"
#include "Threads.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

#include "moe/Compiler/Schedule.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

/// How many times as much memory as estimated is taken to be needed: where nothing like it was compiled, and where its
/// estimate is already that many times as large as a compiled step was.
static constexpr double kMemoryMargin = 1.03, kKnownMemoryMargin = 1.005;

/// How much of the exchanges windows hide depends on all of it.
ParallelSearch::Kind ParallelSearch::getKind(const Candidate &one) {
  ParallelAttr all = one.parallel;
  return {one.pipelineOrder, one.recompute, all.getCp(), all.getMp(), all.getEp() * all.getEsp()};
}

bool ParallelSearch::mayFit(const Candidate &candidate) const {
  double margin = candidate.memoryScale ? kKnownMemoryMargin : kMemoryMargin;
  return fits(static_cast<int64_t>(margin * static_cast<double>(candidate.estimate.bytes)));
}

//===----------------------------------------------------------------------===//
// Estimates
//===----------------------------------------------------------------------===//

/// Takes `one`, with what is estimated of it, for `best` if it is better: it fits and is faster, or needs less. Whether
/// it fits.
bool ParallelSearch::compare(Candidate one, std::optional<Candidate> &best, std::string &reason,
                             std::optional<int64_t> roughDp) {
  std::string why;
  std::optional<PipelineEstimate> step = estimator->estimate(one, why, roughDp);
  if (reason.empty())
    reason = why;
  if (!step)
    return false;
  one.estimate.seconds = step->seconds;
  one.secondsScale = 1;
  one.stageBoundaries = step->stageBoundaries;
  one.estimate.bytes = static_cast<int64_t>(step->bytes * one.memoryScale.value_or(1));
  bool isFitting = mayFit(one);
  takeBetter(std::move(one), best);
  return isFitting;
}

void ParallelSearch::takeBetter(Candidate one, std::optional<Candidate> &best) const {
  auto rank = [&](const Candidate &other) {
    return std::pair(mayFit(other) ? 0 : other.estimate.bytes, other.estimate.seconds);
  };
  if (!best || rank(one) < rank(*best))
    best = std::move(one);
}

/// Of groups that differ in pp alone, as if all had many data-parallel ranks: fewer ranks divide the optimizer's states
/// among fewer, so that they need more memory.
void ParallelSearch::roughlyEstimate(MutableArrayRef<Candidate *> alike) {
  // More ranks than that hold little less each, and take as long to add gradients up.
  int64_t dp = limitDp(alike.front()->parallel, /*most=*/64);
  ArrayRef<Recompute> recomputes = request.space.recomputes;
  for (Candidate *candidate : alike) {
    std::optional<Candidate> best;
    std::string reason;
    // The schedules are compared with what needs the least memory. The baseline, which comes first, computes each token
    // on all members of mp: it is tried where no other one can be.
    SmallVector<std::string> schedules = getSchedules(candidate->parallel);
    bool computesTwice = candidate->parallel.getMp() > 1 && schedules.size() > 1;
    for (const std::string &schedule : ArrayRef(schedules).drop_front(computesTwice))
      compareAll(*candidate, schedule, recomputes.back(), best, reason, dp);
    if (!best)
      compareAll(*candidate, schedules.front(), recomputes.back(), best, reason, dp);
    if (best && recomputes.size() > 1)
      compareAll(*candidate, best->schedule, recomputes.front(), best, reason, dp);
    if (!best) {
      refuse(*candidate, Verdict::Illegal, reason);
      continue;
    }
    if (int64_t most = *llvm::max_element(request.space.zeros); !mayFit(*best) && most > best->zero) {
      Candidate one = *best;
      one.zero = most;
      compareAll(one, one.schedule, recomputes.back(), best, reason, dp);
    }
    *candidate = *best;
    refuse(*candidate, Verdict::Slower, "by a rough estimate");
    if (!mayFit(*candidate))
      refuseSize(*candidate, "by a rough estimate that leaves out some of the optimizer's states");
    noteBest(*candidate);
  }
}

void ParallelSearch::roughlyEstimateAll() {
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
  visitAll("rough estimates", groups.size(), [&](size_t index) { roughlyEstimate(groups[index]); });
}

/// `like` in a schedule, in each order that is estimated and with each number of stages of a device that can be.
/// Whether all fit.
bool ParallelSearch::compareAll(Candidate like, StringRef schedule, Recompute recompute, std::optional<Candidate> &best,
                                std::string &reason, std::optional<int64_t> roughDp) {
  like.schedule = schedule.str();
  like.recompute = recompute;
  bool allFit = true;
  for (PipelineOrder order : getEstimatedOrders(like))
    for (int64_t interleave : getInterleaves(like, order)) {
      like.pipelineOrder = order;
      like.interleave = interleave;
      allFit &= compare(like, best, reason, roughDp);
    }
  return allFit;
}

/// `like` with ever less kept for the backward, as long as that may make it fit: it makes no step faster. Whether all
/// fit that keep the most.
bool ParallelSearch::compareRecomputes(Candidate like, std::optional<Candidate> &best, std::string &reason) {
  ArrayRef<Recompute> recomputes = request.space.recomputes;
  if (compareAll(like, like.schedule, recomputes.front(), best, reason))
    return true;
  for (Recompute recompute : recomputes.drop_front())
    if (compareAll(like, like.schedule, recompute, best, reason))
      break;
  return false;
}

/// Larger micro-batches than `best` has, while they are better. Each keeps for the backward as much as fits: else a
/// small one that recomputes a block would be compared with a large one that does so, where it need not.
void ParallelSearch::compareBatches(std::optional<Candidate> &best, std::string &reason) {
  if (request.space.batches.back() > best->batch)
    compareFinerRecompute(best, reason);
  for (int64_t batch : request.space.batches) {
    if (batch <= best->batch)
      continue;
    Candidate one = *best;
    setBatch(one, batch);
    if (one.verdict == Verdict::Illegal)
      return;
    std::optional<Candidate> larger;
    compareRecomputes(one, larger, reason);
    if (!larger)
      return;
    compareFinerRecompute(larger, reason);
    takeBetter(std::move(*larger), best);
    if (best->batch != batch)
      return;
  }
}

/// Levels that keep more than `best` does and lie between two that were compared, as long as they are better.
void ParallelSearch::compareFinerRecompute(std::optional<Candidate> &best, std::string &reason) {
  ArrayRef<Recompute> compared = request.space.recomputes;
  while (best->recompute != compared.front()) {
    auto finer = static_cast<Recompute>(static_cast<int>(best->recompute) - 1);
    if (llvm::is_contained(compared, finer))
      return;
    compareAll(*best, best->schedule, finer, best, reason);
    if (best->recompute != finer)
      return;
  }
}

/// The fastest that fits. What the request leaves open is varied in turn, each from the best of what was varied before.
void ParallelSearch::estimate(Candidate &candidate) {
  std::optional<Candidate> best;
  std::string reason;
  const StepSpace &space = request.space;
  candidate.verdict = Verdict::Skipped;
  SmallVector<std::string> schedules = getSchedules(candidate.parallel);
  if (candidate.schedule.empty())
    candidate.schedule = schedules.front();
  compareRecomputes(candidate, best, reason);
  for (const std::string &schedule : schedules)
    if (schedule != candidate.schedule)
      compareAll(best ? *best : candidate, schedule, best ? best->recompute : space.recomputes.back(), best, reason);
  if (!best)
    return refuse(candidate, Verdict::Illegal, reason);
  compareBatches(best, reason);
  // In a pipeline a device has few of the parameters, and exchanges them in each of many micro-batches.
  auto isRoomShort = [&] {
    bool isPipeline = candidate.parallel.getPp() > 1;
    return !mayFit(*best) || (!isPipeline && best->recompute != space.recomputes.front());
  };
  for (int64_t zero : ArrayRef(space.zeros).drop_front()) {
    // They exchange more than ZeRO-1 does, so that they can only pay where they make room.
    if (zero >= 2 && !isRoomShort())
      continue;
    Candidate one = *best;
    one.zero = zero;
    if (zero < 2)
      compare(one, best, reason);
    else if (compareRecomputes(one, best, reason))
      break;
  }
  bool isSwitched = false;
  visitChoices([&](auto member, const ChoiceInfo &info) {
    if constexpr (std::is_same_v<decltype(member), bool StepChoice::*>) {
      if (!llvm::is_contained(space.flags, member) || (info.hasEffect && !info.hasEffect(candidate.parallel)))
        return;
      Candidate one = *best;
      one.*member = true;
      compare(one, best, reason);
      isSwitched |= (*best).*member != candidate.*member;
    }
  });
  // Less memory is needed now, perhaps, so that more may be kept.
  if (isSwitched)
    compareRecomputes(*best, best, reason);
  compareFinerRecompute(best, reason);
  candidate = std::move(*best);
  refuse(candidate, Verdict::Estimated, "");
  if (!mayFit(candidate))
    refuseSize(candidate, "by samples, which leave out about 3% for gaps between buffers");
  noteBest(candidate);
}

/// Closer estimates in the order of the rough ones, until enough fit.
void ParallelSearch::estimateNearest() {
  constexpr size_t enough = 24;
  SmallVector<Candidate *> sorted;
  for (Candidate &candidate : candidates)
    if (candidate.verdict == Verdict::Slower)
      sorted.push_back(&candidate);
  llvm::stable_sort(sorted, [&](Candidate *a, Candidate *b) { return getCost(*a) < getCost(*b); });
  visitBest("estimates that fit", sorted, enough, [&](Candidate &candidate) {
    estimate(candidate);
    return candidate.verdict == Verdict::Estimated;
  });
}

/// As many stages on a device as the candidate's order needs, and where they begin; false where that cannot be.
bool ParallelSearch::setStages(Candidate &candidate) {
  int64_t pp = candidate.parallel.getPp();
  std::optional<int64_t> needed = getStagesPerDevice(candidate.pipelineOrder);
  if (needed && *needed != candidate.interleave) {
    candidate.interleave = *needed;
    // It is estimated as 1F1B.
    PipelineShape estimated{pp, pp * *needed, candidate.microBatches, options.train};
    std::string reason;
    std::optional<PipelineEstimate> step;
    if (describeMistake(estimated).empty())
      step = estimator->estimate(candidate, reason);
    if (!step)
      return false;
    candidate.stageBoundaries = step->stageBoundaries;
  }
  return describeMistake(candidate.getPipelineShape(options.train)).empty();
}

/// `asked` in the order of the estimates, and in those that are not estimated. On one device these are windows of a
/// forward and a backward, and two micro-batches side by side.
std::vector<Candidate> ParallelSearch::getOrdersOf(const Candidate &asked) {
  std::vector<Candidate> all = {asked};
  bool isAlone = asked.parallel.getPp() == 1;
  auto isOpen = [&](PipelineOrder order) {
    return isAlone ? order == PipelineOrder::Overlapped1F1B && asked.microBatches > 1 : !isEstimated(order);
  };
  for (PipelineOrder order : request.space.pipelineOrders)
    if (isOpen(order) && order != asked.pipelineOrder) {
      all.push_back(asked);
      all.back().pipelineOrder = order;
      if (!setStages(all.back()))
        all.pop_back();
    }
  if (isAlone && request.space.mayBeSideBySide && asked.sideBySide == 1 && asked.microBatches % 2 == 0) {
    all.push_back(asked);
    all.back().sideBySide = 2;
  }
  return all;
}

/// In the fastest of the open orders that fits or, where none does, in that of the least bytes.
std::optional<WholeModel> ParallelSearch::measureOrders(Candidate &candidate, std::string &reason) {
  std::optional<WholeModel> best;
  auto rank = [&](const WholeModel &whole) {
    return std::pair(fits(whole.step.bytes) ? 0 : whole.step.bytes, whole.step.seconds);
  };
  for (Candidate &one : getOrdersOf(candidate)) {
    std::string why;
    std::optional<WholeModel> whole = measureFilledModel(getReader(one), getOptions(one), /*limit=*/0, why);
    if (!whole && reason.empty())
      reason = why;
    if (!whole || (best && rank(*whole) >= rank(*best)))
      continue;
    best = std::move(whole);
    candidate = std::move(one);
  }
  return best;
}

/// Whether it can be, and fits. What needs more than was estimated is estimated again, with that much more: it may fit
/// with less kept for the backward.
bool ParallelSearch::compileWhole(Candidate &candidate) {
  std::string reason;
  std::optional<WholeModel> whole = measureOrders(candidate, reason);
  if (!whole) {
    refuse(candidate, Verdict::Illegal, reason);
    return false;
  }
  if (fits(whole->step.bytes)) {
    candidate.whole = whole->step;
    candidate.verdict = Verdict::Compiled;
    noteBest(candidate);
    return true;
  }
  if (whole->step.bytes > candidate.estimate.bytes) {
    candidate.memoryScale = candidate.memoryScale.value_or(1) * static_cast<double>(whole->step.bytes) /
                            static_cast<double>(candidate.estimate.bytes);
    estimate(candidate);
    correct(candidate);
    if (candidate.verdict == Verdict::Estimated)
      return false;
  }
  candidate.whole = whole->step;
  refuseSize(candidate, describeMemory(whole->memory));
  return false;
}

/// What is left out of the estimates of all compiled steps is left out of the others of their kind, too. Of a kind
/// without any, what is left out of all of its order is.
void ParallelSearch::correct(Candidate &one) const {
  double ratio = 1;
  if (auto own = ratios.find(getKind(one)); own != ratios.end())
    ratio = own->second;
  else if (auto like = orderRatios.find(one.pipelineOrder); like != orderRatios.end())
    ratio = like->second;
  ratio = std::max(1.0, ratio);
  one.estimate.seconds *= ratio / one.secondsScale;
  one.secondsScale = ratio;
}

void ParallelSearch::correctEstimates() {
  constexpr int64_t several = 2;
  std::map<PipelineOrder, int64_t> counts;
  ratios.clear();
  orderRatios.clear();
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
  for (Candidate &one : candidates)
    if (one.verdict == Verdict::Estimated)
      correct(one);
}

/// The nearest by estimate, then all that by their estimates may be faster than the fastest of these.
void ParallelSearch::compileNearest() {
  constexpr size_t compared = 2;
  visitBest("whole plans", sort(), compared, [&](Candidate &candidate) { return compileWhole(candidate); });
  while (!isStopped()) {
    correctEstimates();
    SmallVector<Candidate *> sorted = sort(), faster;
    for (Candidate *candidate : sorted)
      if (candidate->verdict == Verdict::Estimated &&
          (sorted.front()->verdict == Verdict::Estimated || getCost(*candidate) < getCost(*sorted.front())))
        faster.push_back(candidate);
    if (faster.empty())
      return;
    // The fastest of these may rule out the others.
    faster.truncate(std::min(faster.size(), compared));
    visitAll("whole plans that may be faster", faster.size(), [&](size_t index) { compileWhole(*faster[index]); });
  }
}

/// Estimates were taken to fit with room to spare. What may be faster without it is compiled, too: where the candidate
/// was compiled before, how much memory it needs is known.
void ParallelSearch::compileFuller() {
  constexpr size_t compared = 2;
  // A plan of the largest models takes seconds to compile.
  constexpr double leastGain = 1.01;
  std::vector<std::pair<Candidate *, Candidate>> fuller;
  for (Candidate &one : candidates) {
    bool mayBeTaken = one.verdict == Verdict::Compiled || one.verdict == Verdict::Estimated ||
                      (one.verdict == Verdict::TooLarge && fits(one.getBytes()));
    if (!one.memoryScale && mayBeTaken)
      fuller.emplace_back(&one, one);
  }
  visitAll("estimates that fill the memory", fuller.size(), [&](size_t index) {
    auto &[one, again] = fuller[index];
    again.memoryScale =
        one->whole.bytes > 0 ? static_cast<double>(one->whole.bytes) / static_cast<double>(one->estimate.bytes) : 1;
    again.whole = {};
    estimate(again);
    correct(again);
  });
  SmallVector<Candidate *> sorted = sort();
  llvm::erase_if(fuller, [&](const auto &pair) {
    const auto &[one, again] = pair;
    bool isSame = one->verdict == Verdict::Compiled && describeOptions(*one) == describeOptions(again);
    return again.verdict != Verdict::Estimated || isSame ||
           (!sorted.empty() && getCost(again) * leastGain > getCost(*sorted.front()));
  });
  llvm::stable_sort(fuller, [&](const auto &a, const auto &b) { return getCost(a.second) < getCost(b.second); });
  fuller.resize(std::min(fuller.size(), compared));
  visitAll("plans that fill the memory", fuller.size(), [&](size_t index) {
    auto &[one, again] = fuller[index];
    if (compileWhole(again) && (one->verdict == Verdict::TooLarge || getCost(again) < getCost(*one)))
      *one = std::move(again);
  });
}

/// What `best` gains by windows of two micro-batches: beside the fastest 1F1B that is otherwise the same, whether or
/// not it fits.
void ParallelSearch::weighOverlap(const Candidate &best) {
  if (!isSampled() || best.parallel.getPp() == 1 || !isOverlapped(best.pipelineOrder))
    return;
  std::optional<double> least;
  Candidate one = best;
  one.pipelineOrder = PipelineOrder::OneForwardOneBackward;
  for (int64_t interleave : getInterleaves(one, one.pipelineOrder)) {
    one.interleave = interleave;
    std::string reason;
    if (std::optional<PipelineEstimate> step = estimator->estimate(one, reason))
      least = std::min(least.value_or(HUGE_VAL), step->seconds);
  }
  std::string reason;
  std::optional<PipelineEstimate> own = estimator->estimate(best, reason);
  if (own && least)
    timesWithoutOverlap = *least / own->seconds;
}

//===----------------------------------------------------------------------===//
// Room for dropless rows
//===----------------------------------------------------------------------===//

/// Bounds that a plan may have memory for beyond its own.
static constexpr double kLargerLoads[] = {2, 3, 4, 6, 8};

/// What more room than `best` has would take, and whether less would be faster.
void ParallelSearch::weighRoom(const Candidate &best) {
  // Where each rank has all experts, rows are as many as are chosen.
  if (!isSampled() || maxLoads.empty() || best.parallel.getEp() == 1)
    return;
  if (!rankLoads.empty())
    furtherPasses = getFurtherPasses(*best.maxLoad, best.parallel);
  findLargestRoom(best);
  findFasterWithLessRoom(best);
}

void ParallelSearch::findLargestRoom(const Candidate &best) {
  // The bytes that the estimate leaves out are the same with any room. The candidate's estimate may be scaled already.
  double scale =
      best.memoryScale.value_or(1) * static_cast<double>(best.getBytes()) / static_cast<double>(best.estimate.bytes);
  for (double load : kLargerLoads) {
    if (load <= *best.maxLoad)
      continue;
    Candidate one = best;
    one.maxLoad = load;
    std::string reason;
    std::optional<PipelineEstimate> step;
    if (!isStopped())
      step = estimator->estimate(one, reason);
    if (!step || !fits(static_cast<int64_t>(scale * step->bytes)))
      return;
    largestLoad = load;
  }
}

/// With the next smaller bound.
void ParallelSearch::findFasterWithLessRoom(const Candidate &best) {
  const double *load = llvm::upper_bound(maxLoads, *best.maxLoad, std::greater<>());
  if (load == maxLoads.end())
    return;
  // Those that may be faster: that took too much memory, or had to save some.
  constexpr size_t compared = 4;
  std::vector<Candidate> nearest;
  for (const Candidate &one : candidates)
    if (one.estimate.seconds > 0 && getCost(one) <= getCost(best) &&
        (one.verdict == Verdict::TooLarge || &one == &best))
      nearest.push_back(one);
  llvm::stable_sort(nearest, [](const Candidate &a, const Candidate &b) { return a.getBytes() < b.getBytes(); });
  nearest.resize(std::min(nearest.size(), compared));
  visitAll("groups with less room for rows", nearest.size(), [&](size_t index) {
    Candidate &one = nearest[index];
    one.maxLoad = *load;
    one.whole = {};
    estimate(one);
  });
  for (const Candidate &one : nearest)
    // A gain within the estimates' error is none.
    if (one.verdict == Verdict::Estimated && getCost(one) * (1 + kEstimateError) < getCost(best) &&
        (withLessRoom.empty() || getCost(one) < getCost(withLessRoom.front())))
      withLessRoom = {one};
}
