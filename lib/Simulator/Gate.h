//===- Gate.h - counts of the topology-aware gate ---------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_GATE_H
#define MOE_LIB_SIMULATOR_GATE_H

#include "moe/Simulator/Program.h"

#include "llvm/ADT/ArrayRef.h"

namespace mlir::moe {

/// FasterMoE's gate (moert_route, `leave` >= 0), as far as counts tell: they have no scores.
struct Gate {
  int64_t leave = 0; ///< choices of a routing group that may leave home, for each of a token's choices
  int64_t homes = 1, homeStride = 1, homeSpan = 1;
  int64_t groups = 1; ///< routing groups of the rank
  int64_t tokens = 0, topK = 0;

  /// Of a routing launch; none where its gate is the plain one.
  static std::optional<Gate> get(const SimProgram &program, const SimLaunch &launch);
  /// What is left of a rank's choices of each expert: where more than topK * leave of a group's are not at home, these
  /// many of them in proportion to their counts, and the rest for the experts at home in proportion to theirs, evenly
  /// where they have none, no expert above the group's tokens.
  std::vector<int32_t> apply(llvm::ArrayRef<int32_t> choices, int64_t rank) const;
};

/// A rank's choices of each expert, in `parts` parts of its tokens: as evenly as whole numbers allow, in parts and in
/// experts. [parts, experts].
std::vector<int32_t> divideChoices(llvm::ArrayRef<int32_t> choices, int64_t parts);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_GATE_H
