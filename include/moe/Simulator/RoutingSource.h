//===- RoutingSource.h - choices of experts for any plan --------*- C++ -*-===//
#ifndef MOE_SIMULATOR_ROUTINGSOURCE_H
#define MOE_SIMULATOR_ROUTINGSOURCE_H

#include "moe/Simulator/Program.h"
#include "moe/Simulator/Routing.h"

#include <optional>

namespace mlir::moe {

/// Routing for plans that divide the tokens of one model differently. The trace has the model's experts.
struct RoutingSource {
  /// Recorded trace; absent for synthetic routing.
  std::optional<RoutingTrace> trace;
  SyntheticRouting synthetic;

  /// Makes one iteration for `programs` of `ranks` ranks from the first iteration of the trace. If the plan has more
  /// ranks, each rank of the trace stands for several neighbouring ones; if it has fewer, each takes the first of
  /// several. Counts are scaled to the tokens of the plan's ranks. A layer that the trace does not have is like its
  /// last one. The result is empty if the programs route nothing. Fails if the layers of the programs differ, or if the
  /// trace has other experts.
  llvm::Expected<RoutingTrace> getTrace(const std::vector<SimProgram> &programs, int64_t ranks) const;
};

/// Scales `counts` of experts in proportion, so that `tokens` tokens choose `topK` different experts each.
std::vector<int32_t> scaleCounts(llvm::ArrayRef<int32_t> counts, int64_t tokens, int64_t topK);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_ROUTINGSOURCE_H
