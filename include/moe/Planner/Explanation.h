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

#include "moe/Planner/Candidate.h"

namespace mlir::moe {

/// Distance of the choice from the others.
struct Margin {
  std::string next;               ///< the nearest of them
  double margin = 0;              ///< its further seconds, relative to the choice
  double uncertainty = 0;         ///< uncertainty of their difference, relative to the choice
  bool isMeasured = false;        ///< whether measured pairs say how uncertain differences are
  std::vector<std::string> close; ///< the others whose difference is within its uncertainty
};

/// Figures by which choices are compared.
struct Choice {
  std::string name;
  double seconds;           ///< or another figure that must be small
  ErrorBudget errors;       ///< errors of the seconds
  double pairError = 0;     ///< relative error of the difference of two of them, by measured pairs; 0: not known
  double estimateError = 0; ///< relative error if it was not simulated as a whole
};
/// Absent if there are no others. Errors that two choices have in common cancel.
std::optional<Margin> getMargin(const Choice &best, SmallVector<Choice> others);

/// A change after which another schedule would be taken.
struct Change {
  std::string change;   ///< "the network's bandwidth x 2"
  std::string schedule; ///< the schedule that would be taken, one of those that are fastest now
};

/// A search through all schedules. Candidates are in the order of the space, which is always the same.
struct ScheduleExplanation {
  std::vector<Candidate> candidates;
  std::optional<size_t> best;
  std::optional<std::vector<Change>> changes; ///< absent if they were not looked for
  int64_t applied = 0, bounded = 0, simulated = 0;
  bool isComplete = true;       ///< false if the search was interrupted
  std::optional<Margin> margin; ///< absent if there are no others
  /// Whether the bound of a candidate that was not simulated is within the margin's uncertainty.
  std::optional<bool> isOpen;
};

/// Candidates that were simulated, the fastest first.
SmallVector<const Candidate *> sortBySeconds(ArrayRef<Candidate> candidates);

/// The most tokens a second and device, or the fewest seconds of a step. They differ if the tokens of steps do.
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
  /// The share of layers that need further passes of dropless rows, with balanced routing. Absent: not looked for.
  std::optional<double> furtherPasses;
  /// The room for dropless rows with which nothing fits, if the choice has less.
  std::optional<double> refusedLoad;
  /// The most room for dropless rows, in times the even load, that the memory of the choice is enough for, by
  /// estimates. Absent: no more than the choice has, or it was not looked for.
  std::optional<double> largestLoad;
  /// The fastest by estimates with less room than the choice has; empty if it would not be faster.
  std::vector<Candidate> withLessRoom;
  std::optional<Candidate> job; ///< the plan that ParallelRequest::job asks about, compiled; no module keeps it
  /// Seconds of the choice in 1F1B relative to its own, by estimates. Absent if its order overlaps no micro-batches.
  std::optional<double> timesWithoutOverlap;

  /// Null if none was chosen.
  const Candidate *getChosen() const;
};

/// The fields of an explanation, as a module keeps them.
DictionaryAttr getFields(MLIRContext *context, const ScheduleExplanation &explanation);
DictionaryAttr getFields(MLIRContext *context, const GroupsExplanation &explanation);
void setExplanation(ModuleOp plan, const ScheduleExplanation &explanation);
void setExplanation(ModuleOp plan, const GroupsExplanation &explanation);
/// Records the schedules that were compared because chunks or a strategy were open, or because a plan had to fit.
void setCompared(ModuleOp plan, ArrayRef<Candidate> candidates);

/// Absent if the module has none. `best` is the candidate that was chosen.
std::optional<ScheduleExplanation> getScheduleExplanation(ModuleOp plan);
std::optional<GroupsExplanation> getGroupsExplanation(ModuleOp plan);
std::optional<std::vector<Candidate>> getCompared(ModuleOp plan);

} // namespace mlir::moe

#endif // MOE_PLANNER_EXPLANATION_H
