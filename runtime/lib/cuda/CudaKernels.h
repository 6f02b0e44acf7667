//===- CudaKernels.h - the kernels of CUDA devices ------------------------===//
#ifndef MOERT_CUDA_CUDAKERNELS_H
#define MOERT_CUDA_CUDAKERNELS_H

#include "core/Checks.h"
#include "cuda/Context.h"

namespace moert::cuda {

/// Enqueues kernels on a stream of the current device. It is made for one call, and the target has the call's kind and
/// op. Sums over rows have a fixed order, so that all runs give the same bits. A fault that depends on data is noted in
/// the device's Faults and not returned.
class CudaKernels final : public Kernels {
public:
  explicit CudaKernels(Target target) : target(target) {}

// Each kernel checks its operands and then runs.
#define MOERT_CUDA_METHOD(kind, method, parameters, arguments)                                                         \
  Status method parameters override {                                                                                  \
    MOERT_RETURN_IF_ERROR(check##kind arguments);                                                                      \
    return run##kind arguments;                                                                                        \
  }
#include "moert/kernels.inc"
  Status forcedChoices(RoutingPage &page, View experts, View &forced) override;
  Status recordChoices(View experts, RoutingPage &page) override;

  /// Op, stream and device of the call.
  const Target &where() const { return target; }

private:
#define MOERT_CUDA_METHOD(kind, method, parameters, arguments) Status run##kind parameters;
#include "moert/kernels.inc"

  Target target;
};

/// Bytes of a stream's staging memory for the recorded choices of a route, and for a choice of shadows.
int64_t recordingBytes(View experts);
int64_t decisionBytes(View counts);

/// The shape of a matmul of these operands.
ProductShape matmulShape(View a, View c, bool transposeA, bool transposeB);

} // namespace moert::cuda

#endif // MOERT_CUDA_CUDAKERNELS_H
