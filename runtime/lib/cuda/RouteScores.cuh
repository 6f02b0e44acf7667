//===- RouteScores.cuh - scores, choices and weights of tokens ------------===//
//
// A warp computes a token. It keeps the token's row of experts in registers from the logits to the weights. All results
// of a token come from its own row, in an order that only the number of experts decides.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_ROUTESCORES_CUH
#define MOERT_CUDA_ROUTESCORES_CUH

#include "core/Kernels.h"
#include "cuda/LaneRow.cuh"
#include "cuda/RouteGate.cuh"

namespace moert::cuda {

/// Operands of a route. T is the type of logits, O of scores and values of that type.
template <class T, class O> struct RouteData {
  using A = Acc<T, O>;
  const T *logits;
  const O *bias;         ///< may be null
  const int32_t *forced; ///< may be null
  O *scores;
  A *wideScores; ///< the scores in A if O is narrower and they are needed, or null
  int32_t *experts;
  O *weights;
  A *partial;          ///< [groups * parts, E]: sums of normalised scores
  int32_t *partCounts; ///< [groups * parts, E]: choices, or null if they are not needed
  FaultSite site;
};

// --- Scores ------------------------------------------------------------------

/// Softmax of a row. The maximum ignores NaNs, which reach every score through the sum.
template <class A, int N> __device__ void softmax(LaneRow<A, N> &row, int columns) {
  A largest = -kInfinity<A>, sum = 0;
  forSteps<N>(columns, [&](int i) {
    if (laneColumn(i) < columns)
      largest = row[i] > largest ? row[i] : largest;
  });
  largest = warpMax(largest);
  forSteps<N>(columns, [&](int i) {
    if (laneColumn(i) < columns) {
      row[i] = expOrZero(row[i] - largest);
      sum += row[i];
    }
  });
  const A factor = 1 / warpSum(sum);
  forSteps<N>(columns, [&](int i) { row[i] *= factor; });
}

/// Sigmoid of each score. Returns their sum.
template <class A, int N> __device__ A sigmoid(LaneRow<A, N> &row, int columns) {
  A sum = 0;
  forSteps<N>(columns, [&](int i) {
    if (laneColumn(i) < columns) {
      row[i] = 1 / (1 + expOfMinus<A>(row[i]));
      sum += row[i];
    }
  });
  return warpSum(sum);
}

/// Computes the scores of token s, and adds to `sums` the probabilities that the auxiliary loss averages.
template <int N, class T, class O, class A>
__device__ void scoreToken(const RoutePlan &plan, const RouteData<T, O> &data, int64_t s, LaneRow<A, N> &row,
                           LaneRow<A, N> &sums) {
  const int64_t first = s * plan.experts;
  forSteps<N>(plan.experts, [&](int i) {
    row[i] = laneColumn(i) < plan.experts ? convert<A>(data.logits[first + laneColumn(i)]) : A(0);
  });
  A factor = 1;
  if (plan.isSoftmax())
    softmax(row, plan.experts);
  else
    factor = 1 / sigmoid(row, plan.experts);
  forSteps<N>(plan.experts, [&](int i) {
    if (laneColumn(i) < plan.experts) {
      data.scores[first + laneColumn(i)] = convert<O>(row[i]);
      if (data.wideScores)
        data.wideScores[first + laneColumn(i)] = row[i];
      sums[i] += factor * row[i];
    }
  });
}

// --- Choices -----------------------------------------------------------------

/// Score of a group of experts, from the keys of its experts.
template <class A, int N>
__device__ Ordered<A> groupKey(LaneRow<Ordered<A>, N> &keys, int columns, int first, int size, bool isTop2) {
  Ordered<A> best = 0, second = 0;
  forSteps<N>(columns, [&](int i) {
    if (static_cast<unsigned>(laneColumn(i) - first) < static_cast<unsigned>(size)) {
      second = keys[i] > best ? best : keys[i] > second ? keys[i] : second;
      best = keys[i] > best ? keys[i] : best;
    }
  });
  const Ordered<A> all = warpMax(best);
  if (!isTop2 || size == 1)
    return all;
  // The first lane that has the best key gives its second best.
  const int owner = __ffs(static_cast<int>(__ballot_sync(kFullMask, best == all))) - 1;
  const Ordered<A> next = warpMax(static_cast<int>(threadIdx.x % kWarp) == owner ? second : best);
  return toOrdered(fromOrdered<A>(all) + fromOrdered<A>(next));
}

/// Clears the keys of all experts that are not in one of the best groups.
template <class A, int N>
__device__ void keepBestGroups(const RoutePlan &plan, LaneRow<Ordered<A>, N> &keys, LaneRow<Ordered<A>, N> &groups,
                               LaneRow<Ordered<A>, N> &kept) {
  const int columns = plan.experts, size = columns / static_cast<int>(plan.expertGroups);
  forSteps<N>(columns, [&](int i) { groups[i] = kept[i] = 0; });
  for (int g = 0; g < plan.expertGroups; ++g) {
    const Ordered<A> key = groupKey<A>(keys, columns, g * size, size, plan.groupScore == MOERT_GROUP_TOP2);
    updateAt(groups, g, [=](Ordered<A>) { return key; });
  }
  for (int n = 0; n < plan.topGroups; ++n) {
    const int first = takeLargest(groups, columns) * size;
    forSteps<N>(columns, [&](int i) {
      if (static_cast<unsigned>(laneColumn(i) - first) < static_cast<unsigned>(size))
        kept[i] = keys[i];
    });
  }
  forSteps<N>(columns, [&](int i) { keys[i] = kept[i]; });
}

/// Takes the forced experts of token s. A number that is no expert becomes expert 0, which does no harm because the
/// step fails.
template <class T, class O> __device__ void takeForced(const RoutePlan &plan, const RouteData<T, O> &data, int64_t s) {
  const int32_t *forced = data.forced + s * plan.choices;
  for (int j = threadIdx.x % kWarp; j < plan.choices; j += kWarp) {
    const bool isExpert = forced[j] >= 0 && forced[j] < plan.experts;
    if (!isExpert)
      raise(data.site, FaultKind::ForcedRange, plan.experts, forced[j]);
    for (int i = 0; isExpert && i < j; ++i)
      if (forced[i] == forced[j])
        raise(data.site, FaultKind::ForcedTwice, s, forced[j]);
    data.experts[s * plan.choices + j] = isExpert ? forced[j] : 0;
  }
}

/// Keys of all experts. `groups` and `kept` are for group-limited routing.
template <class A, int N> struct KeyRows {
  LaneRow<Ordered<A>, N> keys, groups, kept;
};

template <int N, class T, class O, class A>
__device__ void chooseExperts(const RoutePlan &plan, const RouteData<T, O> &data, int64_t s, LaneRow<A, N> &scores,
                              KeyRows<A, N> &rows) {
  forSteps<N>(plan.experts, [&](int i) {
    rows.keys[i] = laneColumn(i) < plan.experts ? selectionKey(scores[i], data.bias, laneColumn(i)) : 0;
  });
  if (plan.topGroups < plan.expertGroups)
    keepBestGroups<A>(plan, rows.keys, rows.groups, rows.kept);
  for (int j = 0; j < plan.choices; ++j) {
    const int expert = takeLargest(rows.keys, plan.experts);
    if (static_cast<int>(threadIdx.x % kWarp) == j % kWarp)
      data.experts[s * plan.choices + j] = expert;
  }
}

// --- Weights -----------------------------------------------------------------

/// Calls store(j, weight) for all choices j. It asks for score(j) in the order of the choices.
template <class A, class Score, class Store>
__device__ __forceinline__ void weighChoices(const RoutePlan &plan, Score score, Store store) {
  A sum = 0, scale = static_cast<A>(plan.routingScale);
  for (int j = 0; plan.renormalize && j < plan.choices; ++j)
    sum += score(j);
  if (plan.renormalize)
    scale /= sum + A(1e-20);
  for (int j = 0; j < plan.choices; ++j)
    store(j, score(j) * scale);
}

/// Computes the weights, with a warp that has the scores.
template <int N, class T, class O, class A>
__device__ void weighToken(const RoutePlan &plan, const RouteData<T, O> &data, int64_t s, LaneRow<A, N> &scores) {
  const int lane = threadIdx.x % kWarp;
  const int32_t *experts = data.experts + s * plan.choices;
  O *weights = data.weights + s * plan.choices;
  int32_t loaded = 0;
  auto score = [&](int j) {
    if (j % kWarp == 0)
      loaded = j + lane < plan.choices ? experts[j + lane] : 0;
    return valueAt(scores, __shfl_sync(kFullMask, loaded, j % kWarp));
  };
  auto store = [=](int j, A weight) {
    if (lane == j % kWarp)
      weights[j] = convert<O>(weight);
  };
  weighChoices<A>(plan, score, store);
}

/// Computes the weights after the topology-aware gate, with a thread for each token.
template <class O, class A>
__global__ void __launch_bounds__(kThreads)
    weighKernel(RoutePlan plan, const A *scores, const int32_t *experts, O *weights) {
  const int64_t tokens = plan.groups * plan.groupTokens, stride = int64_t(gridDim.x) * kThreads;
  for (int64_t s = int64_t(blockIdx.x) * kThreads + threadIdx.x; s < tokens; s += stride) {
    const int32_t *mine = experts + s * plan.choices;
    weighChoices<A>(
        plan, [=](int j) { return scores[s * plan.experts + mine[j]]; },
        [=](int j, A weight) { weights[s * plan.choices + j] = convert<O>(weight); });
  }
}

// --- Counts ------------------------------------------------------------------

/// Counters of the block, one for each expert.
inline __device__ void clearCounters(int32_t *counters, int experts) {
  for (int e = threadIdx.x; e < experts; e += kThreads)
    counters[e] = 0;
  __syncthreads();
}
/// Counts the choices of token s, with the warp that has them.
template <class T, class O>
__device__ void countToken(const RoutePlan &plan, const RouteData<T, O> &data, int64_t s, int32_t *counters) {
  for (int j = threadIdx.x % kWarp; j < plan.choices; j += kWarp)
    atomicAdd(counters + data.experts[s * plan.choices + j], 1);
}
inline __device__ void storeCounters(const int32_t *counters, int experts, int32_t *to) {
  __syncthreads();
  for (int e = threadIdx.x; e < experts; e += kThreads)
    to[e] = counters[e];
  __syncthreads();
}

// --- All of a token ----------------------------------------------------------

/// Computes to[columns], the sum over the warps of the block in their order.
template <class A, int N> __device__ void sumWarps(LaneRow<A, N> &row, int columns, A *to) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ A sums[kWarps][kWarp];
  forSteps<N>(columns, [&](int i) {
    sums[threadIdx.x / kWarp][threadIdx.x % kWarp] = row[i];
    __syncthreads();
    A sum = 0;
    for (int warp = 0; warp < kWarps; ++warp)
      sum += sums[warp][threadIdx.x % kWarp];
    if (threadIdx.x < kWarp && laneColumn(i) < columns)
      to[laneColumn(i)] = sum;
    __syncthreads();
  });
}

template <int N, class T, class O>
__global__ void __launch_bounds__(kThreads)
    routeKernel(RoutePlan plan, RouteData<T, O> data, char *memory, int64_t perWarp) {
  using A = Acc<T, O>;
  int32_t *counters = sharedMemory<int32_t>();
  LaneMemory lanes(memory, perWarp);
  auto scores = lanes.row<A, N>(plan.experts), sums = lanes.row<A, N>(plan.experts);
  KeyRows<A, N> keys{lanes.row<Ordered<A>, N>(plan.experts), lanes.row<Ordered<A>, N>(plan.experts),
                     lanes.row<Ordered<A>, N>(plan.experts)};
  for (int64_t part = blockIdx.x; part < plan.groups * plan.parts; part += gridDim.x) {
    const int64_t first = part / plan.parts * plan.groupTokens, i = part % plan.parts;
    const int64_t begin = first + plan.groupTokens * i / plan.parts;
    const int64_t end = first + plan.groupTokens * (i + 1) / plan.parts;
    forSteps<N>(plan.experts, [&](int n) { sums[n] = 0; });
    if (data.partCounts)
      clearCounters(counters, plan.experts);
    for (int64_t s = begin + threadIdx.x / kWarp; s < end; s += kThreads / kWarp) {
      scoreToken(plan, data, s, scores, sums);
      if (data.forced)
        takeForced(plan, data, s);
      else
        chooseExperts(plan, data, s, scores, keys);
      // The lanes read each other's choices.
      __syncwarp();
      if (!plan.isGated)
        weighToken(plan, data, s, scores);
      if (data.partCounts)
        countToken(plan, data, s, counters);
    }
    if (data.partCounts)
      storeCounters(counters, plan.experts, data.partCounts + part * plan.experts);
    sumWarps(sums, plan.experts, data.partial + part * plan.experts);
  }
}

} // namespace moert::cuda

#endif // MOERT_CUDA_ROUTESCORES_CUH
