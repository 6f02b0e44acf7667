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

namespace moert {
class Checker;
}

namespace moert::host {

/// Makes the math libraries run single threaded in the calling thread. Every worker calls it once.
void initialiseThread();

#define MOERT_METHOD(kind, method, parameters, arguments) Status method parameters;
#include "moert/kernels.inc"

/// Does the same for operands that core/Checks.h has accepted. `check` gets errors of the values that a kernel reads.
#define MOERT_CALLS_OF_CHECKED
#include "moert/kernels.inc"

/// Calls the functions of host/Kernels.h. It has no state, so that any number of threads may share one.
class HostKernels final : public Kernels {
public:
#define MOERT_METHOD(kind, method, parameters, arguments)                                                              \
  Status method parameters override { return host::method arguments; }
#include "moert/kernels.inc"

  Status forcedChoices(RoutingPage &page, View experts, View &forced) override {
    forced = experts;
    forced.data = page.forced.data();
    return {};
  }
  Status recordChoices(View experts, RoutingPage &page) override {
    page.chosen.assign(experts.as<int32_t>(), experts.as<int32_t>() + experts.elements());
    return {};
  }
};

} // namespace moert::host

#endif // MOERT_HOST_KERNELS_H
