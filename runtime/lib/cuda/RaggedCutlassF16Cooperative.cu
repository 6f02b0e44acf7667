//===- RaggedCutlassF16Cooperative.cu - one of CUTLASS's grouped kernels ---===//

#include "cuda/RaggedCutlass.cuh"

namespace moert::cuda::cutlass_groups {

Status multiplyF16Cooperative(const Target &target, const RaggedProduct &product, const GroupArrays &arrays) {
  return multiply<cutlass::half_t, Cooperative>(target, product, arrays);
}

} // namespace moert::cuda::cutlass_groups
