//===- KernelsMissing.cpp - kernels that are not written yet --------------===//
//
// Whoever writes one takes it out of here.
//
//===----------------------------------------------------------------------===//
#include "cuda/CudaKernels.h"

namespace moert::cuda {

static Status missing(const Target &target) {
  return Status::error(MOERT_ERROR_UNSUPPORTED,
                       std::string("'") + kindName(target.kind) + "' is not written for CUDA yet");
}

Status CudaKernels::embedding(View, View, View, Part) { return missing(target); }
Status CudaKernels::embeddingGrad(View, View, View, View, Part) { return missing(target); }
Status CudaKernels::norm(View, View, View, View, int64_t, double) { return missing(target); }
Status CudaKernels::normGrad(View, View, View, View, int64_t, double) { return missing(target); }
Status CudaKernels::normWgrad(View, View, View, View, int64_t, double) { return missing(target); }
Status CudaKernels::rotary(View, View, const RotaryOptions &) { return missing(target); }
Status CudaKernels::appendToHeads(View, View, View) { return missing(target); }
Status CudaKernels::appendToHeadsGrad(View, View, View) { return missing(target); }
Status CudaKernels::attention(const AttentionInputs &, View, View, const AttentionOptions &) { return missing(target); }
Status CudaKernels::attentionGrad(const AttentionInputs &, View, View, View, View, View, View,
                                  const AttentionOptions &) {
  return missing(target);
}
Status CudaKernels::attentionBiasGrad(const AttentionInputs &, View, View, View, View, const AttentionOptions &) {
  return missing(target);
}
Status CudaKernels::attentionSinksGrad(View, View, View, View, View) { return missing(target); }
Status CudaKernels::relativeBias(View, View, bool, int64_t) { return missing(target); }
Status CudaKernels::relativeBiasGrad(View, View, View, bool, int64_t) { return missing(target); }
Status CudaKernels::dropout(View, View, View, int64_t, Part, Part, double) { return missing(target); }
Status CudaKernels::rowLogsumexp(View, View) { return missing(target); }
Status CudaKernels::rowLogsumexpGrad(View, View, View, View) { return missing(target); }
Status CudaKernels::pick(View, View, View, Part) { return missing(target); }
Status CudaKernels::pickGrad(View, View, View, View, Part) { return missing(target); }
Status CudaKernels::labelSum(View, View, View, View) { return missing(target); }
Status CudaKernels::labelSumGrad(View, View, View) { return missing(target); }

} // namespace moert::cuda
