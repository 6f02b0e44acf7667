//===- Explanation.h - why a schedule and groups were taken -----*- C++ -*-===//
//
// A search leaves an explanation in the module that it returns: plan.explain, plan.explain_parallel and plan.search are
// these structs as attributes. Reports read the structs (moe/Report/Explanations.h).
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_EXPLANATION_H
#define MOE_PLANNER_EXPLANATION_H

#include <string>
#include <vector>

#include "mlir/IR/BuiltinOps.h"

#include "moe/Planner/Candidate.h"

namespace mlir::moe {

/// How far the choice is from the others.
struct Margin {
  std::string next;               ///< the nearest of them
  double margin = 0;              ///< how much longer it takes, relative to the choice
  double uncertainty = 0;         ///< of their difference, relative to the choice
  std::vector<std::string> close; ///< the others whose difference is within its uncertainty
};

/// What a choice is compared by.
struct Choice {
  std::string name;
  double seconds;           ///< or whatever else is to be small
  ErrorBudget errors;       ///< of it
  double estimateError = 0; ///< relative; of one that was not simulated as a whole
};
/// Absent where there are no others. What two have in common is as wrong in both, and makes no difference.
std::optional<Margin> getMargin(const Choice &best, SmallVector<Choice> others);

/// What would be taken if something were otherwise.
struct Change {
  std::string change;   ///< "the network's bandwidth x 2"
  std::string schedule; ///< of the candidates that are fastest now
};

/// A search through all schedules. Candidates are in the order of the space, which is always the same.
struct ScheduleExplanation {
  std::vector<Candidate> candidates;
  std::optional<size_t> best;
  std::optional<std::vector<Change>> changes; ///< absent where they were not looked for
  int64_t applied = 0, bounded = 0, simulated = 0;
  bool isComplete = true;       ///< false where the search was interrupted
  std::optional<Margin> margin; ///< absent where there are no others
  /// Whether the bound of something that was not simulated is within the margin's uncertainty.
  std::optional<bool> isOpen;
};

/// Candidates that were simulated, the fastest first.
SmallVector<const Candidate *> sortBySeconds(ArrayRef<Candidate> candidates);

/// Takes the most tokens a second and device, or the fewest seconds of a step. Candidates whose steps have as many
/// tokens are in the same order in both.
enum class Objective { Throughput, StepTime };
/// "throughput", "step-time".
StringRef getName(Objective objective);
std::optional<Objective> parseObjective(StringRef name);

/// A search through sizes of groups.
struct GroupsExplanation {
  std::vector<Candidate> candidates;
  Objective objective = Objective::Throughput;
  bool isComplete = true;
  std::optional<Margin> margin; ///< from those that were compared in the same way as the choice
  /// The share of layers that need further passes of dropless rows, with routing that is balanced as the model's.
  /// Absent where the room was not looked for.
  std::optional<double> furtherPasses;
  /// The room for dropless rows with which nothing fits, where the choice has less.
  std::optional<double> refusedLoad;
  /// The most room for dropless rows, in times the even load, that the memory of the choice is enough for, by
  /// estimates. Absent: no more than the choice has, or it was not looked for.
  std::optional<double> largestLoad;
  /// With less room than the choice has, the fastest by estimates; empty where it would not be faster.
  std::vector<Candidate> withLessRoom;
  /// By estimates, how many times as long the choice would take in 1F1B. Absent where its order overlaps no
  /// micro-batches.
  std::optional<double> timesWithoutOverlap;
};

void setExplanation(ModuleOp plan, const ScheduleExplanation &explanation);
void setExplanation(ModuleOp plan, const GroupsExplanation &explanation);
/// The schedules that were compared where chunks or a strategy were left open, or where a plan had to fit.
void setCompared(ModuleOp plan, ArrayRef<Candidate> candidates);

/// Absent where the module has none. `best` is the candidate that was chosen.
std::optional<ScheduleExplanation> getScheduleExplanation(ModuleOp plan);
std::optional<GroupsExplanation> getGroupsExplanation(ModuleOp plan);
std::optional<std::vector<Candidate>> getCompared(ModuleOp plan);

} // namespace mlir::moe

#endif // MOE_PLANNER_EXPLANATION_H
