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
#include "moe/LaunchOrder/Order.h"
#include "moe/Simulator/Report.h"

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
  /// Seconds from one micro-batch to the next once the pipeline is full: those of the slowest stage. 0 where the step
  /// does not tell.
  double interval = 0;
  /// Where the seconds of the step, and those of `interval`, go; of the mean rank.
  StepParts parts, intervalParts;
  StepWork work;        ///< one rank's share of it: the step's, divided by the ranks
  double peakFlops = 0; ///< FLOP/s of a device, in the dtype in which most FLOPs of products are; 0: not known
  double flops = 0;
  double bytesSent = 0, bytesBetweenNodes = 0; ///< to all other ranks, and to those of other nodes alone
  int64_t bytes = 0; ///< of device memory, with the optimizer's states, on the rank that needs the most
  /// How far the step may be off, and that relative to it, as the profile's measurements say. Empty and 0 where they
  /// say nothing of at least half of its critical path. A candidate that was read back has the second alone.
  ErrorBudget errors;
  double uncertainty = 0;
  std::string limit; ///< the stream that is busiest, and how much of the step: "compute 83%"

  /// Of one device; zeros where it is not known.
  StepSpeed getSpeed() const { return moe::getSpeed(work, seconds, peakFlops); }
};

struct Candidate : StepChoice {
  std::string scheduleClass; ///< the schedule with one chunk, that keeps everything for the backward
  /// The order of launches, where it is not the one that the schedule is compiled in by itself.
  std::optional<OrderPolicy> order;
  bool overlaps = false; ///< exchanges and computation of a layer can run at the same time
  bool byNode = false;   ///< its exchanges are others between nodes than inside

  Verdict verdict = Verdict::Illegal;
  std::string reason;
  double bound = 0; ///< seconds that `estimate` cannot go below; 0 where it is not known
  /// Schedules: all that the schedule changes, which in a model of many layers is a stage's share of those layers for
  /// one micro-batch. Groups: a step of the model, from samples of its blocks.
  StepFigures estimate;
  StepFigures whole; ///< a step of the whole model, as it was compiled
  /// Groups: how many times as much memory as estimated a compiled step of them needed, where one was compiled.
  std::optional<double> memoryScale;
  /// The estimated seconds are that many times those of samples: as compiled steps like it took longer.
  double secondsScale = 1;
  /// Seconds by MPipeMoE's Eq. 10, where that is asked.
  std::optional<double> equation10;
  double secondsPerSequence = 0; ///< of the world's sequences; of a fixed graph, of a micro-batch
  StepSpeed speed;               ///< of a device, in whole steps; zeros where a step is not known

  /// The closest that is known.
  double getStepSeconds() const { return whole.seconds > 0 ? whole.seconds : estimate.seconds; }
  int64_t getBytes() const { return whole.bytes > 0 ? whole.bytes : estimate.bytes; }
};

/// The groups of a candidate, and its batch where that is more than one sequence.
std::string describe(const Candidate &candidate);

} // namespace mlir::moe

#endif // MOE_PLANNER_CANDIDATE_H
