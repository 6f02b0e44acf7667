//===- RoutePlace.cuh - rows of a dropless routing ------------------------===//
//
// Second and last kernel of the usual routing: one group of tokens, one chunk, no capacity. The first kernel counts the
// choices of parts of the tokens. Here each block adds up the counts that it needs, and ranks the choices of its part.
// Slots and counts thereby do not depend on the order of threads.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_ROUTEPLACE_CUH
#define MOERT_CUDA_ROUTEPLACE_CUH

#include "cuda/RouteGate.cuh"

namespace moert::cuda {

/// Largest number of experts whose counts a block has room for.
inline constexpr int kMostPlaced = 512;

/// Operands of the kernel. A is the type of sums of probabilities, O of the auxiliary loss.
template <class A, class O> struct Placing : RoutePlan {
  const int32_t *chosen = nullptr;     ///< [tokens, choices]
  const int32_t *partCounts = nullptr; ///< [parts, E]
  const A *partial = nullptr;          ///< [parts, E]: sums of probabilities
  int32_t *slots = nullptr;            ///< [tokens, choices]
  int32_t *counts = nullptr;           ///< [E]
  int32_t *sources = nullptr;          ///< [tokens * choices]: the choice of each row
  int32_t *loads = nullptr;            ///< [E]
  int64_t *offsets = nullptr;          ///< [E+1]
  double auxFactor = 0;                ///< factor of the sum of loads times probabilities
  O *aux = nullptr;
};

/// Calls finish(expert, sum of at(part, expert) over all parts). Experts are side by side in the block, and the
/// remaining threads form strips that take several parts at a time.
template <class Sum, class At, class Finish>
__device__ void sumParts(int experts, int64_t parts, At at, Finish finish) {
  __shared__ Sum all[kThreads];
  int columns = kWarp; // a power of two
  while (columns < experts && columns < kThreads)
    columns *= 2;
  const int strips = kThreads / columns, strip = static_cast<int>(threadIdx.x) / columns,
            column = static_cast<int>(threadIdx.x) % columns;
  for (int first = 0; first < experts; first += columns) {
    const int expert = first + column;
    Sum sum{};
    if (expert < experts)
#pragma unroll 8
      for (int64_t part = strip; part < parts; part += strips)
        sum += at(part, expert);
    all[threadIdx.x] = sum;
    __syncthreads();
    if (strip == 0 && expert < experts) {
      for (int other = 1; other < strips; ++other)
        sum += all[other * columns + column];
      finish(expert, sum);
    }
    __syncthreads();
  }
}

/// Choices of all parts, and of those before a part.
struct PartCounts {
  int32_t all, before;

  __device__ PartCounts &operator+=(PartCounts other) {
    all += other.all;
    before += other.before;
    return *this;
  }
};

/// Counts the choices by expert, in shared memory.
template <class A, class O>
__device__ void addPartCounts(const Placing<A, O> &placing, int64_t part, int32_t *totals, int32_t *before) {
  auto at = [&](int64_t p, int expert) {
    const int32_t count = placing.partCounts[p * placing.experts + expert];
    return PartCounts{count, p < part ? count : 0};
  };
  sumParts<PartCounts>(placing.experts, placing.parts, at, [=](int expert, PartCounts counts) {
    totals[expert] = counts.all;
    before[expert] = counts.before;
  });
}

/// Computes the auxiliary loss: the sum over experts of their loads times their probabilities.
template <class A, class O> __device__ void sumAuxiliary(const Placing<A, O> &placing, const int32_t *totals) {
  double mine = 0;
  auto at = [&](int64_t p, int expert) { return convert<double>(placing.partial[p * placing.experts + expert]); };
  sumParts<double>(placing.experts, placing.parts, at, [&](int expert, double sum) { mine += sum * totals[expert]; });
  const double sum = blockSum(mine);
  if (threadIdx.x == 0)
    *placing.aux = convert<O>(placing.auxFactor * sum);
}

/// Turns the counts before a part into the first rows of the part. The first part's block also writes them for other
/// ops.
template <class A, class O>
__device__ void startRows(const Placing<A, O> &placing, int64_t part, const int32_t *totals, int32_t *before) {
  auto totalOf = [=](int64_t expert) { return totals[expert]; };
  scanBlock<int32_t>(placing.experts, totalOf, [&](int64_t expert, int32_t count, int32_t end) {
    before[expert] += end - count;
    if (part == 0) {
      placing.counts[expert] = placing.loads[expert] = count;
      placing.offsets[expert + 1] = end;
    }
  });
  if (part == 0 && threadIdx.x == 0)
    placing.offsets[0] = 0;
}

/// Places a part's choices in their order, with one warp. `next` is the next row of each expert.
template <class A, class O> __device__ void placePart(const Placing<A, O> &placing, int64_t part, int32_t *next) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t begin = placing.groupTokens * part / placing.parts * placing.choices;
  const int64_t end = placing.groupTokens * (part + 1) / placing.parts * placing.choices;
  for (int64_t first = begin; first < end; first += kWarp) {
    const bool isChoice = first + lane < end;
    const int32_t expert = isChoice ? placing.chosen[first + lane] : -1;
    const unsigned like = __match_any_sync(kFullMask, static_cast<unsigned>(expert));
    const int rank = __popc(like & ((1u << lane) - 1));
    const int32_t row = isChoice ? next[expert] + rank : 0;
    __syncwarp();
    if (isChoice && rank == 0)
      next[expert] = row + __popc(like);
    __syncwarp();
    if (isChoice) {
      placing.slots[first + lane] = row;
      placing.sources[row] = static_cast<int32_t>(first + lane);
    }
  }
}

/// Places all choices. Each part has a block, and the last block computes the auxiliary loss.
template <class A, class O> __global__ void __launch_bounds__(kThreads) placeKernel(Placing<A, O> placing) {
  __shared__ int32_t totals[kMostPlaced], before[kMostPlaced];
  const int64_t part = blockIdx.x;
  addPartCounts(placing, part, totals, before);
  if (part == placing.parts) {
    sumAuxiliary(placing, totals);
    return;
  }
  startRows(placing, part, totals, before);
  __syncthreads();
  if (threadIdx.x < kWarp)
    placePart(placing, part, before);
}

} // namespace moert::cuda

#endif // MOERT_CUDA_ROUTEPLACE_CUH
