//===- JobLadder.h - what each change of a job gains ------------*- C++ -*-===//
//
// A user's job, with each change of one thing alone, and then the plan that a search chose. A gain in one step cannot
// be checked; a single change can be tried.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_JOBLADDER_H
#define MOE_PLANNER_JOBLADDER_H

#include "moe/Planner/AutoParallel.h"

namespace mlir::moe {

/// The job with a change, compiled and simulated.
struct JobChange {
  std::string name; ///< "PP2" or "dispatcher deepep"
  Candidate plan;   ///< its `whole` is the step
};

/// Seconds of a change relative to those of the job.
struct JobGain {
  double seconds = 0;   ///< time of a step of as many sequences as the job has; 0: not known
  double times = 0;     ///< times as fast as the job
  double low = 0;       ///< two thirds of measured pairs were in this range; 0: no pairs are known
  double high = 0;      ///< end of the range
  bool isClear = false; ///< whether the range is on one side of 1
};

struct JobLadder {
  Candidate job;                  ///< its `reason` says why it has no step
  std::vector<JobChange> changes; ///< those that fit first, and of these the fastest first
  Candidate best;                 ///< the plan that was chosen
  int64_t bestChanges = 0;        ///< number of single changes that lead to it
  double pairError = 0;           ///< as in MeasuredSteps
  double memoryLimit = 0;         ///< bytes of a device; 0: not known

  bool fits(const Candidate &plan) const {
    return memoryLimit == 0 || static_cast<double>(plan.getBytes()) <= memoryLimit;
  }
  /// The gain of `plan`, which differs from the job in so many things. Errors of changes are taken as independent.
  JobGain getGain(const Candidate &plan, int64_t changes = 1) const;
  /// Sorts the changes.
  void sort();
};

/// Differences of `plan` from `job`: "PP2", "VPP 4", "recompute none". DP and GA follow from the others.
SmallVector<std::string> listDifferences(const StepChoice &job, const StepChoice &plan);

/// The job of `request` in the room for dropless rows of a candidate, compiled and simulated in its own schedule. If
/// options.rules do not allow that, it takes the fastest schedule that they allow. None if there is none.
std::optional<Candidate> measureJob(const ModelSource &source, const ParallelRequest &request,
                                    const PlanOptions &options);

/// `job`, which was measured, with each single change that `request` leaves open and options.rules allow: the next
/// smaller and larger value of each choice, and that of `best`. Leaves out what no plan can do. The errors of options
/// that contradict each other are reported.
std::vector<JobChange> measureJobChanges(const ModelSource &source, const ParallelRequest &request,
                                         const PlanOptions &options, const Candidate &job, const Candidate &best);

} // namespace mlir::moe

#endif // MOE_PLANNER_JOBLADDER_H
