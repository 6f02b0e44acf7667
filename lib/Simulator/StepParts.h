//===- StepParts.h - where the seconds of a step go -------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_STEPPARTS_H
#define MOE_LIB_SIMULATOR_STEPPARTS_H

#include "moe/Simulator/Report.h"

namespace mlir::moe {

/// The parts of the seconds from `begin` to `end`, by simulated rank.
std::vector<StepParts> getPartsByRank(const SimResult &result, double begin, double end);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_STEPPARTS_H
