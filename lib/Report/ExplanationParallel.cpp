//===- ExplanationParallel.cpp - why groups were taken --------------------===//
#include "ExplanationParts.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::moe;

static constexpr size_t shown = 10;

static bool isCompared(const Candidate &one) {
  return one.verdict == Verdict::Estimated || one.verdict == Verdict::Compiled || one.verdict == Verdict::Chosen;
}

static SmallVector<const Candidate *> selectAndSort(ArrayRef<Candidate> all,
                                                    function_ref<bool(const Candidate &)> select,
                                                    function_ref<double(const Candidate &)> getKey) {
  SmallVector<const Candidate *> sorted;
  for (const Candidate &one : all)
    if (select(one))
      sorted.push_back(&one);
  llvm::stable_sort(sorted, [&](const Candidate *a, const Candidate *b) { return getKey(*a) < getKey(*b); });
  return sorted;
}

static void printFastest(const GroupsExplanation &explanation, llvm::raw_ostream &os) {
  auto sorted = selectAndSort(explanation.candidates, isCompared, [&](const Candidate &one) {
    return explanation.objective == Objective::StepTime ? one.getStepSeconds() : one.secondsPerSequence;
  });
  os << "\nthe best by " << getName(explanation.objective)
     << " (* taken, ~ within the profile's uncertainty; a step is one that was compiled as a whole, in ms, beside its "
        "estimate; tokens a second and "
        "device):\n"
     << "     groups                              batch  micro   estimate       step  memory GB  ms/sequence     "
        "tokens  "
        "schedule\n";
  for (const Candidate *one : ArrayRef(sorted).take_front(shown)) {
    std::string step = "-", groups = describe(one->parallel);
    if (one->whole.seconds > 0)
      step = llvm::formatv("{0:F3}", one->whole.seconds * 1e3);
    const char *taken = one->verdict == Verdict::Chosen ? "*" : "",
               *near = isClose(explanation.margin, groups) ? "~" : " ";
    os << llvm::format("%3s%s %-34s %6lld %6lld %10.3f %10s %10.3f %12.4f %10.0f  ", taken, near, groups.c_str(),
                       static_cast<long long>(one->batch), static_cast<long long>(one->microBatches),
                       one->estimate.seconds * 1e3, step.c_str(), static_cast<double>(one->getBytes()) / 1e9,
                       one->secondsPerSequence * 1e3, one->speed.tokensPerSecond)
       << one->schedule << "\n";
  }
}

/// Reasons that hold for many once, with how many and the first.
static void printIllegal(ArrayRef<Candidate> all, llvm::raw_ostream &os) {
  llvm::MapVector<StringRef, SmallVector<const Candidate *>> reasons;
  for (const Candidate &one : all)
    if (one.verdict == Verdict::Illegal)
      reasons[one.reason].push_back(&one);
  if (!reasons.empty())
    os << "\nillegal:\n";
  for (const auto &[reason, groups] : reasons) {
    os << "     " << describe(groups.front()->parallel);
    if (groups.size() > 1)
      os << " and " << groups.size() - 1 << " more";
    os << ":\n       " << reason << "\n";
  }
}

static void printTooLarge(ArrayRef<Candidate> all, llvm::raw_ostream &os) {
  auto sorted = selectAndSort(
      all, [](const Candidate &one) { return one.verdict == Verdict::TooLarge; },
      [](const Candidate &one) { return static_cast<double>(one.getBytes()); });
  if (!sorted.empty())
    os << "\ntoo large, the smallest first:\n";
  for (const Candidate *one : ArrayRef(sorted).take_front(shown))
    os << "     " << describe(one->parallel) << ": " << one->reason << "\n";
  if (sorted.size() > shown)
    os << "     and " << sorted.size() - shown << " more\n";
}

void mlir::moe::printGroups(const GroupsExplanation &explanation, llvm::raw_ostream &os) {
  const std::vector<Candidate> &all = explanation.candidates;
  auto count = [&](Verdict verdict) {
    return llvm::count_if(all, [&](const Candidate &one) { return one.verdict == verdict; });
  };
  os << "groups chosen from: " << all.size() << ", of which " << count(Verdict::Illegal) << " illegal, "
     << count(Verdict::TooLarge) << " too large, " << count(Verdict::Slower) << " slower by a rough estimate\n";
  if (!explanation.isComplete) {
    os << "the search was interrupted";
    if (auto left = count(Verdict::Skipped))
      os << ", with " << left << " left";
    os << ": this is the best so far\n";
  }
  printFastest(explanation, os);
  printMargin(explanation.margin, /*isOpen=*/false, os);
  printIllegal(all, os);
  printTooLarge(all, os);
  os << "\n";
}
