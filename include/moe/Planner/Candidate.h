//===- Candidate.h - a way to run a model, and its costs --------*- C++ -*-===//
//
// Every search of the planner compares candidates: the choices of a step, with the figures that were found for them.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_CANDIDATE_H
#define MOE_PLANNER_CANDIDATE_H

#include <cstdint>
#include <optional>
#include <string>

#include "moe/Compiler/Compiler.h"

namespace mlir::moe {

/// The fate of a candidate.
enum class Verdict {
  Illegal,   ///< a pass, the import or the global batch refuses it; `reason` is the error
  Same,      ///< its plan is that of the schedule that `reason` names
  Bounded,   ///< its bound is not below the best step found
  Dominated, ///< another one that fits does less: shadows, where tokens choose evenly and memory is enough
  TooLarge,  ///< it needs more than the memory limit; `reason` says where
  Skipped,   ///< the search was stopped before
  Slower,    ///< by a rough estimate, so that no closer one was made
  Estimated, ///< from samples; groups of a graph that is compiled as a whole: simulated
  Simulated, ///< schedules: from the layers alone, or of a graph that is one layer
  Compiled,  ///< as a whole, and simulated
  Chosen
};
/// "illegal", "too large", ..
StringRef getName(Verdict verdict);
std::optional<Verdict> parseVerdict(StringRef name);

/// A simulated step of a plan, or the sum of several plans' that stand for a model. Counts are those of one rank.
struct StepFigures {
  double seconds = 0; ///< 0: nothing was simulated
  /// Seconds of the slowest stage from one micro-batch to the next in a full pipeline. 0 if the step does not tell.
  double interval = 0;
  /// Parts of the seconds of the step, and of those of `interval`; of the mean rank.
  StepParts parts, intervalParts;
  StepWork work;        ///< one rank's share of it: the step's, divided by the ranks
  double peakFlops = 0; ///< FLOP/s of a device, in the dtype in which most FLOPs of products are; 0: not known
  double flops = 0;
  double bytesSent = 0, bytesBetweenNodes = 0; ///< to all other ranks, and to those of other nodes alone
  int64_t bytes = 0; ///< device memory, with the optimizer's states, on the rank that needs the most
  /// Error of the step by the profile's measurements, and the same relative to the step. Empty and 0 if the
  /// measurements cover less than half of its critical path. A candidate that was read back has the second alone.
  ErrorBudget errors;
  double uncertainty = 0;
  /// Two thirds of measured steps of this kind took `low` to `high` times as long; 0 if no such steps are known.
  double low = 0, high = 0;
  int64_t ownSteps = 0; ///< steps of the user's runs that the range rests on; 0: it rests on those of others
  std::string limit;    ///< the stream that is busiest, and how much of the step: "compute 83%"

  /// Speed of one device; zeros if it is not known.
  StepSpeed getSpeed() const { return moe::getSpeed(work, seconds, peakFlops); }
};

struct Candidate : StepChoice {
  std::string scheduleClass; ///< the schedule with one chunk, that keeps everything for the backward
  /// The order of launches, if it is not the default of the schedule.
  std::optional<OrderPolicy> order;
  bool overlaps = false; ///< exchanges and computation of a layer can run at the same time
  bool byNode = false;   ///< it exchanges differently between nodes and inside

  Verdict verdict = Verdict::Illegal;
  std::string reason;
  double bound = 0; ///< lower bound on the seconds of `estimate`; 0 if it is not known
  /// Figures of a schedule: all that it changes, which in a model of many layers is a stage's share of those layers for
  /// one micro-batch. Figures of groups: a step of the model, from samples of its blocks.
  StepFigures estimate;
  StepFigures whole; ///< a step of the whole model, as it was compiled
  /// Memory of a compiled step of these groups relative to its estimate, if one was compiled.
  std::optional<double> memoryScale;
  /// Factor on the estimated seconds of samples: compiled steps like it took longer.
  double secondsScale = 1;
  /// Seconds by MPipeMoE's Eq. 10, if it decides.
  std::optional<double> equation10;
  double secondsPerSequence = 0; ///< per sequence of the world; for a fixed graph, per micro-batch
  StepSpeed speed;               ///< speed of a device in whole steps; zeros if no step is known

  /// Seconds of the whole step if it was compiled, otherwise of the estimate.
  double getStepSeconds() const { return whole.seconds > 0 ? whole.seconds : estimate.seconds; }
  int64_t getBytes() const { return whole.bytes > 0 ? whole.bytes : estimate.bytes; }
};

/// The groups of a candidate, and its batch where that is more than one sequence.
std::string describe(const Candidate &candidate);

} // namespace mlir::moe

#endif // MOE_PLANNER_CANDIDATE_H
