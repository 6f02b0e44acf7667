//===- Faults.cuh - noting faults in kernels ------------------------------===//
#ifndef MOERT_CUDA_FAULTS_CUH
#define MOERT_CUDA_FAULTS_CUH

#include "cuda/Faults.h"

namespace moert::cuda {

/// Notes a fault if it is the first. The cell is in the host's memory, so a kernel without faults does not read it.
__device__ inline void raise(FaultSite site, FaultKind kind, int64_t a = 0, int64_t b = 0, int64_t c = 0) {
  if (atomicCAS(&site.cell->kind, 0, static_cast<int32_t>(kind)) != 0)
    return;
  site.cell->kernel = site.kernel;
  site.cell->op = site.op;
  site.cell->values[0] = a;
  site.cell->values[1] = b;
  site.cell->values[2] = c;
}

} // namespace moert::cuda

#endif // MOERT_CUDA_FAULTS_CUH
