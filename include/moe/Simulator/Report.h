//===- Report.h - what a simulated step says --------------------*- C++ -*-===//
#ifndef MOE_SIMULATOR_REPORT_H
#define MOE_SIMULATOR_REPORT_H

#include "moe/Simulator/Simulator.h"

#include "llvm/Support/raw_ostream.h"

namespace mlir::moe {

/// Use of one stream of a rank.
struct StreamUse {
  std::string stream;
  double busy = 0, idle = 0; ///< seconds; they add up to the step
};

/// One rank's step.
struct RankUse {
  std::vector<StreamUse> streams;
  double compute = 0, communication = 0, copy = 0; ///< seconds with any such launch under way
  double exposedCommunication = 0;                 ///< seconds with communication and no computation under way
  double peakBytes = 0; ///< arguments, results and live buffers
};

/// All launches of one kernel name: sums over the simulated ranks' counts, divided by the number of ranks.
struct KernelUse {
  std::string kernel; ///< with its group, as "all_to_all [ep]"
  double launches = 0, seconds = 0, flops = 0, bytes = 0;
  double criticalSeconds = 0; ///< on the critical path
};

/// A piece of the critical path; pieces follow one another without gaps from 0 to the step's end.
struct CriticalPiece {
  int32_t time = -1; ///< into SimResult::times; -1: waiting for issue
  double begin = 0, end = 0;
};

/// Memory of a rank after each change, in order of time.
struct MemoryPoint {
  double seconds;
  double bytes;
};

struct SimReport {
  std::vector<RankUse> ranks; ///< as SimResult::ranks
  std::vector<KernelUse> kernels;
  std::vector<CriticalPiece> criticalPath;
  double meanFlopsPerSecond = 0; ///< FLOPs / (ranks * step), FasterMoE Eq. 4
  double idealFlopsPerSecond = 0, semiIdealFlopsPerSecond = 0; ///< Eq. 5, 6
};

SimReport makeReport(const SimResult &result);
std::vector<MemoryPoint> getMemoryOverTime(const SimResult &result, uint32_t rank);

/// What is common to all outputs.
struct SimHeader {
  std::string plan, cluster, schedule, mode;
  std::string form;    ///< closed-form or link-level
  std::string routing; ///< even, a file, or synthetic
};

/// A table that fits a terminal.
void printText(const SimHeader &header, const SimResult &result, const SimReport &report, llvm::raw_ostream &os);
/// One object; docs/CostModel.md.
void writeJson(const SimHeader &header, const SimResult &result, const SimReport &report, llvm::raw_ostream &os);
/// Chrome/Perfetto, in the form in which moe-run writes it.
void writeTrace(const SimResult &result, llvm::raw_ostream &os);

/// A trace that moe-run wrote, beside the prediction.
struct MeasuredOp {
  int64_t rank, stream, op; ///< op: the launch's number in the program
  double begin, end;        ///< seconds
  std::string name;
};
llvm::Expected<std::vector<MeasuredOp>> loadTrace(llvm::StringRef path);

/// Measured against predicted, for each kernel name and for the step.
struct KernelComparison {
  std::string kernel;
  double launches = 0;
  double measuredSeconds = 0, predictedSeconds = 0; ///< mean over ranks
};
struct Comparison {
  double measuredSeconds = 0, predictedSeconds = 0;
  std::vector<KernelComparison> kernels;
};
/// Fails where the trace is of another plan: other ranks, ops or kernels.
llvm::Expected<Comparison> compare(const SimResult &result, llvm::ArrayRef<MeasuredOp> measured);

/// One page without any reference to the network: timeline of all ranks, memory, roofline; `measured` may be empty.
void writeHtml(const SimHeader &header, const SimResult &result, const SimReport &report,
               llvm::ArrayRef<MeasuredOp> measured, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_REPORT_H
