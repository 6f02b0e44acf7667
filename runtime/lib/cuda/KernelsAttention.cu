//===- KernelsAttention.cu - attention ------------------------------------===//

#include "cuda/Attention.cuh"
#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"

namespace moert::cuda {
namespace {

using namespace attention;

/// Keys of one step.
template <class T> inline constexpr int kKeys = isNarrowType<T> ? 64 : 32;

/// State of the softmax of the lane's two rows: the largest score so far, and this lane's part of the sum of exp(score
/// - largest). A sink is a score without a value.
template <class T> struct Softmax {
  using A = Acc<T>;
  A largest[2], sum[2];

  __device__ explicit Softmax(const T *sink) {
    const A lowest = -std::numeric_limits<A>::infinity(), first = sink ? convert<A>(*sink) : lowest;
    for (int r = 0; r < 2; ++r) {
      largest[r] = first;
      sum[r] = laneColumn() == 0 && first != lowest ? A(1) : A(0);
    }
  }
  /// Number that is subtracted from scores. It is 0 while there are no scores.
  __device__ A reference(int r) const { return largest[r] == -std::numeric_limits<A>::infinity() ? A(0) : largest[r]; }
  /// Turns scores into exp(score - reference), and rescales the values of earlier steps to the new reference (online
  /// softmax).
  template <int N, int M> __device__ void add(A (&scores)[N][4], A (&values)[M][4]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const A before = largest[r];
      raise(scores, r);
      const A from = reference(r), factor = expOf<T>(before - from);
      sum[r] *= factor;
#pragma unroll
      for (int m = 0; m < M; ++m) {
        values[m][2 * r] *= factor;
        values[m][2 * r + 1] *= factor;
      }
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; ++e) {
          scores[n][e] = expOf<T>(scores[n][e] - from);
          sum[r] += scores[n][e];
        }
    }
  }
  /// Sum over all lanes of the row.
  __device__ A total(int r) const {
    const A half = sum[r] + __shfl_xor_sync(0xffffffff, sum[r], 1);
    return half + __shfl_xor_sync(0xffffffff, half, 2);
  }

private:
  /// Raises the largest score. It ignores NaNs, which still turn their sums into NaN.
  template <int N> __device__ void raise(const A (&scores)[N][4], int r) {
    A most = largest[r];
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int e = 2 * r; e < 2 * r + 2; ++e)
        most = scores[n][e] > most ? scores[n][e] : most;
#pragma unroll
    for (int bits = 1; bits < 4; bits *= 2) {
      const A other = __shfl_xor_sync(0xffffffff, most, bits);
      most = other > most ? other : most;
    }
    largest[r] = most;
  }
};

/// Turns products of queries and of keys from `key` on into scores. The score of a key that is not seen is minus
/// infinity.
template <class T, class A, int N>
__device__ __forceinline__ void finishScores(A (&scores)[N][4], const Problem<T> &problem, const T *bias,
                                             const LaneRows &rows, int key) {
  const A scale = static_cast<A>(problem.scale);
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int at = key + 8 * n + laneColumn() + e % 2;
      A score = -std::numeric_limits<A>::infinity();
      if (rows.sees(e / 2, at)) {
        score = scale * scores[n][e];
        if (bias)
          score += convert<A>(bias[rows.place[e / 2] * problem.shape.keys + at]);
      }
      scores[n][e] = score;
    }
}

template <class A, int N>
__device__ __forceinline__ void dropScores(A (&scores)[N][4], const DropoutMask &mask, int64_t row,
                                           const LaneRows &rows, int key) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    A factors[4];
    factorsByQueries(mask, row, rows, key + 8 * n + laneColumn(), factors);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      scores[n][e] *= factors[e];
  }
}

/// Computes a block that has queries and goes through the keys that they see. The longest rows come first.
template <class T, int Columns, class L>
__global__ void __launch_bounds__(kBlockThreads) attentionKernel(Problem<T> problem, Blocks blocks, T *out, L *lse) {
  using A = Acc<T>;
  constexpr int kStep = kKeys<T>;
  const AttentionShape &shape = problem.shape;
  const BlockPlace place(blocks);
  const int64_t b = place.sequence, h = place.head, keyHead = shape.keyHead(h);
  const int queries = static_cast<int>(shape.queries), keys = static_cast<int>(shape.keys);
  const int first = (blocks.tiles - 1 - place.tile) * kOwnRows, count = atMost(kOwnRows, queries - first);
  const int columns = columnsOfPart(shape.valueWidth, place.part, Columns);

  const Chunks valueColumns{atMost(Columns, problem.valueChunks.columns), atMost(Columns, problem.valueChunks.columns)};
  T *shared = sharedMemory<T>();
  Operand<T, kOwnRows> q(shared, problem.keyChunks);
  Operand<T, kStep> k(q.end, problem.keyChunks);
  Operand<T, kStep> v(k.end, valueColumns);
  T *scratch = v.end + static_cast<int>(threadIdx.x) / kWarp * kMmaRows * pitchOf<T>(kStep);

  const Matrix<T> ofKeys = problem.keys(b, keyHead);
  Matrix<T> ofValues = problem.values(b, keyHead);
  ofValues.data += place.part * Columns;
  ofValues.columns = columns;
  const LaneRows rows = LaneRows::ofQueries(shape, first);
  const DropoutMask mask = problem.mask();
  const int64_t maskRow = problem.maskRow(b, h);
  Softmax<T> softmax(problem.sinks ? problem.sinks + h : nullptr);
  A values[Columns / 8][4];
  clear(values);

  const int begin = static_cast<int>(shape.firstKey(first)) / kStep * kStep;
  const int end = static_cast<int>(shape.endKey(first + count - 1));
  if (begin < end) {
    q.start(problem.queries(b, h), first, count);
    k.start(ofKeys, begin, keys - begin);
  }
  for (int key = begin; key < end; key += kStep) {
    awaitCopies();
    v.start(ofValues, key, keys - key);
    A scores[kStep / 8][4];
    clear(scores);
    multiply(scores, q, k);
    awaitCopies();
    if (key + kStep < end)
      k.start(ofKeys, key + kStep, keys - key - kStep);
    finishScores(scores, problem, problem.biasOf(h), rows, key);
    softmax.add(scores, values);
    if (problem.step)
      dropScores(scores, mask, maskRow, rows, key);
    addTilesByRows(values, scores, static_cast<const T *>(v.tile), v.pitch, columns, scratch);
  }

  A inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const A sum = softmax.total(r);
    inverse[r] = sum == 0 ? A(0) : 1 / sum;
    if (place.part == 0 && laneColumn() == 0 && rows.index[r] < queries)
      lse[(b * queries + rows.index[r]) * shape.heads + h] =
          convert<L>(sum == 0 ? -std::numeric_limits<A>::infinity() : softmax.reference(r) + std::log(sum));
  }
  const int64_t stride = shape.heads * shape.valueWidth;
  storeRows(values, inverse, out + (b * queries + first) * stride + h * shape.valueWidth + place.part * Columns, stride,
            count, columns);
}

template <class T, int Columns, class L>
Status launchAttention(const Target &target, Problem<T> problem, T *out, L *lse) {
  constexpr int kStep = kKeys<T>;
  const AttentionShape &shape = problem.shape;
  const int valueColumns = std::min(Columns, problem.valueChunks.columns);
  const int64_t bytes = fitShared(problem, Columns, [&] {
    return Operand<T, kOwnRows>::elements(problem.keyChunks) + Operand<T, kStep>::elements(problem.keyChunks) +
           Operand<T, kStep>::elements({valueColumns, valueColumns}) + scratchElements<T>(kStep);
  });
  // `lse` is computed even if there are no columns.
  const Blocks blocks{static_cast<int>(std::max<int64_t>(divideUp(shape.valueWidth, Columns), 1)),
                      static_cast<int>(divideUp(shape.queries, kOwnRows)), shape.heads, shape.sequences};
  return launchBlocks(attentionKernel<T, Columns, L>, target, blocks, bytes, problem, blocks, out, lse);
}

// --- Two sets of keys --------------------------------------------------------

/// Factors of the results over two sets of keys, and the logarithm of both sums.
template <class A> struct MergeFactors {
  A ofA, ofB, lse;

  __device__ MergeFactors(A a, A b) : ofA(0), ofB(0), lse(a > b ? a : b) {
    if (lse == -std::numeric_limits<A>::infinity())
      return;
    const A first = std::exp(a - lse), second = std::exp(b - lse), sum = first + second;
    ofA = first / sum;
    ofB = second / sum;
    lse += std::log(sum);
  }
};

/// Merges rows. A row is a head of a token.
template <class T, class L> struct MergeRows {
  using A = Acc<T>;
  const T *a, *b;
  const L *lseA, *lseB;
  T *out;
  int64_t width;

  __device__ MergeFactors<A> row(int64_t r) const { return {convert<A>(lseA[r]), convert<A>(lseB[r])}; }
  template <int N> __device__ void run(const MergeFactors<A> &factors, int64_t r, int64_t column) const {
    const int64_t at = r * width + column;
    // The result over no keys counts as zero, whatever its value is.
    auto merged = [&](A first, A second) {
      return (factors.ofA == 0 ? A(0) : factors.ofA * first) + (factors.ofB == 0 ? A(0) : factors.ofB * second);
    };
    storePack(out + at, mapPacks<T, A>(merged, loadPack<N>(a + at), loadPack<N>(b + at)));
  }
};

template <class T, class L> struct MergeSums {
  const L *lseA, *lseB;
  L *lse;

  template <int> __device__ void run(int64_t r) const {
    lse[r] = convert<L>(MergeFactors<Acc<T>>(convert<Acc<T>>(lseA[r]), convert<Acc<T>>(lseB[r])).lse);
  }
};

template <class T, class L>
Status mergeRows(const Target &target, View a, View lseA, View b, View lseB, View out, View lse) {
  const int64_t rows = lse.elements(), width = rows > 0 ? a.elements() / rows : 0;
  const bool isAligned = areAligned(a.as<T>(), b.as<T>(), out.as<T>()) && width % kVector<T> == 0;
  const MergeRows<T, L> merge{a.as<const T>(),    b.as<const T>(), lseA.as<const L>(),
                              lseB.as<const L>(), out.as<T>(),     width};
  MOERT_RETURN_IF_ERROR(forRows<kVector<T>>(target, {rows}, width, isAligned, merge));
  return forElements<1>(target, {rows}, false, MergeSums<T, L>{lseA.as<const L>(), lseB.as<const L>(), lse.as<L>()});
}

} // namespace

Status CudaKernels::runMergeAttention(View a, View lseA, View b, View lseB, View out, View lse) {
  return withFloating(a.dtype, lse.dtype, [&]<class T, class L>(Type<T>, Type<L>) {
    return mergeRows<T, L>(target, a, lseA, b, lseB, out, lse);
  });
}

Status CudaKernels::runAttention(const AttentionInputs &inputs, View out, View lse, const AttentionOptions &options) {
  bool isDone = false;
  MOERT_RETURN_IF_ERROR(attentionByCudnn(target, inputs, out, lse, options, isDone));
  if (isDone)
    return {};
  return withFloating(inputs.q.dtype, [&]<class T>(Type<T>) {
    const Problem<T> problem(inputs, options);
    MOERT_RETURN_IF_ERROR(checkSizes(target, problem.shape));
    return withColumns<T>(problem.shape.valueWidth, [&](auto columns) {
      return withBeside<T>(lse.dtype, [&]<class L>(Type<L>) {
        return launchAttention<T, decltype(columns)::value, L>(target, problem, out.as<T>(), lse.as<L>());
      });
    });
  });
}

} // namespace moert::cuda
