//===- ParallelSearch.h - the search through groups -------------*- C++ -*-===//
//
// Candidates are all groups that the world can have. Of a whole model they are estimated roughly, the nearest of them
// closely, and the nearest of those are compiled and simulated. A graph without blocks is compiled in all groups.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_PLANNER_PARALLELSEARCH_H
#define MOE_LIB_PLANNER_PARALLELSEARCH_H

#include "StepEstimator.h"

#include "moe/Planner/AutoParallel.h"
#include "moe/Simulator/RankLoads.h"

#include <atomic>
#include <map>
#include <mutex>

namespace mlir::moe {

/// What needs how much.
std::string describeMemory(const ProgramMemory &memory);

class ParallelSearch {
public:
  ParallelSearch(const ModelSource &source, const ParallelRequest &request, const PlanOptions &options)
      : source(source), request(request), options(options), context(options.parallel.getContext()) {}

  /// Finds the best; null after an error.
  Candidate *run();
  /// `best` is the choice.
  void take(Candidate &best);
  GroupsExplanation explain();
  /// The plan of the best, or of the next where that turns out too large.
  FailureOr<OwningOpRef<ModuleOp>> compileBest();

private:
  bool isSampled() const { return !source.kinds.empty(); }
  PlanOptions getOptions(const Candidate &candidate) const { return getChoiceOptions(candidate, options); }
  static ModelForm getForm(const Candidate &candidate) {
    return {candidate.parallel.getDp(), candidate.batch, candidate.maxLoad};
  }
  GraphReader getReader(const Candidate &candidate) const { return readBlocks(source, getForm(candidate)); }
  bool fits(int64_t bytes) const { return limit == 0 || bytes <= limit; }
  /// Seconds, by which candidates are compared.
  double getCost(const Candidate &candidate) const {
    return request.objective == Objective::StepTime ? candidate.getStepSeconds() : getSecondsPerSequence(candidate);
  }
  double getSecondsPerSequence(const Candidate &candidate) const {
    int64_t ranks = source.isFixed ? 1 : candidate.batch * candidate.parallel.getDp();
    return candidate.getStepSeconds() / static_cast<double>(ranks * candidate.microBatches);
  }

  // The space, and ways through it (ParallelSpace.cpp).
  LogicalResult addSpace();
  void addCandidate(ParallelAttr parallel);
  std::optional<double> getMaxLoad(ParallelAttr parallel) const;
  double getFurtherPasses(double load, ParallelAttr parallel) const;
  /// The batch, and micro-batches; a reason where there are none.
  void setBatch(Candidate &candidate, int64_t batch) const;
  /// Schedules that are simple enough to be tried with all groups.
  SmallVector<std::string> getSchedules(ParallelAttr parallel) const;
  bool mayPay(const ParsedSchedule &byNode, ParallelAttr parallel) const;
  SmallVector<int64_t> getInterleaves(const Candidate &candidate, PipelineOrder order) const;
  /// The open orders that estimates tell apart; at least one.
  SmallVector<PipelineOrder> getEstimatedOrders(const Candidate &candidate) const;
  std::vector<Candidate> getOrdersOf(const Candidate &asked);
  void refuse(Candidate &candidate, Verdict verdict, const std::string &reason) const {
    candidate.verdict = verdict;
    candidate.reason = reason;
  }
  void refuseSize(Candidate &candidate, StringRef what);
  /// Those that may be taken, the fastest first.
  SmallVector<Candidate *> sort();
  /// Does 0 to `count` - 1, or fewer where the search is stopped; each must leave the others alone.
  void visitAll(StringRef phase, size_t count, function_ref<void(size_t)> run);
  /// Asks `isGood` of one after the other until it has been so of `enough`.
  void visitBest(StringRef phase, ArrayRef<Candidate *> sorted, size_t enough, function_ref<bool(Candidate &)> isGood);
  /// Notes `candidate` as the best so far, if it is.
  void noteBest(const Candidate &candidate);
  void showProgress(StringRef phase, size_t done, size_t all);
  /// What is known from now on is all that there will be.
  bool isStopped() { return stopped = stopped || options.isStoppedEarly(); }

  // Whole models, from samples (ParallelEstimates.cpp).
  /// Whether an estimate fits: it knows nothing of gaps between buffers.
  bool mayFit(const Candidate &candidate) const;
  void roughlyEstimateAll();
  void roughlyEstimate(MutableArrayRef<Candidate *> alike);
  void estimateNearest();
  void estimate(Candidate &candidate);
  bool compareAll(Candidate like, StringRef schedule, Recompute recompute, std::optional<Candidate> &best,
                  std::string &reason, std::optional<int64_t> roughDp = std::nullopt);
  void takeBetter(Candidate one, std::optional<Candidate> &best) const;
  bool compareRecomputes(Candidate like, std::optional<Candidate> &best, std::string &reason);
  void compareBatches(std::optional<Candidate> &best, std::string &reason);
  void compareFinerRecompute(std::optional<Candidate> &best, std::string &reason);
  bool compare(Candidate one, std::optional<Candidate> &best, std::string &reason,
               std::optional<int64_t> roughDp = std::nullopt);
  bool compileWhole(Candidate &candidate);
  std::optional<WholeModel> measureOrders(Candidate &candidate, std::string &reason);
  void weighOverlap(const Candidate &best);
  bool setStages(Candidate &candidate);
  /// Candidates whose estimates leave out alike: their order, recomputation, and the sizes of their exchanges' groups.
  using Kind = std::tuple<PipelineOrder, Recompute, int64_t, int64_t, int64_t>;
  static Kind getKind(const Candidate &one);
  void correctEstimates();
  void correct(Candidate &one) const;
  void compileNearest();
  void compileFuller();
  /// What more room for dropless rows than `best` has would take, and whether less would be faster.
  void weighRoom(const Candidate &best);
  void findLargestRoom(const Candidate &best);
  void findFasterWithLessRoom(const Candidate &best);

  // The choice, and its plan (AutoParallel.cpp).
  void measureWhole(Candidate &candidate);
  void searchSpace();
  void searchNearest();
  void takeRoughly();
  Candidate *choose();
  /// The same; where nothing fits, with less room for dropless rows. Null after an error.
  Candidate *chooseWithRoom();
  std::optional<Margin> getMargin(const Candidate &best) const;
  void failToFind();
  FailureOr<OwningOpRef<ModuleOp>> compileOne(const Candidate &candidate, bool findChanges);
  LogicalResult setFigures(OwningOpRef<ModuleOp> &module, Candidate &best) const;

  const ModelSource &source;
  const ParallelRequest &request;
  const PlanOptions &options;
  MLIRContext *context;
  int64_t limit = 0;
  int64_t tokens = 0;      ///< of a sequence; of a fixed graph, of a micro-batch
  bool isDropless = false; ///< some layer
  /// Bounds of dropless rows that may be tried, ever smaller; empty where the model or the user has one.
  ArrayRef<double> maxLoads;
  std::vector<RankLoads> rankLoads; ///< of the different layers, where bounds are open
  std::optional<StepEstimator> estimator;
  std::vector<Candidate> candidates;
  /// Of compiled steps, how many times as long as estimated they took, at least.
  std::map<Kind, double> ratios;
  std::map<PipelineOrder, double> orderRatios; ///< where several were compiled
  std::optional<Margin> margin;
  std::optional<double> furtherPasses, refusedLoad, largestLoad, timesWithoutOverlap;
  std::vector<Candidate> withLessRoom;
  std::mutex progress;
  std::optional<Candidate> bestSoFar;
  std::atomic<bool> stopped = false;
};

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_PARALLELSEARCH_H
