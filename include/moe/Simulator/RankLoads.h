//===- RankLoads.h - loads of ranks with experts ----------------*- C++ -*-===//
#ifndef MOE_SIMULATOR_RANKLOADS_H
#define MOE_SIMULATOR_RANKLOADS_H

#include "moe/Simulator/Routing.h"

namespace mlir::moe {

/// Loads of ranks in layers with synthetic routing (docs/Routing.md). Each token chooses `topK` of `experts` experts.
class RankLoads {
public:
  RankLoads(const RoutingPreset &preset, int64_t experts, int64_t topK);

  /// Share of layers in which one of `ranks` ranks gets more than `load` times the mean load. Each rank has the same
  /// number of experts; 0 if that is impossible.
  double getShareAbove(double load, int64_t ranks) const;

private:
  RoutingTrace trace;
};

} // namespace mlir::moe

#endif // MOE_SIMULATOR_RANKLOADS_H
