//===- Stage.cuh - vectors on their way to shared memory ------------------===//
#ifndef MOERT_CUDA_STAGE_CUH
#define MOERT_CUDA_STAGE_CUH

#include "cuda/Types.cuh"

#include <cuda_pipeline.h>

namespace moert::cuda {

/// Begins to copy a vector of 16 bytes to shared memory. Its first `left` elements are copied, and the others are
/// zeros. If `isAligned`, `left` is at least a vector, or at most 0. `anywhere` is a valid address.
template <class T>
__device__ __forceinline__ void stageVector(T *to, const T *from, int64_t left, bool isAligned, const T *anywhere) {
  constexpr int V = kVector<T>;
  if (isAligned) {
    // With no elements, no address is accessed.
    __pipeline_memcpy_async(to, left > 0 ? from : anywhere, 16, left > 0 ? 0 : 16);
    return;
  }
#pragma unroll
  for (int i = 0; i < V; ++i)
    to[i] = i < left ? from[i] : convert<T>(0.0f);
}

} // namespace moert::cuda

#endif // MOERT_CUDA_STAGE_CUH
