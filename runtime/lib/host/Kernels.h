//===- Kernels.h - the compute of the host device --------------------------===//
//
// The functions of core/Kernels.h, synchronous and single threaded. Any number of threads may call them at once. All
// compute f32 and f64, and i32 if nothing is computed (copy, slice, dump). Except for `cast`, they refuse bf16 and f16
// with MOERT_ERROR_UNSUPPORTED, and launchWideKernel accepts these.
//
// Precision: sums of f32 over rows or heads are in double, as in gradients of biases and in losses. activation is
// within 1e-6 (f32) and 1e-14 (f64) of the exact value, relatively, and within x^2 / 8 times that in the tails, |x| >
// 2.8. attention takes memory for a block of queries besides its operands.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_HOST_KERNELS_H
#define MOERT_HOST_KERNELS_H

#include "core/Kernels.h"

namespace moert::host {

/// Makes the math libraries run single threaded in the calling thread. Every worker calls it once.
void initialiseThread();

#define MOERT_METHOD(kind, method, parameters, arguments) Status method parameters;
#include "moert/kernels.inc"

} // namespace moert::host

#endif // MOERT_HOST_KERNELS_H
