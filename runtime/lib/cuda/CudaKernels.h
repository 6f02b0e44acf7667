//===- CudaKernels.h - the kernels of CUDA devices ------------------------===//
#ifndef MOERT_CUDA_CUDAKERNELS_H
#define MOERT_CUDA_CUDAKERNELS_H

#include "core/Kernels.h"
#include "cuda/Context.h"

namespace moert::cuda {

/// Enqueues kernels on a stream of the current device. It is made for one call, whose kind and op are the target's.
/// Sums over rows are made in a fixed order, so that runs give the same bits. A fault that only the data shows is noted
/// in the device's Faults instead of returned.
class CudaKernels final : public Kernels {
public:
  explicit CudaKernels(Target target) : target(target) {}

#define MOERT_CUDA_METHOD(kind, method, parameters, arguments) Status method parameters override;
#include "moert/kernels.inc"
  Status forcedChoices(RoutingPage &page, View experts, View &forced) override;
  Status recordChoices(View experts, RoutingPage &page) override;

  /// Where the call runs.
  const Target &where() const { return target; }

private:
  Target target;
};

/// The shape of a matmul of these operands.
ProductShape matmulShape(View a, View c, bool transposeA, bool transposeB);

} // namespace moert::cuda

#endif // MOERT_CUDA_CUDAKERNELS_H
