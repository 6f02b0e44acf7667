//===- ExplanationParallel.cpp - why groups were taken --------------------===//
#include "ExplanationParts.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

#include "moe/Dialect/Moe/IR/LoadBound.h"

using namespace mlir;
using namespace mlir::moe;

static bool isCompared(const Candidate &one) {
  return one.verdict == Verdict::Estimated || one.verdict == Verdict::Compiled || one.verdict == Verdict::Chosen;
}

template <class GetKey>
static SmallVector<const Candidate *> selectAndSort(ArrayRef<Candidate> all,
                                                    function_ref<bool(const Candidate &)> select, GetKey getKey) {
  SmallVector<const Candidate *> sorted;
  for (const Candidate &one : all)
    if (select(one))
      sorted.push_back(&one);
  llvm::stable_sort(sorted, [&](const Candidate *a, const Candidate *b) { return getKey(*a) < getKey(*b); });
  return sorted;
}

namespace {
/// Columns in which the rows of a table differ, besides their groups.
struct Columns {
  bool choices = false, context = false;
};
} // namespace

static void printRow(const Candidate &one, const std::optional<Margin> &margin, Columns columns,
                     llvm::raw_ostream &os) {
  constexpr double milli = 1e3, giga = 1e-9, tera = 1e-12;
  const ParallelAttr &groups = one.parallel;
  const StepFigures &whole = one.whole;
  auto number = [](int64_t value) { return static_cast<long long>(value); };
  const char *taken = one.verdict == Verdict::Chosen ? "*" : "", *near = isClose(margin, describe(one)) ? "~" : " ";
  os << llvm::format("%3s%s%3lld%5lld", taken, near, number(groups.getPp()), number(groups.getDp()));
  if (columns.context)
    os << llvm::format("%3lld", number(groups.getCp()));
  os << llvm::format("%3lld%5lld%4lld", number(groups.getMp()), number(groups.getEp()), number(groups.getEsp()))
     << llvm::format("%4lld%6lld", number(one.batch), number(one.microBatches))
     << llvm::format("%8s%8s%9.0f%8s", formatFigure(one.estimate.seconds * milli).c_str(),
                     formatFigure(whole.seconds * milli).c_str(), one.speed.tokensPerSecond,
                     formatFigure(one.speed.flopsPerSecond * tera).c_str())
     << llvm::format("%6s%8s%9s%8.3f\n", formatShare(one.speed.mfu, one.speed.mfu > 0 ? 1 : 0).c_str(),
                     formatShare(whole.parts.bubble, whole.seconds).c_str(),
                     formatShare(whole.parts.exposedCommunication, whole.seconds).c_str(),
                     static_cast<double>(one.getBytes()) * giga);
  if (columns.choices)
    os << "       " << describeChoices(one) << "\n";
}

static void printFastest(const GroupsExplanation &explanation, llvm::raw_ostream &os) {
  auto sorted = selectAndSort(explanation.candidates, isCompared, [&](const Candidate &one) {
    double cost = explanation.objective == Objective::StepTime ? one.getStepSeconds() : one.secondsPerSequence;
    // Compiled steps come first, since the others are only estimates.
    return std::pair(one.whole.seconds == 0, cost);
  });
  if (sorted.empty())
    return;
  ArrayRef<const Candidate *> rows = ArrayRef(sorted).take_front(kShownRows);
  Columns columns;
  for (const Candidate *one : rows) {
    columns.choices |= describeChoices(*one) != describeChoices(*rows.front());
    columns.context |= one->parallel.getCp() > 1;
  }
  const auto *taken = llvm::find_if(sorted, [](const Candidate *one) { return one->verdict == Verdict::Chosen; });
  if (taken != sorted.end())
    os << "taken: " << describe((*taken)->parallel) << "\n";
  os << "\nthe best by " << getName(explanation.objective) << " (* taken, ~ within the figures' uncertainty)";
  if (!columns.choices)
    os << ", all in " << describeChoices(*rows.front());
  os << ":\n      pp   dp" << (columns.context ? " cp" : "")
     << " mp   ep esp mbs micro  est ms step ms tokens/s TFLOP/s  MFU% bubble% exposed%      GB\n";
  for (const Candidate *one : rows)
    printRow(*one, explanation.margin, columns, os);
  os << "mbs is the sequences of a micro-batch, micro the micro-batches of a step. A step is estimated (est)\n"
        "or compiled as a whole. Tokens, FLOPs and GB are those of one device. The bubble and exposed\n"
        "communication are shares of a compiled step.\n";
}

/// Prints the gain of the pipeline's order, and the communication that it hides.
static void printOrderGain(const GroupsExplanation &explanation, llvm::raw_ostream &os) {
  ArrayRef<Candidate> all = explanation.candidates;
  const auto *taken = llvm::find_if(all, [](const Candidate &one) { return one.verdict == Verdict::Chosen; });
  if (!explanation.timesWithoutOverlap || taken == all.end())
    return;
  const StepParts &parts = taken->whole.parts;
  std::string order = getName(taken->pipelineOrder).str();
  os << llvm::format("\noverlap: in 1f1b the same step takes %.2f times as long as in %s, by the estimates.\n",
                     *explanation.timesWithoutOverlap, order.c_str());
  if (double seconds = taken->whole.seconds; seconds > 0 && parts.getSum() > 0)
    os << llvm::format("%s hides %.0f%% of the communication. Computation alone takes %.1f ms, %.1f%% of the\n"
                       "step: no other order of the same work takes less.\n",
                       order.c_str(), 100 * parts.getHiddenShare(), parts.compute * 1e3, 100 * parts.compute / seconds);
}

/// Prints each reason once, with the number of its candidates and the first of them.
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
  for (const Candidate *one : ArrayRef(sorted).take_front(kShownRows))
    os << "     " << describe(one->parallel) << ": " << one->reason << "\n";
  if (sorted.size() > kShownRows)
    os << "     and " << sorted.size() - kShownRows << " more\n";
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
  printOrderGain(explanation, os);
  printIllegal(all, os);
  printTooLarge(all, os);
  os << "\n";
}

std::string mlir::moe::describeRoom(const PlanExplanation &explanation) {
  std::string text = explanation.defaultLoad;
  const std::optional<GroupsExplanation> &groups = explanation.groups;
  if (text.empty() || !groups)
    return text;
  llvm::raw_string_ostream os(text);
  if (groups->furtherPasses)
    os << llvm::format(". With synthetic routing, balanced as the model's, %.1f%% of layers need further passes",
                       *groups->furtherPasses * 100);
  if (groups->refusedLoad)
    os << llvm::format(". Nothing fits with room for %g times", *groups->refusedLoad);
  if (groups->largestLoad)
    os << llvm::format(". The memory is enough for %g times, too", *groups->largestLoad);
  for (const Candidate &less : groups->withLessRoom)
    os << llvm::format(". With room for %g times a step may take %.1f ms: ", *less.maxLoad, less.getStepSeconds() * 1e3)
       << describeOptions(less);
  return text;
}
