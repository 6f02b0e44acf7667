//===- KernelsAttentionGrad.cu - gradients of attention's operands --------===//

#include "cuda/AttentionGrad.cuh"
#include "cuda/CudaKernels.h"

namespace moert::cuda {
namespace {

using namespace attention;

__device__ int ownScratch() { return static_cast<int>(threadIdx.x) / kWarp * kMmaRows; }

// --- Queries -----------------------------------------------------------------

/// Computes the gradient of queries. A block has queries, and goes through the keys that they see.
template <class T, int Columns>
__global__ void __launch_bounds__(kBlockThreads)
    gradQueriesKernel(Problem<T> problem, Blocks blocks, const T *grads, const RowStats<Acc<T>> *stats, T *gradQ) {
  using A = Acc<T>;
  const AttentionShape &shape = problem.shape;
  const BlockPlace place(blocks);
  const int64_t b = place.sequence, h = place.head, keyHead = shape.keyHead(h);
  const int first = (blocks.tiles - 1 - place.tile) * kOwnRows;
  const int count = atMost(kOwnRows, static_cast<int>(shape.queries) - first);
  const int columns = columnsOfPart(shape.width, place.part, Columns);

  QueryBlock<T> block(problem, sharedMemory<T>());
  T *scratch = block.scratch + ownScratch() * pitchOf<T>(kGradStep);
  const LaneRows rows = LaneRows::ofQueries(shape, first);
  const LaneStats<A> ofRows(stats + (b * shape.heads + h) * shape.queries, rows, shape.queries);
  A sums[Columns / 8][4];
  clear(sums);

  const int begin = static_cast<int>(shape.firstKey(first)) / kGradStep * kGradStep;
  const int end = static_cast<int>(shape.endKey(first + count - 1));
  if (begin < end) {
    block.startQueries(problem, grads, b, h, first);
    block.startKeys(problem, b, keyHead, begin);
  }
  for (int key = begin; key < end; key += kGradStep) {
    block.turnKeys();
    const bool isLast = key + kGradStep >= end;
    if (problem.buffers == 2 && !isLast)
      block.startKeys(problem, b, keyHead, key + kGradStep);
    A scores[kGradStep / 8][4], scoreGrads[kGradStep / 8][4];
    clear(scores);
    clear(scoreGrads);
    multiply(scores, block.q, block.k);
    multiply(scoreGrads, block.grads, block.v);
    gradScores(scores, scoreGrads, problem, b, h, rows, ofRows, key);
    const T *ofPart = block.k.columnsFrom(place.part * Columns);
    addTilesByRows(sums, scoreGrads, ofPart, block.k.pitch, columns, scratch);
    if (problem.buffers == 1 && !isLast) {
      __syncthreads();
      block.startKeys(problem, b, keyHead, key + kGradStep);
    }
  }
  const A scale = static_cast<A>(problem.scale), factors[2] = {scale, scale};
  const int64_t stride = shape.heads * shape.width;
  storeRows(sums, factors, gradQ + (b * shape.queries + first) * stride + h * shape.width + place.part * Columns,
            stride, count, columns);
}

template <class T, int Columns>
Status launchGradQueries(const Target &target, Problem<T> problem, const T *grads, const RowStats<Acc<T>> *stats,
                         T *gradQ) {
  const AttentionShape &shape = problem.shape;
  const int64_t bytes =
      fitShared(problem, Columns, [&] { return gradElements(problem) + scratchElements<T>(kGradStep); });
  const Blocks blocks{static_cast<int>(divideUp(shape.width, Columns)),
                      static_cast<int>(divideUp(shape.queries, kOwnRows)), shape.heads, shape.sequences};
  return launchBlocks(gradQueriesKernel<T, Columns>, target, blocks, bytes, problem, blocks, grads, stats, gradQ);
}

// --- Keys and values ---------------------------------------------------------

/// Applies a tile whose rows are keys. Its columns are queries from `query` on, and `stats` are theirs.
template <class T, class A, int N>
__device__ __forceinline__ void gradScoresByKeys(A (&scores)[N][4], A (&grads)[N][4], const Problem<T> &problem,
                                                 int64_t b, int64_t h, const LaneRows &rows, const RowStats<A> *stats,
                                                 int query) {
  const A scale = static_cast<A>(problem.scale);
  const T *bias = problem.biasOf(h);
  const DropoutMask mask = problem.mask();
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int column = 8 * n + laneColumn();
    A factors[4] = {1, 1, 1, 1};
    if (problem.step)
      factorsByKeys(mask, problem.maskRow(b, h), problem.shape.places, query + column, rows.index[0], factors);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = e / 2, at = query + column + e % 2;
      if (rows.sees(r, at)) {
        const A added =
            bias ? convert<A>(bias[problem.shape.places.at(at) * problem.shape.keys + rows.index[r]]) : A(0);
        gradScore<T>(scores[n][e], grads[n][e], scale, added, stats[column + e % 2], factors[e]);
      } else {
        scores[n][e] = grads[n][e] = 0;
      }
    }
  }
}

/// Operands of a block that has keys. Its own operands are keys and values. Queries, gradients of results and the
/// queries' statistics come in steps.
template <class T> struct KeyBlock {
  using Stats = RowStats<Acc<T>>;
  Operand<T, kOwnRows> k, v;
  Operand<T, kGradStep> q, grads;
  Stats *stats, *fillingStats;
  T *scratch;

  __device__ KeyBlock(const Problem<T> &problem, T *shared)
      : k(shared, problem.keyChunks), v(k.end, problem.valueChunks), q(v.end, problem.keyChunks, problem.buffers),
        grads(q.end, problem.valueChunks, problem.buffers), stats(reinterpret_cast<Stats *>(grads.end)),
        fillingStats(stats + (problem.buffers - 1) * kGradStep),
        scratch(reinterpret_cast<T *>(stats + problem.buffers * kGradStep)) {}

  static int64_t elements(const Problem<T> &problem) {
    return gradElements(problem) + problem.buffers * int64_t(kGradStep * sizeof(Stats) / sizeof(T));
  }
  __device__ void startQueries(const Problem<T> &problem, const T *allGrads, const Stats *allStats, int64_t b,
                               int64_t h, int query) {
    const int64_t queries = problem.shape.queries;
    const int count = static_cast<int>(queries) - query;
    q.start(problem.queries(b, h), query, count);
    grads.start(problem.results(allGrads, b, h), query, count);
    if (threadIdx.x < kGradStep && static_cast<int>(threadIdx.x) < count)
      fillingStats[threadIdx.x] = allStats[(b * problem.shape.heads + h) * queries + query + threadIdx.x];
  }
  /// Waits until all threads have the queries that were started and are done with the previous ones.
  __device__ void turnQueries() {
    awaitCopies();
    q.turn();
    grads.turn();
    Stats *loaded = fillingStats;
    fillingStats = stats;
    stats = loaded;
  }
};

/// Steps of a block that has keys: the queries that see them, one head after the other, for all heads that use its key
/// head.
struct QuerySteps {
  int64_t head;
  int begin, end; ///< queries of a step
  int heads = 0, each;

  __device__ QuerySteps(const AttentionShape &shape, int64_t keyHead, int first, int last)
      : begin(static_cast<int>(shape.firstQuery(first)) / kGradStep * kGradStep),
        end(static_cast<int>(shape.endQuery(last))) {
    // Neighbouring heads use the same key head.
    for (int64_t h = shape.heads - 1; h >= 0; --h)
      if (shape.keyHead(h) == keyHead) {
        head = h;
        ++heads;
      }
    each = end > begin ? (end - begin + kGradStep - 1) / kGradStep : 0;
  }
  __device__ int count() const { return heads * each; }
  __device__ int64_t headOf(int step) const { return head + step / each; }
  __device__ int queryOf(int step) const { return begin + step % each * kGradStep; }
};

/// Computes the gradients of keys and values. A block has keys, and goes through the queries that see them, of all
/// heads that use the key head.
template <class T, int Columns>
__global__ void __launch_bounds__(kBlockThreads) gradKeysKernel(Problem<T> problem, Blocks blocks, const T *grads,
                                                                const RowStats<Acc<T>> *stats, T *gradK, T *gradV) {
  using A = Acc<T>;
  const AttentionShape &shape = problem.shape;
  const BlockPlace place(blocks);
  const int64_t b = place.sequence;
  const int first = place.tile * kOwnRows, count = atMost(kOwnRows, static_cast<int>(shape.keys) - first);
  const int keyColumns = columnsOfPart(shape.width, place.part, Columns);
  const int valueColumns = columnsOfPart(shape.valueWidth, place.part, Columns);

  KeyBlock<T> block(problem, sharedMemory<T>());
  T *scratch = block.scratch + ownScratch() * pitchOf<T>(kGradStep);
  const LaneRows rows = LaneRows::ofKeys(shape, first);
  A keySums[Columns / 8][4], valueSums[Columns / 8][4];
  clear(keySums);
  clear(valueSums);

  const QuerySteps steps(shape, place.head, first, first + count - 1);
  auto start = [&](int step) { block.startQueries(problem, grads, stats, b, steps.headOf(step), steps.queryOf(step)); };
  if (steps.count() > 0) {
    block.k.start(problem.keys(b, place.head), first, count);
    block.v.start(problem.values(b, place.head), first, count);
    start(0);
  }
  for (int step = 0; step < steps.count(); ++step) {
    block.turnQueries();
    const bool isLast = step + 1 == steps.count();
    if (problem.buffers == 2 && !isLast)
      start(step + 1);
    A scores[kGradStep / 8][4], scoreGrads[kGradStep / 8][4];
    clear(scores);
    clear(scoreGrads);
    multiply(scores, block.k, block.q);
    multiply(scoreGrads, block.v, block.grads);
    gradScoresByKeys(scores, scoreGrads, problem, b, steps.headOf(step), rows, block.stats, steps.queryOf(step));
    if (valueColumns > 0) {
      const T *ofPart = block.grads.columnsFrom(place.part * Columns);
      addTilesByRows(valueSums, scores, ofPart, block.grads.pitch, valueColumns, scratch);
    }
    if (keyColumns > 0) {
      const T *ofPart = block.q.columnsFrom(place.part * Columns);
      addTilesByRows(keySums, scoreGrads, ofPart, block.q.pitch, keyColumns, scratch);
    }
    if (problem.buffers == 1 && !isLast) {
      __syncthreads();
      start(step + 1);
    }
  }
  const A scale = static_cast<A>(problem.scale), one[2] = {1, 1}, scales[2] = {scale, scale};
  const int64_t row = b * shape.keys + first, column = place.part * Columns;
  const int64_t keyStride = shape.keyHeads * shape.width, valueStride = shape.keyHeads * shape.valueWidth;
  storeRows(keySums, scales, gradK + row * keyStride + place.head * shape.width + column, keyStride, count, keyColumns);
  storeRows(valueSums, one, gradV + row * valueStride + place.head * shape.valueWidth + column, valueStride, count,
            valueColumns);
}

template <class T, int Columns>
Status launchGradKeys(const Target &target, Problem<T> problem, const T *grads, const RowStats<Acc<T>> *stats, T *gradK,
                      T *gradV) {
  const AttentionShape &shape = problem.shape;
  const int64_t bytes =
      fitShared(problem, Columns, [&] { return KeyBlock<T>::elements(problem) + scratchElements<T>(kGradStep); });
  const int64_t width = std::max(shape.width, shape.valueWidth);
  const Blocks blocks{static_cast<int>(divideUp(width, Columns)), static_cast<int>(divideUp(shape.keys, kOwnRows)),
                      shape.keyHeads, shape.sequences};
  return launchBlocks(gradKeysKernel<T, Columns>, target, blocks, bytes, problem, blocks, grads, stats, gradK, gradV);
}

} // namespace

Status CudaKernels::runAttentionGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View gradQ,
                                     View gradK, View gradV, const AttentionOptions &options) {
  bool isDone = false;
  MOERT_RETURN_IF_ERROR(
      attentionGradByCudnn(target, inputs, attended, lse, grads, gradQ, gradK, gradV, options, isDone));
  if (isDone)
    return {};
  return withFloating(inputs.q.dtype, [&]<class T>(Type<T>) {
    Problem<T> problem(inputs, options);
    const AttentionShape &shape = problem.shape;
    const T *from = grads.as<const T>();
    const RowStats<Acc<T>> *stats = nullptr;
    MOERT_RETURN_IF_ERROR(rowStats(target, problem, attended, lse, grads, stats));
    MOERT_RETURN_IF_ERROR(withColumns<T>(shape.width, [&](auto columns) {
      return launchGradQueries<T, decltype(columns)::value>(target, problem, from, stats, gradQ.as<T>());
    }));
    return withColumns<T>(std::max(shape.width, shape.valueWidth), [&](auto columns) {
      return launchGradKeys<T, decltype(columns)::value>(target, problem, from, stats, gradK.as<T>(), gradV.as<T>());
    });
  });
}

} // namespace moert::cuda
