//===- Reduce.cuh - sums of a warp and of a block -------------------------===//
//
// In an order that only the number of threads decides, so that runs give the same bits.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_REDUCE_CUH
#define MOERT_CUDA_REDUCE_CUH

#include "cuda/Launch.cuh"

namespace moert::cuda {

inline constexpr unsigned kFullMask = 0xffffffff;

/// The sum of all lanes, on all lanes.
template <class T> __device__ __forceinline__ T warpSum(T value) {
#pragma unroll
  for (int bits = kWarp / 2; bits > 0; bits /= 2)
    value += __shfl_xor_sync(kFullMask, value, bits);
  return value;
}

/// The sum of all threads of a block of kThreads in one dimension, on all threads.
template <class T> __device__ T blockSum(T value) {
  __shared__ T sums[kThreads / kWarp];
  value = warpSum(value);
  __syncthreads();
  if (threadIdx.x % kWarp == 0)
    sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  T result = 0;
  for (int i = 0; i < kThreads / kWarp; ++i)
    result += sums[i];
  return result;
}

/// The sum of the threads up to this one in a block of kThreads in one dimension; `total` is that of all.
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

} // namespace moert::cuda

#endif // MOERT_CUDA_REDUCE_CUH
