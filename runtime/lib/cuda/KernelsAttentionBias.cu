//===- KernelsAttentionBias.cu - gradients of biases and of sinks ---------===//

#include "cuda/AttentionGrad.cuh"
#include "cuda/CudaKernels.h"

namespace moert::cuda {
namespace {

using namespace attention;

// --- Biases ------------------------------------------------------------------

/// Sums the gradient of biases. A block has queries and keys of a head, and goes through the sequences. Its parts are
/// tiles of keys.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    biasGradKernel(Problem<T> problem, Blocks blocks, const T *grads, const RowStats<Acc<T>> *stats, T *out) {
  using A = Acc<T>;
  const AttentionShape &shape = problem.shape;
  const BlockPlace place(blocks);
  const int64_t h = place.head, keyHead = shape.keyHead(h);
  const int first = place.tile * kOwnRows, key = place.part * kGradStep;
  const int count = atMost(kOwnRows, static_cast<int>(shape.queries) - first);

  QueryBlock<T> block(problem, sharedMemory<T>());
  const LaneRows rows = LaneRows::ofQueries(shape, first);
  A sums[kGradStep / 8][4];
  clear(sums);
  const bool isSeen = shape.firstKey(first) < key + kGradStep && key < shape.endKey(first + count - 1);
  for (int64_t b = 0; b < shape.sequences && isSeen; ++b) {
    __syncthreads();
    block.startQueries(problem, grads, b, h, first);
    block.startKeys(problem, b, keyHead, key);
    awaitCopies();
    const LaneStats<A> ofRows(stats + (b * shape.heads + h) * shape.queries, rows, shape.queries);
    A scores[kGradStep / 8][4], scoreGrads[kGradStep / 8][4];
    clear(scores);
    clear(scoreGrads);
    multiply(scores, block.q, block.k);
    multiply(scoreGrads, block.grads, block.v);
    gradScores(scores, scoreGrads, problem, b, h, rows, ofRows, key);
#pragma unroll
    for (int n = 0; n < kGradStep / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sums[n][e] += scoreGrads[n][e];
  }
  const A one[2] = {1, 1};
  storeRows(sums, one, out + h * shape.allQueries * shape.keys + key, shape.keys, count,
            static_cast<int>(shape.keys) - key, [&](int row) { return shape.places.at(first + row); });
}

// --- Sinks -------------------------------------------------------------------

/// Sums the gradient of sinks to partial [H, parts]. A block has a head and a part of the rows, and a warp has a row at
/// a time.
template <int N, class T, class L>
__global__ void __launch_bounds__(kThreads)
    sinkPartsKernel(const T *sinks, const L *lse, const T *attended, const T *grads, int64_t rows, int64_t heads,
                    int64_t columns, int64_t parts, double *partial) {
  const int64_t h = blockIdx.x / parts, part = blockIdx.x - h * parts, end = rows * (part + 1) / parts;
  const double sink = convert<double>(sinks[h]);
  double sum = 0;
  for (int64_t s = rows * part / parts + threadIdx.x / kWarp; s < end; s += kThreads / kWarp) {
    const int64_t at = (s * heads + h) * columns;
    const auto dot = static_cast<double>(warpDot<N, Acc<T>>(attended + at, grads + at, columns));
    sum -= std::exp(sink - convert<double>(lse[s * heads + h])) * dot;
  }
  // All lanes of a warp have the same sum.
  sum = blockSum(threadIdx.x % kWarp == 0 ? sum : 0.0);
  if (threadIdx.x == 0)
    partial[blockIdx.x] = sum;
}

/// Adds the parts. A sink of minus infinity has no gradient.
template <class T> struct AddSinkParts {
  const T *sinks;
  const double *partial;
  T *out;
  int64_t parts;

  template <int> __device__ void run(int64_t h) const {
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part)
      sum += partial[h * parts + part];
    const bool isNone = convert<double>(sinks[h]) == -std::numeric_limits<double>::infinity();
    out[h] = convert<T>(isNone ? 0.0 : sum);
  }
};

template <class T, class L>
Status sinksGrad(const Target &target, View sinks, View lse, View attended, View grads, View out) {
  const int64_t heads = sinks.dims[0], rows = lse.dims[0], columns = attended.dims[1] / heads;
  // Enough parts, of at least 64 rows each, to keep the device busy.
  const int64_t busy = int64_t(target.device.multiProcessors) * 8;
  const int64_t parts = std::clamp<int64_t>(busy / heads, 1, std::max<int64_t>(rows / 64, 1));
  double *partial = nullptr;
  MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(heads * parts, partial));
  const Grid grid{.blocks = dim3(static_cast<unsigned>(heads * parts))};
  constexpr int kWidth = kVector<T>;
  const bool isVector = areAligned(attended.as<T>(), grads.as<T>()) && columns % kWidth == 0;
  MOERT_RETURN_IF_ERROR(launch(isVector ? sinkPartsKernel<kWidth, T, L> : sinkPartsKernel<1, T, L>, grid, target,
                               sinks.as<const T>(), lse.as<const L>(), attended.as<const T>(), grads.as<const T>(),
                               rows, heads, columns, parts, partial));
  return forElements<1>(target, {heads}, false, AddSinkParts<T>{sinks.as<const T>(), partial, out.as<T>(), parts});
}

} // namespace

Status CudaKernels::runAttentionBiasGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View out,
                                         const AttentionOptions &options) {
  return withFloating(inputs.q.dtype, [&]<class T>(Type<T>) {
    Problem<T> problem(inputs, options);
    const AttentionShape &shape = problem.shape;
    // Other ranks add the gradients of their own queries.
    if (shape.allQueries > shape.queries)
      MOERT_RETURN_IF_ERROR(clearBytes(target.stream.stream, out.data, out.bytes(), "cannot clear gradients"));
    problem.buffers = 1;
    const RowStats<Acc<T>> *stats = nullptr;
    MOERT_RETURN_IF_ERROR(rowStats(target, problem, attended, lse, grads, stats));
    const int64_t bytes = fitShared(problem, kMostColumns<T>, [&] { return gradElements(problem); });
    const Blocks blocks{static_cast<int>(divideUp(shape.keys, kGradStep)),
                        static_cast<int>(divideUp(shape.queries, kOwnRows)), shape.heads, 1};
    return launchBlocks(biasGradKernel<T>, target, blocks, bytes, problem, blocks, grads.as<const T>(), stats,
                        out.as<T>());
  });
}

Status CudaKernels::runAttentionSinksGrad(View sinks, View lse, View attended, View grads, View out) {
  return withFloating(sinks.dtype, lse.dtype, [&]<class T, class L>(Type<T>, Type<L>) {
    return sinksGrad<T, L>(target, sinks, lse, attended, grads, out);
  });
}

} // namespace moert::cuda
