//===- SimOutput.h - a simulation as text, JSON, trace and page -*- C++ -*-===//
//
// Also the comparison of a simulated step with a measured one.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_REPORT_SIMOUTPUT_H
#define MOE_REPORT_SIMOUTPUT_H

#include "moe/Simulator/Report.h"

namespace mlir::moe {

/// Measured against predicted, for each kernel name and for the step.
struct KernelComparison {
  std::string kernel;
  double launches = 0;                              ///< mean over ranks
  double measuredSeconds = 0, predictedSeconds = 0; ///< mean over ranks
  /// (predicted - measured) / measured; 0 if nothing was measured.
  double getError() const { return measuredSeconds > 0 ? predictedSeconds / measuredSeconds - 1 : 0; }
};
struct Comparison {
  KernelComparison step;                 ///< from the first begin to the last end of any rank
  std::vector<KernelComparison> kernels; ///< most measured seconds first
};

/// A launch in a trace.
struct MeasuredOp {
  int64_t rank = 0, stream = 0;
  int64_t op = 0;            ///< number in the plan's ops table; after numberLaunches the number of the launch
  double begin = 0, end = 0; ///< seconds
  std::string name;          ///< as getLaunchName returns it
};
/// Replaces the op number of each element by the number of its launch. An op in a loop is called once in each
/// iteration: call k is the launch of iteration k.
void numberLaunches(const SimResult &result, std::vector<MeasuredOp> &measured);
/// Fails if the trace is of another plan, or if a rank does not have each op exactly once.
llvm::Expected<Comparison> compare(const SimResult &result, llvm::ArrayRef<MeasuredOp> measured);

/// Prints a table that fits a terminal of 80 columns.
void printText(const SimHeader &header, const SimResult &result, const SimReport &report, llvm::raw_ostream &os);
void printComparison(const Comparison &comparison, llvm::raw_ostream &os);
/// Writes one object, which docs/Outputs.md describes. `comparison` may be null.
void writeJson(const SimHeader &header, const SimResult &result, const SimReport &report, const Comparison *comparison,
               llvm::raw_ostream &os);
/// The same for a step from samples.
void printText(const SimHeader &header, const SampledStep &step, llvm::raw_ostream &os);
void writeJson(const SimHeader &header, const SampledStep &step, llvm::raw_ostream &os);
/// Writes a trace for Chrome and Perfetto, in the form that moe-run writes, with one process for each simulated rank.
void writeTrace(const SimResult &result, llvm::raw_ostream &os);

/// Reads a trace that moe-run wrote. An error is a complete diagnostic with a place.
llvm::Expected<std::vector<MeasuredOp>> loadTrace(llvm::StringRef path);
/// Reads a trace from the file's content.
llvm::Expected<std::vector<MeasuredOp>> parseTrace(llvm::StringRef text, llvm::StringRef fileName);

/// Writes one page without any reference to the network: timeline of all ranks, memory, roofline, tables. `measured`
/// may be empty and `comparison` null. `command` is the command line that asked for the page.
void writeHtml(llvm::StringRef command, const SimHeader &header, const SimResult &result, const SimReport &report,
               llvm::ArrayRef<MeasuredOp> measured, const Comparison *comparison, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_REPORT_SIMOUTPUT_H
