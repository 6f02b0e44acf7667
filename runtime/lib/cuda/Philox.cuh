//===- Philox.cuh - the random words of dropout in kernels ----------------===//
#ifndef MOERT_CUDA_PHILOX_CUH
#define MOERT_CUDA_PHILOX_CUH

#include "core/Philox.h"
#include "cuda/Types.cuh"

namespace moert::cuda {

/// Random words of four columns.
struct DropoutWords {
  uint32_t x, y, z, w;

  /// Selects by comparisons, which keep the words in registers.
  __device__ __forceinline__ uint32_t at(int i) const { return i < 2 ? (i == 0 ? x : y) : (i == 2 ? z : w); }
};

/// Words of columns [4 block, 4 block + 4) of `row`.
__device__ __forceinline__ DropoutWords dropoutWords(const DropoutMask &mask, int64_t row, int64_t block) {
  DropoutWords words;
  mask.counter(row, block, words.x, words.y, words.z, words.w);
#pragma unroll
  for (uint32_t round = 0; round < kPhiloxRounds; ++round)
    philoxRound(mask.key.ofRound(round), words.x, words.y, words.z, words.w);
  return words;
}

} // namespace moert::cuda

#endif // MOERT_CUDA_PHILOX_CUH
