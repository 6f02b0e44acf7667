//===- Compare.h - a measured step beside the predicted one -----*- C++ -*-===//
#ifndef MOE_REPORT_COMPARE_H
#define MOE_REPORT_COMPARE_H

#include "moe/Simulator/Simulator.h"

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
/// Fails if the trace is of another plan, with other ranks, ops, streams or kernels, or if a rank does not have each op
/// exactly once.
llvm::Expected<Comparison> compare(const SimResult &result, llvm::ArrayRef<MeasuredOp> measured);

} // namespace mlir::moe

#endif // MOE_REPORT_COMPARE_H
