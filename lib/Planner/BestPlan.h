//===- BestPlan.h - what the searches of the planner share ------*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_BESTPLAN_H
#define MOE_LIB_PLANNER_BESTPLAN_H

#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Planner/Explanation.h"

namespace mlir::moe {

/// Orders plans: first the fastest of those that fit, then the smallest of the others.
using PlanRank = std::pair<int64_t, double>;
/// The rank of a plan of so many bytes and seconds; a `limit` of 0 means none.
inline PlanRank rankPlan(int64_t bytes, double seconds, int64_t limit) {
  return {limit == 0 || bytes <= limit ? 0 : bytes, seconds};
}

/// Text about the parts of a plan's memory.
std::string describeMemory(const ProgramMemory &memory);

/// The candidate that needs the least memory of those that are too large; null if there is none.
const Candidate *findSmallest(ArrayRef<Candidate> candidates);

/// How far `best` is from the other candidates that `isCompared` selects.
std::optional<Margin> getMargin(const Candidate &best, ArrayRef<Candidate> candidates,
                                function_ref<bool(const Candidate &)> isCompared,
                                function_ref<Choice(const Candidate &)> getChoice);

/// A search that found nothing.
struct NothingFound {
  std::string what; ///< subject of the search: "groups of 64 ranks"
  bool wasStopped;
  std::string limit; ///< memory of a rank: "79.1 GB"
  size_t count;      ///< number of candidates that were compared
  std::string (*getName)(const Candidate &);
  bool showsBytes; ///< shows the bytes of the smallest candidate, which its reason does not have
};
/// Reports why no candidate can be taken: the smallest that does not fit, or the first that is illegal.
InFlightDiagnostic emitNothingFound(MLIRContext *context, ArrayRef<Candidate> candidates, const NothingFound &search);

/// Calls `run` with 0 to `count` - 1 on the threads of `context`, and then returns freed memory to the system.
void forAll(MLIRContext *context, size_t count, function_ref<void(size_t)> run);

/// Calls `isGood` with 0, 1, .. until it was true `enough` times, or `count` is reached, or `goesOn` is false, which is
/// given the number of times. A few calls are made at once, the same on one thread as on several.
void takeWhileFew(MLIRContext *context, size_t count, size_t enough, function_ref<bool(size_t)> isGood,
                  function_ref<bool(size_t)> goesOn);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_BESTPLAN_H
