//===- Ragged.cuh - where each expert's rows are --------------------------===//
#ifndef MOERT_CUDA_RAGGED_CUH
#define MOERT_CUDA_RAGGED_CUH

#include "cuda/Context.h"

#include <vector>

namespace moert::cuda {

/// Where each expert's rows start in a ragged buffer of `capacity` rows, and at last where they end: offsets [E+1] of
/// the device from counts [sources,E]. What exceeds the capacity is a fault and is cut off. Null where counts are.
Status expertOffsets(const Target &target, View counts, int64_t capacity, const int64_t *&offsets);
/// The same in the host's memory. Waits for the stream.
Status readExpertOffsets(const Target &target, View counts, int64_t capacity, std::vector<int64_t> &offsets);

/// The rows of each expert for kernels: the same number of each, or as offsets say.
struct ExpertRows {
  int64_t experts = 1;
  int64_t capacity = 0;             ///< rows of each expert, where offsets are null
  const int64_t *offsets = nullptr; ///< [E+1] of the device

  __device__ int64_t begin(int64_t expert) const { return offsets ? offsets[expert] : expert * capacity; }
  __device__ int64_t end(int64_t expert) const { return begin(expert + 1); }
  /// The expert of a used row: the last one that begins there or before.
  __device__ int64_t expertOf(int64_t row) const {
    if (!offsets)
      return experts == 1 ? 0 : row / capacity;
    int64_t low = 0, high = experts - 1;
    while (low < high) {
      const int64_t middle = (low + high + 1) / 2;
      if (offsets[middle] <= row)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
};

} // namespace moert::cuda

#endif // MOERT_CUDA_RAGGED_CUH
