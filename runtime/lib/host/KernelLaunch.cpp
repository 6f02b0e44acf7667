//===- KernelLaunch.cpp - from a call to its kernel -----------------------===//

#include "host/HostBackend.h"
#include "host/Kernels.h"

namespace moert::host {

static Status launchRoute(const Call &call) {
  const auto &v = call.views;
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
  options.routingScale = call.real;
  return route(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], options);
}

Status launchKernel(const Call &call) {
  const auto &v = call.views;
  const auto &i = call.ints;
  switch (call.kind) {
  case Kind::Matmul:
    return matmul(v[0], v[1], v[2], i[0] != 0, i[1] != 0);
  case Kind::Add:
    return add(v[0], v[1], v[2]);
  case Kind::Scale:
    return scale(v[0], v[1], call.real);
  case Kind::Copy:
    return copy(v[0], v[1]);
  case Kind::RowScale:
    return rowScale(v[0], v[1], v[2]);
  case Kind::RowDot:
    return rowDot(v[0], v[1], v[2]);
  case Kind::Slice:
    return slice(v[0], v[1], i[0], i[1], i[2]);
  case Kind::Dump:
    return dump(v[0], v[1], i[0], i[1]);
  case Kind::LocalReduce:
    return localReduce(v[0], v[1], i[0], i[1]);
  case Kind::GroupedMatmul:
    return groupedMatmul(v[0], v[1], v[2], v[3], i[0] != 0);
  case Kind::GroupedMatmulWgrad:
    return groupedMatmulWgrad(v[0], v[1], v[2], v[3], v[4]);
  case Kind::BiasAdd:
    return biasAdd(v[0], v[1], v[2], v[3], call.real);
  case Kind::BiasGrad:
    return biasGrad(v[0], v[1], v[2], v[3], call.real);
  case Kind::Activation:
    return activation(v[0], v[1], v[2], i[0]);
  case Kind::ActivationGrad:
    return activationGrad(v[0], v[1], v[2], v[3], i[0]);
  case Kind::Route:
    return launchRoute(call);
  case Kind::RouteGrad:
    return routeGrad(v[0], v[1], v[2], v[3], v[4], i[0], i[1] != 0, i[2], call.real);
  case Kind::Dispatch:
    return dispatch(v[0], v[1], v[2], v[3]);
  case Kind::Combine:
    return combine(v[0], v[1], v[2], v[3]);
  case Kind::SlotDot:
    return slotDot(v[0], v[1], v[2], v[3]);
  case Kind::SliceCounts:
    return sliceCounts(v[0], v[1], i[0], i[1], i[2]);
  default:
    return Status::error(MOERT_ERROR_INTERNAL, "not a kernel");
  }
}

} // namespace moert::host
