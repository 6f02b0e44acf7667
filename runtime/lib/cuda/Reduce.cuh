//===- Reduce.cuh - sums of a warp, of a block and of columns -------------===//
//
// Reductions in an order that only the number of threads decides, so that all runs give the same bits.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_REDUCE_CUH
#define MOERT_CUDA_REDUCE_CUH

#include "cuda/Launch.cuh"
#include "cuda/Types.cuh"

#include <limits>

namespace moert::cuda {

inline constexpr unsigned kFullMask = 0xffffffff;

/// Sum over all lanes, on all lanes.
template <class T> __device__ __forceinline__ T warpSum(T value) {
#pragma unroll
  for (int bits = kWarp / 2; bits > 0; bits /= 2)
    value += __shfl_xor_sync(kFullMask, value, bits);
  return value;
}

/// Largest value of all lanes, on all lanes. No lane may have NaN.
template <class T> __device__ __forceinline__ T warpMax(T value) {
  if constexpr (std::is_same_v<T, uint32_t>) {
    return __reduce_max_sync(kFullMask, value);
  } else {
#pragma unroll
    for (int bits = kWarp / 2; bits > 0; bits /= 2) {
      const T other = __shfl_xor_sync(kFullMask, value, bits);
      value = other > value ? other : value;
    }
    return value;
  }
}

/// Dot product of two rows by a warp in one dimension, by vectors of N, on all lanes.
template <int N, class A, class T> __device__ __forceinline__ A warpDot(const T *a, const T *b, int64_t columns) {
  A sum = 0;
#pragma unroll 2
  for (int64_t column = threadIdx.x % kWarp * N; column < columns; column += kWarp * N) {
    const Pack<T, N> x = loadPack<N>(a + column), y = loadPack<N>(b + column);
#pragma unroll
    for (int n = 0; n < N; ++n)
      sum += convert<A>(x.values[n]) * convert<A>(y.values[n]);
  }
  return warpSum(sum);
}

/// Joins the values of a block's warps with `result`, in their order. A block has kThreads in one dimension.
template <class T, class Join> __device__ T joinWarps(T value, T result, Join join) {
  __shared__ T values[kThreads / kWarp];
  __syncthreads();
  if (threadIdx.x % kWarp == 0)
    values[threadIdx.x / kWarp] = value;
  __syncthreads();
  for (int i = 0; i < kThreads / kWarp; ++i)
    result = join(result, values[i]);
  return result;
}

/// Sum over all threads of a block, on all threads.
template <class T> __device__ T blockSum(T value) {
  return joinWarps(warpSum(value), T(0), [](T a, T b) { return a + b; });
}
/// Largest value of all threads of a block, on all threads. No thread may have NaN.
template <class T> __device__ T blockMax(T value) {
  return joinWarps(warpMax(value), -std::numeric_limits<T>::infinity(), [](T a, T b) { return b > a ? b : a; });
}

/// Team of a row: a warp, or a block of kThreads in one dimension. All of its threads must call the sums.
template <int Threads> struct RowTeam {
  static_assert(Threads == kWarp || Threads == kThreads);
  static constexpr bool kIsWarp = Threads == kWarp;

  /// First row of the team. Its rows follow by steps of `stride`.
  __device__ static int64_t first() {
    return kIsWarp ? int64_t(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp : blockIdx.x;
  }
  __device__ static int64_t stride() { return kIsWarp ? int64_t(gridDim.x) * (blockDim.x / kWarp) : gridDim.x; }
  __device__ static int thread() { return threadIdx.x % Threads; }
  template <class T> __device__ static T sum(T value) {
    if constexpr (kIsWarp)
      return warpSum(value);
    else
      return blockSum(value);
  }
  template <class T> __device__ static T largest(T value) {
    if constexpr (kIsWarp)
      return warpMax(value);
    else
      return blockMax(value);
  }
};

/// Sum over the threads up to this one in a block of kThreads in one dimension. `total` is the sum over all.
template <class T> __device__ T blockScan(T value, T &total) {
  __shared__ T sums[kThreads / kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const T before = __shfl_up_sync(kFullMask, value, distance);
    value += lane >= distance ? before : T(0);
  }
  __syncthreads();
  if (lane == kWarp - 1)
    sums[warp] = value;
  __syncthreads();
  total = 0;
  for (int i = 0; i < kThreads / kWarp; ++i) {
    value += i < warp ? sums[i] : T(0);
    total += sums[i];
  }
  return value;
}

/// Calls store(i, value(i), the sum up to value(i)) for the first `count` numbers, and returns the sum of all. All
/// threads of a block of kThreads call it.
template <class T, class Value, class Store> __device__ T scanBlock(int64_t count, Value value, Store store) {
  T before = 0;
  for (int64_t first = 0; first < count; first += kThreads) {
    const int64_t i = first + threadIdx.x;
    const T own = i < count ? value(i) : T(0);
    T all = 0;
    const T sum = before + blockScan<T>(own, all);
    if (i < count)
      store(i, own, sum);
    before += all;
  }
  return before;
}

template <class O>
__global__ void __launch_bounds__(kThreads) sumKernel(const double *numbers, int64_t count, double factor, O *out) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads)
    sum += numbers[i];
  sum = blockSum(sum);
  if (threadIdx.x == 0)
    *out = convert<O>(factor * sum);
}
/// Computes `factor` times the sum of a few numbers, by one block.
template <class O> Status sumTo(const Target &target, const double *numbers, int64_t count, O *out, double factor = 1) {
  return launch(sumKernel<O>, Grid(), target, numbers, count, factor, out);
}

// --- Sums of columns ---------------------------------------------------------

/// Calls finish(row, column, sum over the parts of row) for partial [rows, parts, columns]. Sums are in double, in a
/// fixed order. A block takes 32 columns, and each of its strips sums some of the parts.
template <class P, class Finish>
__global__ void __launch_bounds__(kThreads)
    columnSumsKernel(const P *partial, int64_t rows, int64_t parts, int64_t columns, Finish finish) {
  constexpr int kStrips = kThreads / kWarp;
  __shared__ double sums[kStrips][kWarp];
  const int64_t tiles = (columns + kWarp - 1) / kWarp;
  for (int64_t i = blockIdx.x; i < rows * tiles; i += gridDim.x) {
    const int64_t row = i / tiles, column = i % tiles * kWarp + threadIdx.x;
    const int64_t begin = parts * threadIdx.y / kStrips, end = parts * (threadIdx.y + 1) / kStrips;
    double sum = 0;
    if (column < columns)
#pragma unroll 8
      for (int64_t part = begin; part < end; ++part)
        sum += partial[(row * parts + part) * columns + column];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    double total = 0;
    for (int y = 0; y < kStrips; ++y)
      total += sums[y][threadIdx.x];
    if (threadIdx.y == 0 && column < columns)
      finish(row, column, total);
    __syncthreads();
  }
}

template <class P, class Finish>
Status sumColumns(const Target &target, const P *partial, int64_t rows, int64_t parts, int64_t columns, Finish finish) {
  Grid grid = gridOf(target, rows * divideUp(columns, kWarp) * kThreads);
  grid.threads = dim3(kWarp, kThreads / kWarp);
  return launch(columnSumsKernel<P, Finish>, grid, target, partial, rows, parts, columns, finish);
}

} // namespace moert::cuda

#endif // MOERT_CUDA_REDUCE_CUH
