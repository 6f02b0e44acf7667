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

} // namespace moert::cuda
