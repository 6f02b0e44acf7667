//===- RaggedCutlass.h - grouped kernels of CUTLASS -----------------------===//
#ifndef MOERT_CUDA_RAGGEDCUTLASS_H
#define MOERT_CUDA_RAGGEDCUTLASS_H

#include "cuda/RaggedGroups.h"

// Each is in a file of its own, as they take long to compile.
namespace moert::cuda::cutlass_groups {

Status multiplyBf16Cooperative(const Target &target, const RaggedProduct &product, const GroupArrays &arrays);
Status multiplyBf16Pingpong(const Target &target, const RaggedProduct &product, const GroupArrays &arrays);
Status multiplyF16Cooperative(const Target &target, const RaggedProduct &product, const GroupArrays &arrays);
Status multiplyF16Pingpong(const Target &target, const RaggedProduct &product, const GroupArrays &arrays);

} // namespace moert::cuda::cutlass_groups

#endif // MOERT_CUDA_RAGGEDCUTLASS_H
