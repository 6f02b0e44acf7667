//===- StepParts.h - seconds of a step by kind ------------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_STEPPARTS_H
#define MOE_LIB_SIMULATOR_STEPPARTS_H

#include "moe/Simulator/Report.h"

namespace mlir::moe {

/// A part of the time of SimResult::times that is counted several times.
struct CountedSpan {
  double begin = 0, end = 0, times = 1;
};
/// The whole time once, and the repeated part as often as it is left out.
llvm::SmallVector<CountedSpan, 2> getSpans(const SimResult &result);

/// Parts of the whole step, by simulated rank.
std::vector<StepParts> getPartsByRank(const SimResult &result);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_STEPPARTS_H
