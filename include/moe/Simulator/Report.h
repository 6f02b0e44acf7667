//===- Report.h - what a simulated step says --------------------*- C++ -*-===//
//
// What follows from the times of a step, and the forms in which people and tools read it: text, JSON, a trace for
// Perfetto, a page. docs/CostModel.md, "Outputs", documents the JSON.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_SIMULATOR_REPORT_H
#define MOE_SIMULATOR_REPORT_H

#include "moe/Simulator/ErrorBudget.h"
#include "moe/Simulator/Simulator.h"

#include "llvm/Support/raw_ostream.h"

namespace mlir::moe {

/// Use of one stream of a rank.
struct StreamUse {
  std::string stream;
  double busy = 0, idle = 0; ///< seconds; they add up to the step
};

/// Where the seconds of a rank, or of the mean rank, go. The parts add up to the whole.
struct StepParts {
  double compute = 0; ///< a launch of matrix or memory work is under way
  /// No computation, but an exchange with ranks of the same pipeline stage is under way.
  double exposedCommunication = 0;
  /// Neither, because of the pipeline: the rank waits for what another stage computes or hands over, or has ended
  /// before another stage.
  double bubble = 0;
  double other = 0; ///< the rest: copies, waits for issue and for slower ranks of the same stage
  /// Not one more part: seconds of `compute` beside which an exchange with ranks of the same stage is under way.
  double hiddenCommunication = 0;

  /// Of the seconds with such an exchange; 1 without any.
  double getHiddenShare() const {
    double all = hiddenCommunication + exposedCommunication;
    return all > 0 ? hiddenCommunication / all : 1;
  }
  double getSum() const { return compute + exposedCommunication + bubble + other; }
  /// Adds `factor` times `parts`.
  void add(const StepParts &parts, double factor);
};

/// One rank's step. Matrix and memory work is computation, work of the host link is copying.
struct RankUse : StepParts {
  std::vector<StreamUse> streams;
  double communication = 0, copy = 0; ///< seconds with any such launch under way
  double peakBytes = 0;               ///< of device memory: arguments and live buffers
};

/// All launches of one kernel name: sums over the simulated ranks' counts, divided by the number of ranks.
struct KernelUse {
  std::string kernel; ///< with its group, as "all_to_all [ep]"
  Resource resource = Resource::None;
  double launches = 0, seconds = 0, flops = 0, bytes = 0;
  double criticalSeconds = 0; ///< on the critical path
};

/// A piece of the critical path; pieces follow one another without gaps from 0 to the step's end.
struct CriticalPiece {
  int32_t time = -1; ///< into SimResult::times; -1: waiting for issue
  double begin = 0, end = 0;
};

/// Seconds of the critical path by what it is made of; they add up to the step.
struct CriticalUse {
  double compute = 0, communication = 0, copy = 0;
  double waiting = 0; ///< for issue; also launches that keep nothing busy
  /// Seconds that rest on measurements whose error the profile states, and the mean of these errors over them.
  double fitted = 0, fitError = 0;
  /// Seconds of sizes that the profile has no measurements around.
  double extrapolated = 0;
  /// How wrong the sums of computation, copies included, and of communication may be, as far as it is known.
  ErrorBudget computeErrors, communicationErrors;

  /// How wrong the step may be.
  ErrorBudget getErrors() const;
};

/// Memory of a rank after each change, in order of time.
struct MemoryPoint {
  double seconds;
  double bytes;
};

/// A plan in the DDL-roofline (FasterMoE, Fig. 5). FLOP/s are of a device.
struct RooflinePoint {
  std::string schedule;
  double seconds = 0; ///< of the step
  double ratio = 0;   ///< R_CC of the whole step; 0: nothing is communicated
  double mean = 0;    ///< FLOPs / (ranks * step), Eq. 4
  /// Eq. 5, 6: P min(1, R_CC) and P R_CC / (R_CC + 1); P where nothing is communicated.
  double ideal = 0, semiIdeal = 0;

  double getShareOfIdeal() const { return ideal > 0 ? mean / ideal : 0; }
};

/// What a step does for the model. 0: not known, as of a plan that was not made of a model graph.
struct StepWork {
  double modelFlops = 0; ///< by the model's definition: no recomputation, no padding
  double tokens = 0;

  StepWork operator*(double factor) const { return {modelFlops * factor, tokens * factor}; }
};

/// How fast a device does its share of the work. 0: not known.
struct StepSpeed {
  double flopsPerSecond = 0, tokensPerSecond = 0;
  /// Model FLOPs utilization: flopsPerSecond / the peak of the dtype in which most FLOPs of products are.
  double mfu = 0;
};

/// Of one device: `work` is its share of the step's, `peakFlops` its peak in FLOP/s.
StepSpeed getSpeed(const StepWork &work, double seconds, double peakFlops);

struct SimReport {
  int64_t numRanks = 0;           ///< of the cluster, not only the simulated ones
  std::vector<RankUse> ranks;     ///< as SimResult::ranks
  RankUse mean;                   ///< over all ranks; a stream of each name
  uint32_t largestMemoryRank = 0; ///< into SimResult::ranks: the first with the highest peak
  std::vector<KernelUse> kernels; ///< most seconds first
  std::vector<CriticalPiece> criticalPath;
  CriticalUse critical;
  StepWork work; ///< of all ranks together
  StepSpeed speed;
  /// The plan itself, which has no schedule's name here, and what was simulated beside it.
  RooflinePoint roofline;
  std::vector<RooflinePoint> others;
};

/// Of the whole step, also where some of it is left out in the result.
SimReport makeReport(const SimResult &result, const StepWork &work = {});
/// The parts of the mean rank's seconds from `begin` to `end`, of SimResult::times.
StepParts getStepParts(const SimResult &result, double begin, double end);
/// Device memory of simulated rank `rank`. A buffer lives from the begin of its first launch to the end of its last, an
/// argument always; host-pinned buffers are not counted.
std::vector<MemoryPoint> getMemoryOverTime(const SimResult &result, uint32_t rank);

/// The kernel with its group, as "all_to_all [ep]": the name in traces and tables.
std::string getLaunchName(const SimProgram &program, uint32_t launch);
/// "rank 3", or "ranks 0-7 (8 alike)".
std::string getRankName(const SimRank &rank);

/// What is common to all outputs.
struct SimHeader {
  std::string plan, cluster, schedule, mode;
  std::string form;           ///< closed-form or link-level
  std::string routing;        ///< even, a file, or synthetic
  std::string load;           ///< a default bound of dropless rows (describeDefaultMaxLoad); may be empty
  int64_t devicesPerNode = 0; ///< 0: not known; the page groups many ranks by it
  double memoryBytes = 0;     ///< of a device, for plans; 0: not known
  std::string host;           ///< of the cluster's hosts; empty: its own
};

} // namespace mlir::moe

#endif // MOE_SIMULATOR_REPORT_H
