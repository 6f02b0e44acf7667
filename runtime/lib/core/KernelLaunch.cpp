//===- KernelLaunch.cpp - from a call to its kernel -----------------------===//

#include "core/Kernels.h"

namespace moert {

static RouteOptions routeOptions(const Call &call) {
  const auto &i = call.ints;
  RouteOptions options;
  options.score = i[0];
  options.renormalize = i[1] != 0;
  options.expertGroups = i[2];
  options.topGroups = i[3];
  options.groupScore = i[4];
  options.capacity = i[5];
  options.groups = i[6];
  options.chunks = i[7];
  options.chunkRows = i[8];
  options.leave = i[9];
  options.homes = i[10];
  options.homeStride = i[11];
  options.homeSpan = i[12];
  options.rank = call.rank;
  options.routingScale = call.reals[0];
  return options;
}

static Status launchRoute(Kernels &kernels, const Call &call) {
  const auto &v = call.views;
  RoutingPage *page = call.routing;
  auto route = [&](View forced, bool isRecorded) {
    Status status = kernels.route(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], routeOptions(call), forced);
    return status.ok() && isRecorded ? kernels.recordChoices(v[3], *page) : status;
  };
  const bool isRecorded = page && page->isRecorded;
  if (!page || page->forced.empty())
    return route({}, isRecorded);
  // What it would choose is written over at once.
  const bool recordsOwn = isRecorded && page->recordsOwn;
  if (recordsOwn)
    if (Status status = route({}, true); !status.ok())
      return status;
  View forced;
  if (Status status = kernels.forcedChoices(*page, v[3], forced); !status.ok())
    return status;
  return route(forced, isRecorded && !recordsOwn);
}

static Status launchChooseShadows(Kernels &kernels, const Call &call) {
  const auto &i = call.ints;
  const auto &r = call.reals;
  moert_shadow_costs costs{};
  costs.workers = i[1];
  costs.node_workers = i[2];
  costs.most = i[3];
  costs.room = i[4];
  costs.phases = i[5];
  costs.least = i[6];
  costs.row_compute = r[0];
  costs.row_send = r[1];
  costs.row_local = r[2];
  costs.row_node = r[3];
  costs.expert = r[4];
  costs.start = r[5];
  return kernels.chooseShadows(call.views[0], call.views[1], i[0], costs);
}

// A kernel that the table says to be called by hand has its case here.
#pragma GCC diagnostic error "-Wswitch"

Status launchKernel(Kernels &kernels, const Call &call) {
  switch (call.kind) {
#define MOERT_LAUNCH(kind, method, arguments)                                                                          \
  case Kind::kind:                                                                                                     \
    return kernels.method arguments;
#include "moert/kernels.inc"
  case Kind::Route:
    return launchRoute(kernels, call);
  case Kind::ChooseShadows:
    return launchChooseShadows(kernels, call);
#define MOERT_COLLECTIVE(kind) case Kind::kind:
#include "moert/kernels.inc"
    break;
  }
  return Status::error(MOERT_ERROR_INTERNAL, std::string("expected a kernel but got '") + kindName(call.kind) + "'");
}

} // namespace moert
