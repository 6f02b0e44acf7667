//===- RaggedCutlassF16Pingpong.cu - one of CUTLASS's grouped kernels ---===//

#include "cuda/RaggedCutlass.cuh"

namespace moert::cuda::cutlass_groups {

Status multiplyF16Pingpong(const Target &target, const RaggedProduct &product, const GroupArrays &arrays) {
  return multiply<cutlass::half_t, Pingpong>(target, product, arrays);
}

} // namespace moert::cuda::cutlass_groups
