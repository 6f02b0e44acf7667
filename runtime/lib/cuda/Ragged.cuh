//===- Ragged.cuh - rows of each expert -----------------------------------===//
#ifndef MOERT_CUDA_RAGGED_CUH
#define MOERT_CUDA_RAGGED_CUH

#include "cuda/Context.h"

#include <algorithm>
#include <vector>

namespace moert::cuda {

/// Computes where the rows of each expert begin in a ragged buffer of `capacity` rows, and where the last ones end:
/// offsets [E+1] on the device from counts [sources,E]. Rows beyond the capacity are a fault and are cut off. The
/// offsets are null if the counts are.
Status expertOffsets(const Target &target, View counts, int64_t capacity, const int64_t *&offsets);
/// Computes the offsets in the host's memory. Waits for the stream.
Status readExpertOffsets(const Target &target, View counts, int64_t capacity, std::vector<int64_t> &offsets);

/// Rows of each expert for kernels: the same number of each, or as the offsets say.
struct ExpertRows {
  int64_t experts = 1;
  int64_t capacity = 0;             ///< rows of each expert, if offsets are null
  const int64_t *offsets = nullptr; ///< [E+1] on the device

  __device__ int64_t begin(int64_t expert) const { return offsets ? offsets[expert] : expert * capacity; }
  __device__ int64_t end(int64_t expert) const { return begin(expert + 1); }
  /// Expert of a used row: the last one that begins there or before.
  __device__ int64_t expertOf(int64_t row) const {
    if (!offsets)
      return experts == 1 ? 0 : row / capacity;
    return std::upper_bound(offsets + 1, offsets + experts, row) - offsets - 1;
  }
};

} // namespace moert::cuda

#endif // MOERT_CUDA_RAGGED_CUH
