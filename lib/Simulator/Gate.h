//===- Gate.h - counts of the topology-aware gate ---------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_GATE_H
#define MOE_LIB_SIMULATOR_GATE_H

#include "moe/OpFacts/CountsRule.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace mlir::moe {

/// Applies FasterMoE's gate to a rank's choices of each expert. Counts have no scores, so this is an approximation. If
/// more than topK * leave choices of a group leave home, that many stay in their places, in proportion to their counts.
/// The others go to the experts at home, in proportion to the counts there, or evenly if these are zero. No expert gets
/// more choices than the group has tokens.
std::vector<int32_t> applyGate(const counts::RouteNearHome &gate, llvm::ArrayRef<int32_t> choices, int64_t rank);

/// Divides a rank's choices of each expert into `parts` parts of its tokens, as evenly as whole numbers allow in parts
/// and in experts. [parts, experts].
std::vector<int32_t> divideChoices(llvm::ArrayRef<int32_t> choices, int64_t parts);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_GATE_H
