//===- KernelLaunch.cpp - from a call to its kernel -----------------------===//

#include "core/Attributes.h"
#include "core/Kernels.h"

namespace moert {

#define MOERT_LAUNCH_BY_HAND
#include "moert/kernels.inc"

static Status launchRoute(Kernels &kernels, const Call &call) {
  const View &experts = call.views[operands::Route::experts];
  RoutingPage *page = call.routing;
  auto route = [&](View forced, bool isRecorded) {
    Status status = callRoute(kernels, call, forced);
    return status.ok() && isRecorded ? kernels.recordChoices(experts, *page) : status;
  };
  const bool isRecorded = page && page->isRecorded;
  if (!page || page->forced.empty())
    return route({}, isRecorded);
  // The second call overwrites the own choices at once.
  const bool recordsOwn = isRecorded && page->recordsOwn;
  if (recordsOwn)
    MOERT_RETURN_IF_ERROR(route({}, true));
  View forced;
  MOERT_RETURN_IF_ERROR(kernels.forcedChoices(*page, experts, forced));
  return route(forced, isRecorded && !recordsOwn);
}

static Status launchRouterMeans(Kernels &kernels, const Call &call) {
  View forced;
  if (call.routing && !call.routing->forced.empty()) {
    View experts = call.views[operands::RouterMeans::logits];
    experts.dtype = MOERT_I32;
    experts.dims[1] = attributes::RouterMeans::of(call).topK;
    MOERT_RETURN_IF_ERROR(kernels.forcedChoices(*call.routing, experts, forced));
  }
  return callRouterMeans(kernels, call, forced);
}

static Status launchChooseShadows(Kernels &kernels, const Call &call) {
  const auto its = attributes::ChooseShadows::of(call);
  moert_shadow_costs costs{};
  costs.workers = its.workers;
  costs.node_workers = its.nodeWorkers;
  costs.most = its.most;
  costs.room = its.room;
  costs.phases = its.phases;
  costs.least = call.leastShadows;
  costs.row_compute = its.rowComputeS;
  costs.row_send = its.rowSendS;
  costs.row_local = its.rowLocalS;
  costs.row_node = its.rowNodeS;
  costs.expert = its.expertS;
  costs.start = its.startS;
  using operands::ChooseShadows;
  return kernels.chooseShadows(call.views[ChooseShadows::counts], call.views[ChooseShadows::shadows], its.policy,
                               costs);
}

// A kernel that kernels.def marks `by_hand` needs a case here.
#pragma GCC diagnostic error "-Wswitch"

Status launchKernel(Kernels &kernels, const Call &call) {
  switch (call.kind) {
#define MOERT_LAUNCH(kind, method, arguments)                                                                          \
  case Kind::kind:                                                                                                     \
    return kernels.method arguments;
#include "moert/kernels.inc"
  case Kind::Route:
    return launchRoute(kernels, call);
  case Kind::RouterMeans:
    return launchRouterMeans(kernels, call);
  case Kind::ChooseShadows:
    return launchChooseShadows(kernels, call);
#define MOERT_COLLECTIVE(kind) case Kind::kind:
#include "moert/kernels.inc"
    break;
  }
  return Status::error(MOERT_ERROR_INTERNAL, "expected a kernel but got '", kindName(call.kind), "'");
}

} // namespace moert
