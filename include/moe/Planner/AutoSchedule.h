//===- AutoSchedule.h - the best schedule of a model on a cluster -*- C++ -*-===//
//
// The joint space of all schedules (--schedule=auto). A candidate is applied: what the passes refuse is illegal, with
// their reason; its memory is what the planner gives it; its time is the simulator's. A closed form prunes: the seconds
// of the busiest stream (getStepBound), which no order and no cutting into chunks can go below.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_AUTOSCHEDULE_H
#define MOE_PLANNER_AUTOSCHEDULE_H

#include "moe/Planner/Planner.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::moe {

/// What became of a candidate.
enum class Verdict {
  Illegal,   ///< a pass refuses it; `reason` is the pass's error
  Same,      ///< its plan is that of the one that `reason` names
  Bounded,   ///< its bound is not below the best step found
  Dominated, ///< it does what another one that fits does, and more; shadows, where tokens choose evenly and memory is
             ///< enough
  TooLarge,  ///< it needs more than the memory limit; `reason` says what holds the peak
  Simulated,
  Chosen
};
StringRef getName(Verdict verdict);

/// A schedule, and what was found out about it. Times are of a step of what was simulated: all that the schedule
/// changes, which of a model of many layers is a stage's share of those layers, for one micro-batch.
struct AutoCandidate {
  std::string schedule;      ///< as --schedule takes it
  std::string scheduleClass; ///< of a chunk and everything kept
  /// Of launches, where it is not what the schedule is compiled in by itself.
  std::optional<OrderPolicy> order;
  Verdict verdict = Verdict::Illegal;
  std::string reason;
  double bound = 0;     ///< seconds; 0 where it was not applied
  double seconds = 0;   ///< 0 where it was not simulated
  double exposed = 0;   ///< seconds with communication and no computation, mean over ranks
  double flops = 0;     ///< of a rank
  double bytesSent = 0; ///< of a rank
  int64_t memory = 0;   ///< bytes of a rank, with the optimizer's states
  std::string limit;    ///< the stream that is busiest, and how much of the step: "compute 83%"
  /// How far the step may be off, relative to it: what its measured fits say of themselves. 0 where they say nothing.
  double uncertainty = 0;
  bool overlaps = false; ///< exchanges and computation of a layer can run at the same time
  /// Of the whole model, in which the fastest candidates are compiled and simulated; 0 for others, and of a graph that
  /// is one layer.
  double modelSeconds = 0;
  int64_t modelMemory = 0;
  double tokensPerSecond = 0; ///< of a device, in whole steps; 0 where a step is not known
};

/// What would be taken if something were otherwise.
struct AutoChange {
  std::string change;   ///< "network 2 times as fast"
  std::string schedule; ///< of the candidates that are fastest now
};

/// The order is that of the space, which is always the same.
struct AutoResult {
  std::vector<AutoCandidate> candidates;
  std::optional<size_t> best;
  std::optional<std::vector<AutoChange>> changes; ///< absent where they were not looked for
  int64_t applied = 0, bounded = 0, simulated = 0;
  bool isComplete = true; ///< false where the search was interrupted
};

/// Goes through the space for `graph`, which compile() has prepared. Of several layers that are not alike, times and
/// bytes are sums over all of them. Nothing is best where nothing is legal, or fits.
AutoResult searchSpace(ModuleOp graph, const CompileOptions &options);
/// What was simulated, the fastest first.
SmallVector<const AutoCandidate *> sortBySeconds(const AutoResult &result);
/// Adds what the choice depends on: candidates that are near are simulated again with a slower and a faster network, on
/// slower and faster devices, and with fewer and more tokens. Stopped, it adds nothing.
void addChanges(ModuleOp graph, const CompileOptions &options, AutoResult &result);

/// searchSpace; of a model of many layers the fastest few are then compiled whole, and simulated, and the fastest of
/// those that fit is best. There is a best one: errors are reported at unknown places.
FailureOr<AutoResult> chooseSchedule(ModuleOp graph, const CompileOptions &options);
/// chooseSchedule, then the best to the stage that `options` say. The module's `plan.schedule`, and `plan.order` where
/// one was chosen, say what it is and `plan.explain` why. A graph without MoE layers has the baseline, and no reasons.
FailureOr<OwningOpRef<ModuleOp>> compileBest(ModuleOp graph, const CompileOptions &options);

} // namespace mlir::moe

#endif // MOE_PLANNER_AUTOSCHEDULE_H
