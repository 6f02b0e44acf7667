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
  options.rank = i[13];
  options.routingScale = call.reals[0];
  return options;
}

static Status launchRoute(Kernels &kernels, const Call &call) {
  const auto &v = call.views;
  RoutingPage *page = call.routing;
  View forced;
  if (page && !page->forced.empty())
    if (Status status = kernels.forcedChoices(*page, v[3], forced); !status.ok())
      return status;
  Status status = kernels.route(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], routeOptions(call), forced);
  return status.ok() && page && page->isRecorded ? kernels.recordChoices(v[3], *page) : status;
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
  costs.row_compute = r[0];
  costs.row_send = r[1];
  costs.row_local = r[2];
  costs.row_node = r[3];
  costs.expert = r[4];
  costs.start = r[5];
  return kernels.chooseShadows(call.views[0], call.views[1], i[0], costs);
}

Status launchKernel(Kernels &kernels, const Call &call) {
  const auto &v = call.views;
  const auto &i = call.ints;
  switch (call.kind) {
  case Kind::Matmul:
    return kernels.matmul(v[0], v[1], v[2], i[0] != 0, i[1] != 0);
  case Kind::Add:
    return kernels.add(v[0], v[1], v[2]);
  case Kind::Scale:
    return kernels.scale(v[0], v[1], call.reals[0]);
  case Kind::Copy:
    return kernels.copy(v[0], v[1]);
  case Kind::RowScale:
    return kernels.rowScale(v[0], v[1], v[2]);
  case Kind::RowDot:
    return kernels.rowDot(v[0], v[1], v[2]);
  case Kind::Slice:
    return kernels.slice(v[0], v[1], i[0], i[1], i[2]);
  case Kind::Dump:
    return kernels.dump(v[0], v[1], i[0], i[1]);
  case Kind::LocalReduce:
    return kernels.localReduce(v[0], v[1], i[0], i[1]);
  case Kind::GroupedMatmul:
    return kernels.groupedMatmul(v[0], v[1], v[2], v[3], i[0] != 0);
  case Kind::GroupedMatmulWgrad:
    return kernels.groupedMatmulWgrad(v[0], v[1], v[2], v[3], v[4]);
  case Kind::BiasAdd:
    return kernels.biasAdd(v[0], v[1], v[2], v[3], call.reals[0]);
  case Kind::BiasGrad:
    return kernels.biasGrad(v[0], v[1], v[2], v[3], call.reals[0]);
  case Kind::Activation:
    return kernels.activation(v[0], v[1], v[2], i[0]);
  case Kind::ActivationGrad:
    return kernels.activationGrad(v[0], v[1], v[2], v[3], i[0]);
  case Kind::Route:
    return launchRoute(kernels, call);
  case Kind::RouteGrad:
    return kernels.routeGrad(v[0], v[1], v[2], v[3], v[4], i[0], i[1] != 0, i[2], call.reals[0]);
  case Kind::Dispatch:
    return kernels.dispatch(v[0], v[1], v[2], v[3]);
  case Kind::Combine:
    return kernels.combine(v[0], v[1], v[2], v[3]);
  case Kind::SlotDot:
    return kernels.slotDot(v[0], v[1], v[2], v[3]);
  case Kind::SliceCounts:
    return kernels.sliceCounts(v[0], v[1], i[0], i[1], i[2]);
  case Kind::LocalSlots:
    return kernels.localSlots(v[0], v[1], v[2], v[3], {i[0], i[1], i[2], i[3], i[4]});
  case Kind::ChooseShadows:
    return launchChooseShadows(kernels, call);
  case Kind::DivideChoices:
    return kernels.divideChoices(v[0], v[1], v[2], v[3], v[4], v[5], i[0], i[1]);
  default:
    return launchModelKernel(kernels, call);
  }
}

} // namespace moert
