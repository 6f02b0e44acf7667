//===- AttentionGrad.cuh - shared parts of attention's gradients ----------===//
#ifndef MOERT_CUDA_ATTENTIONGRAD_CUH
#define MOERT_CUDA_ATTENTIONGRAD_CUH

#include "cuda/Attention.cuh"
#include "cuda/Map.cuh"
#include "cuda/Reduce.cuh"

namespace moert::cuda::attention {

/// Rows of one step.
inline constexpr int kGradStep = 32;

// --- Statistics of queries ---------------------------------------------------

/// Computes stats [B, H, L], one warp for each query and head.
template <int N, class T, class L>
__global__ void __launch_bounds__(kThreads)
    rowStatsKernel(const T *attended, const T *grads, const L *lse, AttentionShape shape, RowStats<Acc<T>> *stats) {
  using A = Acc<T>;
  const int64_t count = shape.sequences * shape.queries * shape.heads, columns = shape.valueWidth;
  for (int64_t i = globalThread() / kWarp; i < count; i += globalThreads() / kWarp) {
    const A delta = warpDot<N, A>(attended + i * columns, grads + i * columns, columns);
    const int64_t row = i / shape.heads, h = i - row * shape.heads, b = row / shape.queries;
    const A sum = convert<A>(lse[i]), infinity = std::numeric_limits<A>::infinity();
    if (threadIdx.x % kWarp == 0)
      stats[(b * shape.heads + h) * shape.queries + row - b * shape.queries] = {sum == -infinity ? infinity : sum,
                                                                                delta};
  }
}

/// Checks the sizes of a gradient's problem, and computes the stats of all queries, in the workspace.
template <class T>
Status rowStats(const Target &target, Problem<T> &problem, View attended, View lse, View grads,
                const RowStats<Acc<T>> *&stats) {
  const AttentionShape &shape = problem.shape;
  const int64_t count = lse.elements();
  RowStats<Acc<T>> *memory = nullptr;
  MOERT_RETURN_IF_ERROR(checkSizes(target, shape));
  MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(count, memory));
  problem.areValuesAligned = problem.areValuesAligned && areAligned(grads.as<T>());
  stats = memory;
  if (count == 0)
    return {};
  return withBeside<T>(lse.dtype, [&]<class L>(Type<L>) {
    constexpr int kWidth = kVector<T>;
    const bool isVector = areAligned(attended.as<T>(), grads.as<T>()) && shape.valueWidth % kWidth == 0;
    return launch(isVector ? rowStatsKernel<kWidth, T, L> : rowStatsKernel<1, T, L>, gridOf(target, count * kWarp),
                  target, attended.as<const T>(), grads.as<const T>(), lse.as<const L>(), shape, memory);
  });
}

/// Statistics of the lane's two queries. Missing queries have any value.
template <class A> struct LaneStats {
  RowStats<A> of[2];

  __device__ LaneStats(const RowStats<A> *ofHead, const LaneRows &rows, int64_t queries) {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      of[r] = rows.index[r] < queries ? ofHead[rows.index[r]] : RowStats<A>{A(0), A(0)};
  }
};

// --- Gradients of scores -----------------------------------------------------

/// Turns `score`, the product of a query and a key, into the probability with dropout, and `grad`, the gradient of that
/// probability, into the gradient of the score.
template <class T, class A>
__device__ __forceinline__ void gradScore(A &score, A &grad, A scale, A bias, RowStats<A> stats, A factor) {
  const A p = expOf<T>(scale * score + bias - stats.lse);
  grad = p * (factor * grad - stats.delta);
  score = p * factor;
}

/// Applies this to a tile whose rows are queries.
template <class T, class A, int N>
__device__ __forceinline__ void gradScores(A (&scores)[N][4], A (&grads)[N][4], const Problem<T> &problem, int64_t b,
                                           int64_t h, const LaneRows &rows, const LaneStats<A> &stats, int key) {
  const A scale = static_cast<A>(problem.scale);
  const T *bias = problem.biasOf(h);
  const DropoutMask mask = problem.mask();
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int column = key + 8 * n + laneColumn();
    A factors[4] = {1, 1, 1, 1};
    if (problem.step)
      factorsByQueries(mask, problem.maskRow(b, h), rows, column, factors);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = e / 2, at = column + e % 2;
      if (rows.sees(r, at)) {
        const A added = bias ? convert<A>(bias[rows.place[r] * problem.shape.keys + at]) : A(0);
        gradScore<T>(scores[n][e], grads[n][e], scale, added, stats.of[r], factors[e]);
      } else {
        scores[n][e] = grads[n][e] = 0;
      }
    }
  }
}

// --- Blocks that have queries ------------------------------------------------

/// Elements of shared memory of a block that has rows of q and of the result's gradient and goes through rows of k and
/// v, or the other way round.
template <class T> int64_t gradElements(const Problem<T> &problem) {
  return Operand<T, kOwnRows>::elements(problem.keyChunks) + Operand<T, kOwnRows>::elements(problem.valueChunks) +
         problem.buffers * (Operand<T, kGradStep>::elements(problem.keyChunks) +
                            Operand<T, kGradStep>::elements(problem.valueChunks));
}

/// Operands of a block that has queries. Its own operands are queries and gradients of results. Keys and values come in
/// steps.
template <class T> struct QueryBlock {
  Operand<T, kOwnRows> q, grads;
  Operand<T, kGradStep> k, v;
  T *scratch;

  __device__ QueryBlock(const Problem<T> &problem, T *shared)
      : q(shared, problem.keyChunks), grads(q.end, problem.valueChunks),
        k(grads.end, problem.keyChunks, problem.buffers), v(k.end, problem.valueChunks, problem.buffers),
        scratch(v.end) {}

  __device__ void startQueries(const Problem<T> &problem, const T *allGrads, int64_t b, int64_t h, int first) {
    const int count = static_cast<int>(problem.shape.queries) - first;
    q.start(problem.queries(b, h), first, count);
    grads.start(problem.results(allGrads, b, h), first, count);
  }
  __device__ void startKeys(const Problem<T> &problem, int64_t b, int64_t keyHead, int key) {
    const int count = static_cast<int>(problem.shape.keys) - key;
    k.start(problem.keys(b, keyHead), key, count);
    v.start(problem.values(b, keyHead), key, count);
  }
  /// Waits until all threads have the keys that were started and are done with the previous ones.
  __device__ void turnKeys() {
    awaitCopies();
    k.turn();
    v.turn();
  }
};

} // namespace moert::cuda::attention

#endif // MOERT_CUDA_ATTENTIONGRAD_CUH
