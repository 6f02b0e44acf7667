//===- Confidences.h - confidence in predicted times ------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_CONFIDENCES_H
#define MOE_LIB_SIMULATOR_CONFIDENCES_H

#include "Engine.h"

namespace mlir::moe {

/// Computes SimResult::confidences.
std::vector<std::vector<Confidence>> findConfidences(const Execution &execution);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_CONFIDENCES_H
