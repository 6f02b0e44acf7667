//===- Gate.h - counts of the topology-aware gate ---------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_GATE_H
#define MOE_LIB_SIMULATOR_GATE_H

#include "moe/OpFacts/CountsRule.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace mlir::moe {

/// FasterMoE's gate on a rank's choices of each expert, as far as counts tell: they have no scores. Where more than
/// topK * leave choices of a group leave home, so many of them stay, in proportion to their counts. The others go to
/// the experts at home in proportion to theirs, or evenly where these have none; no expert gets more than the group's
/// tokens.
std::vector<int32_t> applyGate(const counts::RouteNearHome &gate, llvm::ArrayRef<int32_t> choices, int64_t rank);

/// A rank's choices of each expert, in `parts` parts of its tokens: as evenly as whole numbers allow, in parts and in
/// experts. [parts, experts].
std::vector<int32_t> divideChoices(llvm::ArrayRef<int32_t> choices, int64_t parts);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_GATE_H
