//===- RoutingSource.h - what tokens choose, for any plan -------*- C++ -*-===//
#ifndef MOE_SIMULATOR_ROUTINGSOURCE_H
#define MOE_SIMULATOR_ROUTINGSOURCE_H

#include "moe/Simulator/Program.h"
#include "moe/Simulator/Routing.h"

#include <optional>

namespace mlir::moe {

/// Routing for plans that differ in how they divide the tokens of one model. The trace's experts are the model's.
struct RoutingSource {
  /// Recorded; absent: synthetic.
  std::optional<RoutingTrace> trace;
  SyntheticRouting synthetic;

  /// One iteration for `programs` of `ranks` ranks: the first one of the trace, of whose ranks each stands for as many
  /// neighbouring ones of the plan, or is the first of as many; counts are scaled to the tokens of the plan's ranks. A
  /// layer that the trace does not have is like its last one. An empty trace where the programs route nothing. Fails
  /// where layers differ, and where the trace has other experts.
  llvm::Expected<RoutingTrace> getTrace(const std::vector<SimProgram> &programs, int64_t ranks) const;
};

/// `counts` by expert in proportion, so that `tokens` tokens choose `topK` different experts each.
std::vector<int32_t> scaleCounts(llvm::ArrayRef<int32_t> counts, int64_t tokens, int64_t topK);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_ROUTINGSOURCE_H
