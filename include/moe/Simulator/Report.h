//===- Report.h - sums and critical path of a simulated step ----*- C++ -*-===//
//
// Sums and the critical path of a simulated step. lib/Report writes them as text, JSON, traces and pages.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_SIMULATOR_REPORT_H
#define MOE_SIMULATOR_REPORT_H

#include "moe/Simulator/Simulator.h"

#include <map>

namespace mlir::moe {

/// Use of one stream of a rank.
struct StreamUse {
  std::string stream;
  double busy = 0, idle = 0; ///< seconds; they add up to the step
};

/// Seconds of a rank or of the mean rank, by what it does. They add up to the step, except for hiddenCommunication.
struct StepParts {
  double compute = 0; ///< a launch of matrix or memory work runs
  /// No computation, but an exchange with ranks of the same pipeline stage runs.
  double exposedCommunication = 0;
  /// Neither of them because of the pipeline: the rank waits for results of another stage, or has ended before another
  /// stage.
  double bubble = 0;
  double other = 0; ///< all else: copies, waits for issue and for slower ranks of the same stage
  /// Seconds of `compute` beside which an exchange with ranks of the same stage runs. Part of `compute`.
  double hiddenCommunication = 0;

  /// Share of the seconds of such exchanges that is hidden; 1 without exchanges.
  double getHiddenShare() const {
    double all = hiddenCommunication + exposedCommunication;
    return all > 0 ? hiddenCommunication / all : 1;
  }
  double getSum() const { return compute + exposedCommunication + bubble + other; }
  /// Adds `factor` times `parts`.
  void add(const StepParts &parts, double factor);
};

/// Step of one rank. Matrix and memory work is computation, and work of the host link is copying.
struct RankUse : StepParts {
  std::vector<StreamUse> streams;
  double communication = 0, copy = 0; ///< seconds in which any such launch runs
  double peakBytes = 0;               ///< device memory of arguments and live buffers
};

/// All launches of one kernel name: sums over all ranks, divided by the number of ranks.
struct KernelUse {
  std::string kernel; ///< with its group, as "all_to_all [ep]"
  Resource resource = Resource::None;
  double launches = 0, seconds = 0, flops = 0, bytes = 0;
  double criticalSeconds = 0; ///< seconds on the critical path
};

/// A piece of the critical path. The pieces follow one another without gaps from 0 to the end of the step.
struct CriticalPiece {
  int32_t time = -1; ///< index in SimResult::times; -1 for a wait for issue
  double begin = 0, end = 0;
};

/// Errors of a predicted time. A profile says how far its measurements are from its curves, on average. Each part of
/// the time has the error of its own curve at its own size. Parts of one kind have the same kernel and size, and the
/// same relative error wherever they run. Parts of different kinds have independent errors. So the errors of parts that
/// two steps have in common cancel in their difference.
class ErrorBudget {
public:
  /// Says that `seconds` of the time may be wrong because of `kind`.
  void add(uint64_t kind, double seconds) { errors[kind] += seconds; }
  void add(const ErrorBudget &other, double times);

  /// Expected error of the time in seconds; 0 if nothing is known.
  double getSeconds() const { return getDifference({}); }
  /// Expected error of the difference between this time and the time of `other`, in seconds.
  double getDifference(const ErrorBudget &other) const;

private:
  std::map<uint64_t, double> errors; ///< by kind
};

/// Seconds of the critical path by kind of work. They add up to the step.
struct CriticalUse {
  double compute = 0, communication = 0, copy = 0;
  double waiting = 0; ///< for issue; also launches that keep no resource busy
  /// Seconds that come from measurements whose error the profile states, and the mean of these errors.
  double fitted = 0, fitError = 0;
  /// Seconds of sizes outside the measurements of the profile.
  double extrapolated = 0;
  /// Possible errors of computation with copies, and of communication, as far as they are known.
  ErrorBudget computeErrors, communicationErrors;

  /// Possible error of the step.
  ErrorBudget getErrors() const;
};

/// Memory of a rank after each change, in order of time.
struct MemoryPoint {
  double seconds;
  double bytes;
};

/// A plan in the DDL-roofline (FasterMoE, Fig. 5). FLOP/s are those of a device.
struct RooflinePoint {
  std::string schedule;
  double seconds = 0; ///< seconds of the step
  double ratio = 0;   ///< R_CC of the whole step; 0 if nothing is communicated
  double mean = 0;    ///< FLOPs / (ranks * step), Eq. 4
  /// Eq. 5 and 6: P min(1, R_CC) and P R_CC / (R_CC + 1); P if nothing is communicated.
  double ideal = 0, semiIdeal = 0;

  double getShareOfIdeal() const { return ideal > 0 ? mean / ideal : 0; }
};

/// Work of a step for the model. 0 if not known, as for a plan that was not made from a model graph.
struct StepWork {
  double modelFlops = 0; ///< by the model's definition: no recomputation, no padding
  double tokens = 0;

  StepWork operator*(double factor) const { return {modelFlops * factor, tokens * factor}; }
};

/// Speed of a device at its share of the work. 0 if not known.
struct StepSpeed {
  double flopsPerSecond = 0, tokensPerSecond = 0;
  /// Model FLOPs utilization: flopsPerSecond / peak FLOP/s of the dtype that most FLOPs of products have.
  double mfu = 0;
};

/// Speed of one device. `work` is its share of the step's work, and `peakFlops` its peak in FLOP/s.
StepSpeed getSpeed(const StepWork &work, double seconds, double peakFlops);

/// "measured steps of this kind took 0.90 to 1.50 times as long".
std::string describeTimes(const StepClass &steps);
/// "31 steps of 4 sources".
std::string describeCount(const StepClass &steps);
/// Reason why nothing is known about whole steps.
inline constexpr llvm::StringLiteral kNoMeasuredSteps = "no measured steps of this runtime and device are known";

/// Facts by which measured steps are classed.
StepFacts getStepFacts(const SimResult &result, const ClusterProfile &cluster, bool hasEvenRouting);

struct SimReport {
  int64_t numRanks = 0;           ///< all ranks, with those that were not simulated
  std::vector<RankUse> ranks;     ///< parallel to SimResult::ranks
  RankUse mean;                   ///< over all ranks, with one stream for each name
  uint32_t largestMemoryRank = 0; ///< index in SimResult::ranks of the first rank with the highest peak
  std::vector<KernelUse> kernels; ///< most seconds first
  std::vector<CriticalPiece> criticalPath;
  CriticalUse critical;
  std::optional<StepClass> measured; ///< measured steps of this kind; absent if none are known
  StepWork work;                     ///< for all ranks together
  StepSpeed speed;
  /// Point of the plan itself, without a schedule's name, and points of plans that were simulated beside it.
  RooflinePoint roofline;
  std::vector<RooflinePoint> others;
};

/// Covers the whole step, with iterations that `result` leaves out.
SimReport makeReport(const SimResult &result, const StepWork &work = {});
/// Adds the measured steps of the report's kind on `cluster`, if there are any.
void setMeasured(SimReport &report, const SimResult &result, const ClusterProfile &cluster, bool hasEvenRouting);
/// Parts of the mean rank's seconds from `begin` to `end` in SimResult::times.
StepParts getStepParts(const SimResult &result, double begin, double end);
/// Device memory of the simulated rank with index `rank`. A buffer lives from the begin of its first launch to the end
/// of its last one, and an argument always. Host-pinned buffers do not count.
std::vector<MemoryPoint> getMemoryOverTime(const SimResult &result, uint32_t rank);

/// Name of a launch in traces and tables: its kernel with its group, as "all_to_all [ep]".
std::string getLaunchName(const SimProgram &program, uint32_t launch);
/// "rank 3", or "ranks 0-7 (8 alike)".
std::string getRankName(const SimRank &rank);

/// Facts that all outputs show.
/// A step of a whole model, composed of samples of its blocks. Its launches are not known one by one.
struct SampledStep {
  int64_t ranks = 0;
  double seconds = 0, bytes = 0;     ///< bytes of the device that needs the most
  std::optional<StepClass> measured; ///< as in SimReport
};

struct SimHeader {
  std::string plan, cluster, schedule, mode;
  std::string form;           ///< closed-form or link-level
  std::string routing;        ///< even, a file, or synthetic
  std::string load;           ///< default bound of dropless rows (describeDefaultMaxLoad); may be empty
  int64_t devicesPerNode = 0; ///< 0 if not known; the page groups ranks by it
  double memoryBytes = 0;     ///< memory of a device that plans may use; 0 if not known
  std::string framework;      ///< that runs the plan; empty for MoePlan's runtime
  std::string precision = {}; ///< narrow types of its products; empty if they compute in the types of the plan
};

} // namespace mlir::moe

#endif // MOE_SIMULATOR_REPORT_H
