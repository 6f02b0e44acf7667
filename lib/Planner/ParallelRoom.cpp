//===- ParallelRoom.cpp - what a choice of groups depends on --------------===//
#include "ParallelSearch.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

/// Bounds beyond its own that a plan may have memory for.
static constexpr double kLargerLoads[] = {2, 3, 4, 6, 8};

/// The most room that the memory of `best` is enough for; none beyond its own.
static std::optional<double> findLargestRoom(ParallelSearch &search, const Candidate &best) {
  // The bytes that the estimate leaves out are the same with any room. The candidate's estimate may be scaled already.
  double scale =
      best.memoryScale.value_or(1) * static_cast<double>(best.getBytes()) / static_cast<double>(best.estimate.bytes);
  std::optional<double> largest;
  for (double load : kLargerLoads) {
    if (load <= *best.maxLoad)
      continue;
    Candidate one = best;
    one.maxLoad = load;
    std::string reason;
    std::optional<PipelineEstimate> step;
    if (!search.isStopped())
      step = search.estimator->estimate(one, reason);
    if (!step || !search.question.fits(static_cast<int64_t>(scale * step->bytes)))
      break;
    largest = load;
  }
  return largest;
}

/// The fastest with the next smaller bound; empty if it is not faster than `best`.
static std::vector<Candidate> findFasterWithLessRoom(ParallelSearch &search, const Candidate &best,
                                                     ArrayRef<double> maxLoads, ArrayRef<Candidate> candidates) {
  const ParallelQuestion &question = search.question;
  const double *load = llvm::upper_bound(maxLoads, *best.maxLoad, std::greater<>());
  if (load == maxLoads.end())
    return {};
  // Candidates that took too much memory, or had to save some, may be faster.
  constexpr size_t compared = 4;
  std::vector<Candidate> nearest;
  for (const Candidate &one : candidates)
    if (one.estimate.seconds > 0 && question.getCost(one) <= question.getCost(best) &&
        (one.verdict == Verdict::TooLarge || &one == &best))
      nearest.push_back(one);
  llvm::stable_sort(nearest, [](const Candidate &a, const Candidate &b) { return a.getBytes() < b.getBytes(); });
  nearest.resize(std::min(nearest.size(), compared));
  search.visitAll("groups with less room for rows", nearest.size(), [&](size_t index) {
    Candidate &one = nearest[index];
    one.maxLoad = *load;
    one.whole = {};
    estimate(search, one);
  });
  std::vector<Candidate> fastest;
  for (const Candidate &one : nearest)
    // A gain within the estimates' error is none.
    if (one.verdict == Verdict::Estimated && question.getCost(one) * (1 + kEstimateError) < question.getCost(best) &&
        (fastest.empty() || question.getCost(one) < question.getCost(fastest.front())))
      fastest = {one};
  return fastest;
}

void mlir::moe::explainRoom(ParallelSearch &search, const Candidate &best, ArrayRef<double> maxLoads,
                            GroupsExplanation &explanation) {
  // A rank with all experts has as many rows as are chosen.
  if (!search.question.isSampled() || maxLoads.empty() || best.parallel.getEp() == 1)
    return;
  if (!search.question.rankLoads.empty())
    explanation.furtherPasses = getFurtherPasses(search.question, *best.maxLoad, best.parallel);
  explanation.largestLoad = findLargestRoom(search, best);
  explanation.withLessRoom = findFasterWithLessRoom(search, best, maxLoads, explanation.candidates);
}

void mlir::moe::explainOverlap(ParallelSearch &search, const Candidate &best, GroupsExplanation &explanation) {
  if (!search.question.isSampled() || best.parallel.getPp() == 1 || !isOverlapped(best.pipelineOrder))
    return;
  std::optional<double> least;
  Candidate one = best;
  one.pipelineOrder = PipelineOrder::OneForwardOneBackward;
  for (int64_t interleave : getInterleaves(search.question, one, one.pipelineOrder)) {
    one.interleave = interleave;
    std::string reason;
    if (std::optional<PipelineEstimate> step = search.estimator->estimate(one, reason))
      least = std::min(least.value_or(HUGE_VAL), step->seconds);
  }
  std::string reason;
  std::optional<PipelineEstimate> own = search.estimator->estimate(best, reason);
  if (own && least)
    explanation.timesWithoutOverlap = *least / own->seconds;
}
