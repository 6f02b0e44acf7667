//===- RoutedMemory.h - memory by the rows that arrive ----------*- C++ -*-===//
//
// MoePlan's runtime reserves rows before a step. Other frameworks allocate as many as arrive, so that their memory
// depends on the routing.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_PLANNER_ROUTEDMEMORY_H
#define MOE_PLANNER_ROUTEDMEMORY_H

#include "moe/Planner/Planner.h"

namespace mlir::moe {
struct Candidate;

/// Memory of a device with the rows of some routing.
struct RoutedBytes {
  double load = 1;   ///< rows of the busiest rank over the mean of all ranks
  int64_t bytes = 0; ///< those of the device whose rank that is in all layers
};

struct RoutedMemory {
  RoutedBytes even, expected, worst;
};

/// Bytes with `load`, on the line through two points.
int64_t getBytesOnLine(const RoutedBytes &a, const RoutedBytes &b, double load);

/// Memory of `plan`, which was compiled, if its framework keeps the rows that arrive. The expected load is the mean
/// over layers of synthetic routing that is balanced as the model says (docs/Routing.md). Samples say how many bytes a
/// row takes, so that nothing is simulated. None for a model without dropless layers, and where
/// samples do not tell.
std::optional<RoutedMemory> getRoutedMemory(const ModelSource &source, const PlanOptions &options,
                                            const Candidate &plan);

} // namespace mlir::moe

#endif // MOE_PLANNER_ROUTEDMEMORY_H
