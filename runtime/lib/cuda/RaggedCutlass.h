//===- RaggedCutlass.h - grouped kernels of CUTLASS -----------------------===//
#ifndef MOERT_CUDA_RAGGEDCUTLASS_H
#define MOERT_CUDA_RAGGEDCUTLASS_H

#include "cuda/RaggedGroups.h"

namespace moert::cuda::cutlass_groups {

enum class Tile {
  Large, ///< 256 x 128
  Small, ///< 128 x 128
};

/// Enqueues a product on a device of that compute capability, 90 or 100. canUseCutlass must allow its operands.
template <int32_t Dtype, Tile Size, int Capability>
Status multiply(const Target &target, const RaggedProduct &product, const GroupArrays &arrays);

} // namespace moert::cuda::cutlass_groups

#endif // MOERT_CUDA_RAGGEDCUTLASS_H
