//===- Ranks.cu - sums of counted items -----------------------------------===//

#include "cuda/Ranks.cuh"

namespace moert::cuda {
namespace {

constexpr int kStrips = kThreads / kWarp;

/// Adds up tiles. A block takes 32 keys of a segment, and each strip of its threads takes some of the tiles.
__global__ void __launch_bounds__(kThreads)
    addTilesKernel(Ranking ranking, int64_t work, int32_t *tileCounts, int32_t *totals) {
  __shared__ int32_t sums[kStrips][kWarp];
  const int64_t perSegment = work / ranking.segments;
  for (int64_t i = blockIdx.x; i < work; i += gridDim.x) {
    const int64_t segment = i / perSegment, key = i % perSegment * kWarp + threadIdx.x;
    const int64_t begin = ranking.tiles * threadIdx.y / kStrips, end = ranking.tiles * (threadIdx.y + 1) / kStrips;
    int32_t *counts = tileCounts + segment * ranking.tiles * ranking.keys + key;
    int32_t sum = 0;
    if (key < ranking.keys)
#pragma unroll 8
      for (int64_t tile = begin; tile < end; ++tile)
        sum += counts[tile * ranking.keys];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    int32_t before = 0, total = 0;
    for (int y = 0; y < kStrips; ++y) {
      before += y < static_cast<int>(threadIdx.y) ? sums[y][threadIdx.x] : 0;
      total += sums[y][threadIdx.x];
    }
    __syncthreads();
    if (key >= ranking.keys)
      continue;
#pragma unroll 8
    for (int64_t tile = begin; tile < end; ++tile) {
      const int32_t count = counts[tile * ranking.keys];
      counts[tile * ranking.keys] = before;
      before += count;
    }
    if (threadIdx.y == 0)
      totals[segment * ranking.keys + key] = total;
  }
}

__global__ void __launch_bounds__(kThreads) sumOffsetsKernel(const int32_t *totals, int64_t segments, int64_t keys,
                                                             int64_t stride, int32_t *offsets, int32_t *ends) {
  for (int64_t segment = blockIdx.x; segment < segments; segment += gridDim.x) {
    const auto first = static_cast<int32_t>(segment * stride);
    const auto count = scanBlock<int32_t>(
        keys, [&](int64_t key) { return totals[segment * keys + key]; },
        [&](int64_t key, int32_t own, int32_t sum) { offsets[segment * keys + key] = first + sum - own; });
    if (ends && threadIdx.x == 0)
      ends[segment] = first + count;
  }
}

} // namespace

Status addTiles(const Target &target, const Ranking &ranking, int32_t *tileCounts, int32_t *totals) {
  const int64_t work = ranking.segments * divideUp(ranking.keys, kWarp);
  Grid grid = gridOf(target, work * kThreads);
  grid.threads = dim3(kWarp, kStrips);
  return launch(addTilesKernel, grid, target, ranking, work, tileCounts, totals);
}

Status sumOffsets(const Target &target, const int32_t *totals, int64_t segments, int64_t keys, int64_t stride,
                  int32_t *offsets, int32_t *ends) {
  if (segments == 0)
    return {};
  return launch(sumOffsetsKernel, gridOf(target, segments * kThreads), target, totals, segments, keys, stride, offsets,
                ends);
}

} // namespace moert::cuda
