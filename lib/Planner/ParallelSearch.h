//===- ParallelSearch.h - the phases of the search through groups -*- C++ -*-===//
//
// Each phase is given the values of the phases before it:
//   space      ParallelSpace.cpp      what the model says, and a candidate for each way to divide the ranks
//   estimates  ParallelEstimates.cpp  candidates of whole models, from samples: all roughly, the nearest closely
//   plans      ParallelPlans.cpp      the nearest by their estimates, compiled and simulated
//   choice     AutoParallel.cpp       the fastest that fits, if need be with less room for dropless rows, and its plan
//   room       ParallelRoom.cpp       what the choice depends on, for the explanation
// A graph without blocks has no samples: its candidates are all compiled.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_PLANNER_PARALLELSEARCH_H
#define MOE_LIB_PLANNER_PARALLELSEARCH_H

#include "BestPlan.h"
#include "StepEstimator.h"

#include "moe/Planner/RunnablePlan.h"
#include "moe/Simulator/Routing.h"

#include <atomic>
#include <map>
#include <mutex>

namespace mlir::moe {

/// The question of a search, and what the model's graph says.
struct ParallelQuestion {
  const ModelSource &source;
  const ParallelRequest &request;
  const PlanOptions &options;
  MLIRContext *context;
  int64_t limit;           ///< on the bytes of a rank; 0: none
  int64_t tokens = 0;      ///< in a sequence; in a fixed graph, in a micro-batch
  int64_t experts = 0;     ///< largest number of a layer
  bool isDropless = false; ///< whether a layer is dropless
  std::vector<ParallelAttr> groups{};
  /// Bounds of dropless rows that may be tried, ever smaller; empty if the model or the user has one.
  ArrayRef<double> maxLoads{};
  std::vector<RankLoads> rankLoads{}; ///< loads in the different layers, if bounds are open

  /// Whether samples of the model's blocks can be taken.
  bool isSampled() const { return !source.kinds.empty(); }
  bool fits(int64_t bytes) const { return limit == 0 || bytes <= limit; }
  /// Why the framework that the plan is for does not run it, whatever the `open` choices are; empty if it does.
  std::string getBrokenRule(const StepChoice &choice, ArrayRef<StringRef> open = {}) const {
    return options.rules ? refusePlan(*options.rules, choice, {experts, isDropless}, open) : "";
  }
  PlanRank getRank(const StepFigures &step) const { return rankPlan(step.bytes, step.seconds, limit); }
  double getSecondsPerSequence(const Candidate &candidate) const;
  /// Seconds, by which candidates are compared.
  double getCost(const Candidate &candidate) const;
  PlanOptions getOptions(const Candidate &candidate) const { return getChoiceOptions(candidate, options); }
  GraphReader getReader(const Candidate &candidate) const { return readBlocks(source, getForm(candidate)); }
  static ModelForm getForm(const Candidate &candidate) {
    return {candidate.parallel.getDp(), candidate.batch, candidate.maxLoad};
  }
};

/// A search under way: its samples, its progress, and whether it was stopped. Several threads may use it.
class ParallelSearch {
public:
  explicit ParallelSearch(const ParallelQuestion &question);

  const ParallelQuestion &question;
  std::optional<StepEstimator> estimator; ///< exists if the question is sampled

  /// Asks whether to stop. Once true, always true.
  bool isStopped() { return stopped = stopped || question.options.isStoppedEarly(); }
  bool wasStopped() const { return stopped; }
  /// Calls `run` with 0 to `count` - 1, or fewer if the search is stopped; the calls must not depend on one another.
  void visitAll(StringRef phase, size_t count, function_ref<void(size_t)> run);
  /// Asks `isGood` of one after the other until `enough` were.
  void visitBest(StringRef phase, ArrayRef<Candidate *> sorted, size_t enough, function_ref<bool(Candidate &)> isGood);
  /// Shows `candidate` as the best so far, if it is.
  void noteBest(const Candidate &candidate);

private:
  void showProgress(StringRef phase, size_t done, size_t all);

  std::mutex mutex; ///< protects `bestSoFar` and the progress
  std::optional<Candidate> bestSoFar;
  std::atomic<bool> stopped = false;
};

void refuse(Candidate &candidate, Verdict verdict, StringRef reason);
/// `margin` is a factor on the candidate's bytes.
void refuseSize(const ParallelQuestion &question, Candidate &candidate, StringRef what, double margin = 1);
/// The candidates that may be taken: those that were compiled before those that were estimated, each the fastest first.
SmallVector<Candidate *> sortBest(const ParallelQuestion &question, MutableArrayRef<Candidate> candidates);

// ParallelSpace.cpp

FailureOr<ParallelQuestion> readQuestion(const ModelSource &source, const ParallelRequest &request,
                                         const PlanOptions &options);
/// A candidate for each of the groups, with the first value of all that is open and one of the bounds `maxLoads`.
std::vector<Candidate> makeCandidates(const ParallelQuestion &question, ArrayRef<double> maxLoads);
/// Whether the search may choose the plan of a job: all that is fixed is as in the job.
bool isOpenTo(const ParallelQuestion &question, const Candidate &job);
/// The room for dropless rows that a candidate with these groups begins with. Absent: the user's.
std::optional<double> getMaxLoad(const ParallelQuestion &question, ArrayRef<double> maxLoads, ParallelAttr parallel);
/// The share of layers that need a further pass if there is room for `load` times the even load.
double getFurtherPasses(const ParallelQuestion &question, double load, ParallelAttr parallel);
/// Loads of layers whose experts are balanced in the way that their inputs tell.
std::vector<RankLoads> getRankLoads(ModuleOp graph);
/// Sets the batch and the micro-batches, or refuses the candidate.
void setBatch(const ParallelQuestion &question, Candidate &candidate, int64_t batch);
/// Turns on open choices without which the rules allow no schedule, and takes the first stage of ZeRO that they allow.
/// Refuses the candidate if that is not enough.
void takeNeeded(const ParallelQuestion &question, Candidate &candidate);
/// Schedules that are simple enough to be tried with all groups, as far as rules allow them with the choices of `like`;
/// at least one.
SmallVector<std::string> getSchedules(const ParallelQuestion &question, const Candidate &like);
SmallVector<int64_t> getInterleaves(const ParallelQuestion &question, const Candidate &candidate, PipelineOrder order);

// ParallelEstimates.cpp

/// Estimates all candidates roughly, and the nearest closely until enough fit.
void estimateCandidates(ParallelSearch &search, MutableArrayRef<Candidate> candidates);
/// Turns `candidate` into its fastest variant that fits, by close estimates. All open choices are varied in turn.
void estimate(ParallelSearch &search, Candidate &candidate);

// ParallelPlans.cpp

/// Compiles the nearest of the estimated candidates, and then those that may be faster than the fastest of these.
void compileNearest(ParallelSearch &search, MutableArrayRef<Candidate> candidates);
/// Compiles all candidates of a graph without samples.
void compileAll(ParallelSearch &search, MutableArrayRef<Candidate> candidates);

// ParallelRoom.cpp

/// Sets what the room for dropless rows in `best` depends on. `maxLoads` are the bounds that were not refused.
void explainRoom(ParallelSearch &search, const Candidate &best, ArrayRef<double> maxLoads,
                 GroupsExplanation &explanation);
/// Sets the speedup of `best` by windows of two micro-batches, over the fastest 1F1B that is otherwise the same.
void explainOverlap(ParallelSearch &search, const Candidate &best, GroupsExplanation &explanation);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_PARALLELSEARCH_H
