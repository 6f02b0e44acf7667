//===- RankLoads.cpp - loads of ranks with experts ------------------------===//
#include "moe/Simulator/RankLoads.h"

#include <algorithm>
#include <numeric>

using namespace mlir::moe;

/// Number of layers, enough for differences below one percent.
static constexpr int64_t kLayers = 1000;
/// Number of tokens. With so many, drawing them adds almost nothing to the spread of the experts.
static constexpr int64_t kTokens = int64_t(1) << 16;

RankLoads::RankLoads(const RoutingPreset &preset, int64_t experts, int64_t topK) {
  SyntheticRouting routing;
  routing.preset = preset;
  trace = routing.generate(/*ranks=*/1, kLayers, experts, kTokens, topK);
}

double RankLoads::getShareAbove(double load, int64_t ranks) const {
  // Layers may have different numbers of experts. These ranks cannot hold equal parts of these experts.
  if (trace.getNumExperts() % ranks != 0)
    return 0;
  int64_t own = trace.getNumExperts() / ranks, above = 0;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::vector<int32_t> &counts = *trace.getCounts(/*iteration=*/0, layer);
    int64_t most = 0;
    for (auto rank = counts.begin(); rank != counts.end(); rank += own)
      most = std::max(most, std::accumulate(rank, rank + own, int64_t(0)));
    auto mean =
        static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t(0))) / static_cast<double>(ranks);
    above += static_cast<double>(most) > load * mean;
  }
  return static_cast<double>(above) / kLayers;
}
