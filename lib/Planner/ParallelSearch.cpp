//===- ParallelSearch.cpp - a search through groups under way -------------===//
#include "ParallelSearch.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::moe;

double ParallelQuestion::getSecondsPerSequence(const Candidate &candidate) const {
  int64_t ranks = source.isFixed ? 1 : candidate.batch * candidate.parallel.getDp();
  return candidate.getStepSeconds() / static_cast<double>(ranks * candidate.microBatches);
}

double ParallelQuestion::getCost(const Candidate &candidate) const {
  return request.objective == Objective::StepTime ? candidate.getStepSeconds() : getSecondsPerSequence(candidate);
}

void mlir::moe::refuse(Candidate &candidate, Verdict verdict, StringRef reason) {
  candidate.verdict = verdict;
  candidate.reason = reason.str();
}

void mlir::moe::refuseSize(const ParallelQuestion &question, Candidate &candidate, StringRef what, double margin) {
  std::string reason;
  llvm::raw_string_ostream(reason) << llvm::format("%.1f GB a rank, of %.1f GB; ",
                                                   margin * static_cast<double>(candidate.getBytes()) / 1e9,
                                                   static_cast<double>(question.limit) / 1e9)
                                   << what;
  refuse(candidate, Verdict::TooLarge, reason);
}

/// How little is known of a candidate: 0 for a compiled one; 3 if it cannot be taken.
static int64_t getDoubt(const Candidate &candidate) {
  static constexpr Verdict known[] = {Verdict::Compiled, Verdict::Estimated, Verdict::Slower};
  return llvm::find(known, candidate.verdict) - std::begin(known);
}

static std::pair<int64_t, double> getRank(const ParallelQuestion &question, const Candidate &one) {
  return {getDoubt(one), question.getCost(one)};
}

SmallVector<Candidate *> mlir::moe::sortBest(const ParallelQuestion &question, MutableArrayRef<Candidate> candidates) {
  SmallVector<Candidate *> sorted;
  for (Candidate &candidate : candidates)
    if (candidate.verdict == Verdict::Estimated || candidate.verdict == Verdict::Compiled)
      sorted.push_back(&candidate);
  llvm::stable_sort(sorted, [&](Candidate *a, Candidate *b) { return getRank(question, *a) < getRank(question, *b); });
  return sorted;
}

ParallelSearch::ParallelSearch(const ParallelQuestion &question) : question(question) {
  if (question.isSampled())
    estimator.emplace(question.source, question.options, question.request.world);
}

void ParallelSearch::noteBest(const Candidate &candidate) {
  std::lock_guard lock(mutex);
  if (getDoubt(candidate) < 3 && (!bestSoFar || getRank(question, candidate) < getRank(question, *bestSoFar)))
    bestSoFar = candidate;
}

void ParallelSearch::showProgress(StringRef phase, size_t done, size_t all) {
  std::lock_guard lock(mutex);
  if (question.request.showProgress)
    question.request.showProgress({phase, done, all, bestSoFar ? &*bestSoFar : nullptr});
}

void ParallelSearch::visitAll(StringRef phase, size_t count, function_ref<void(size_t)> run) {
  if (count == 0)
    return;
  std::atomic<size_t> done = 0;
  showProgress(phase, 0, count);
  forAll(question.context, count, [&](size_t index) {
    if (isStopped())
      return;
    run(index);
    showProgress(phase, ++done, count);
  });
}

void ParallelSearch::visitBest(StringRef phase, ArrayRef<Candidate *> sorted, size_t enough,
                               function_ref<bool(Candidate &)> isGood) {
  showProgress(phase, 0, enough);
  takeWhileFew(
      question.context, sorted.size(), enough, [&](size_t index) { return !isStopped() && isGood(*sorted[index]); },
      [&](size_t good) {
        showProgress(phase, good, enough);
        return !isStopped();
      });
}
