//===- HostKernels.h - the host's kernels as a device's --------------------===//
#ifndef MOERT_HOST_HOSTKERNELS_H
#define MOERT_HOST_HOSTKERNELS_H

#include "host/Kernels.h"

namespace moert::host {

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

#endif // MOERT_HOST_HOSTKERNELS_H
