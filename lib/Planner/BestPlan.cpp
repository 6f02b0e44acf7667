//===- BestPlan.cpp - what the searches of the planner share --------------===//
#include "BestPlan.h"

#include "mlir/IR/Threading.h"
#include "llvm/Support/Format.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

using namespace mlir;
using namespace mlir::moe;

std::string mlir::moe::describeMemory(const ProgramMemory &memory) {
  std::string text;
  auto giga = [](int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  llvm::raw_string_ostream(text) << llvm::format(
      "%.1f GB parameters, %.1f GB gradients and states, %.1f GB values and arena", giga(memory.parameters),
      giga(memory.gradients + memory.states + memory.getOptimizerStates()), giga(memory.values + memory.arena));
  return text;
}

const Candidate *mlir::moe::findSmallest(ArrayRef<Candidate> candidates) {
  const Candidate *smallest = nullptr;
  for (const Candidate &candidate : candidates)
    if (candidate.verdict == Verdict::TooLarge && (!smallest || candidate.getBytes() < smallest->getBytes()))
      smallest = &candidate;
  return smallest;
}

std::optional<Margin> mlir::moe::getMargin(const Candidate &best, ArrayRef<Candidate> candidates,
                                           function_ref<bool(const Candidate &)> isCompared,
                                           function_ref<Choice(const Candidate &)> getChoice) {
  SmallVector<Choice> others;
  for (const Candidate &candidate : candidates)
    if (&candidate != &best && isCompared(candidate))
      others.push_back(getChoice(candidate));
  return getMargin(getChoice(best), std::move(others));
}

InFlightDiagnostic mlir::moe::emitNothingFound(MLIRContext *context, ArrayRef<Candidate> candidates,
                                               const NothingFound &search) {
  const Candidate *smallest = findSmallest(candidates);
  const auto *illegal = llvm::find_if(candidates, [](const Candidate &one) { return one.verdict == Verdict::Illegal; });
  std::string text = "no " + search.what;
  llvm::raw_string_ostream os(text);
  if (search.wasStopped) {
    os << ": the search was interrupted before it compared any" << (smallest ? " that fits" : "");
  } else if (smallest) {
    os << " with a plan of at most " << search.limit << " per rank: the smallest of " << search.count << " needs "
       << (search.showsBytes ? std::to_string(smallest->getBytes()) + " bytes" : "more") << ", that of "
       << search.getName(*smallest) << ": " << smallest->reason;
  } else {
    os << " is possible";
    if (illegal != candidates.end())
      os << "; " << search.getName(*illegal) << " is not: " << illegal->reason;
  }
  return emitError(UnknownLoc::get(context)) << text;
}

void mlir::moe::forAll(MLIRContext *context, size_t count, function_ref<void(size_t)> run) {
  parallelFor(context, 0, count, run);
#ifdef __GLIBC__
  // glibc keeps the memory that threads have freed: gigabytes with whole models.
  malloc_trim(0);
#endif
}

void mlir::moe::takeWhileFew(MLIRContext *context, size_t count, size_t enough, function_ref<bool(size_t)> isGood,
                             function_ref<bool(size_t)> goesOn) {
  constexpr size_t most = 4;
  size_t good = 0;
  for (size_t first = 0, few = 0; good < enough && first < count; first += few) {
    few = std::min({most, enough - good, count - first});
    SmallVector<char> areGood(few, false);
    forAll(context, few, [&](size_t index) { areGood[index] = isGood(first + index); });
    good += llvm::count(areGood, true);
    if (!goesOn(good))
      return;
  }
}
