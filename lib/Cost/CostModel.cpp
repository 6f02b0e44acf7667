//===- CostModel.cpp - times of work and exchanges on a cluster -----------===//
//
// Creation, interference and bounds, which both forms share. LaunchSeconds.cpp has launches that do not meet, and
// GroupSeconds.cpp alpha and beta of groups.
//
//===----------------------------------------------------------------------===//
#include "moe/Cost/CostModel.h"

#include "Forms.h"
#include "ProfileReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace mlir::moe;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

CostModel::CostModel(std::unique_ptr<State> state)
    : profile(state->profile), ranks(state->ranks), state(std::move(state)) {}
CostModel::~CostModel() = default;

static llvm::Error addFaults(CostModel::State &state, llvm::ArrayRef<LinkFault> faults) {
  if (!state.topology)
    return llvm::createStringError("cluster '" + state.profile.name + "' has no links to slow down");
  state.healthy = std::move(state.topology);
  if (llvm::Error error = Topology::create(state.profile, state.ranks).moveInto(state.topology))
    return error;
  for (const LinkFault &fault : faults)
    if (llvm::Error error = state.topology->slowDown(fault.from, fault.to, fault.factor))
      return error;
  return llvm::Error::success();
}

Expected<std::unique_ptr<CostModel>> CostModel::create(const ClusterProfile &profile, int64_t ranks, CostForm form,
                                                       llvm::ArrayRef<LinkFault> faults) {
  if (ranks < 1 || ranks > profile.getMaxDevices())
    return llvm::createStringError("cluster '" + profile.name + "' has " + Twine(profile.getMaxDevices()) +
                                   " devices, but the plan is for " + Twine(ranks) + " ranks");
  auto state = std::make_unique<State>(State{profile, ranks, {}, {}, {}, {}, {}, {}, {}});
  for (const KernelRate &kernel : profile.kernels)
    state->kernels[kernel.kernel].push_back(&kernel);
  if (form == CostForm::LinkLevel && profile.links.empty())
    return llvm::createStringError("cluster '" + profile.name + "' has no links, which the link-level form needs");
  if (!profile.links.empty()) {
    if (llvm::Error error = Topology::create(profile, ranks).moveInto(state->topology))
      return error;
    state->layout.exits = state->topology->getExits();
  }
  state->layout.devicesPerNode = profile.devicesPerNode;
  for (const LinkPattern &link : profile.links)
    (link.to == profile::kNetwork ? state->layout.networkReduces : state->layout.nodeReduces) |= link.reduces;
  if (!faults.empty())
    if (llvm::Error error = addFaults(*state, faults))
      return error;
  return form == CostForm::ClosedForm ? makeClosedForm(std::move(state)) : makeLinkLevel(std::move(state));
}

//===----------------------------------------------------------------------===//
// Interference and bounds
//===----------------------------------------------------------------------===//

Expected<double> CostModel::getSpeed(Resource resource, unsigned busy) const {
  WorkKind kind = getKind(resource);
  llvm::SmallSet<WorkKind, 4> kinds;
  kinds.insert(kind);
  for (unsigned other = 0; other < kNumResources; ++other)
    if (busy >> other & 1)
      kinds.insert(getKind(static_cast<Resource>(other)));
  kinds.erase(WorkKind::None);
  if (kind == WorkKind::None || kinds.size() == 1)
    return 1;
  bool compute = kinds.contains(WorkKind::Compute), communication = kinds.contains(WorkKind::Communication),
       copy = kinds.contains(WorkKind::Copy);
  for (const Interference &set : profile.interference)
    if (set.compute == compute && set.communication == communication && set.copy == copy)
      return kind == WorkKind::Compute         ? set.computeSpeed
             : kind == WorkKind::Communication ? set.communicationSpeed
                                               : set.copySpeed;
  llvm::SmallVector<StringRef, 3> names;
  for (auto [runs, name] : {std::pair(compute, "compute"), {communication, "communication"}, {copy, "copy"}})
    if (runs)
      names.push_back(name);
  return llvm::createStringError("cluster '" + profile.name + "' has no interference of " + llvm::join(names, ", "));
}

/// Largest ratio of bytes to bandwidth of any link.
static double getWorstLink(const Topology &topology, llvm::ArrayRef<double> matrix, int64_t ranks) {
  std::vector<double> loads(topology.getLinks().size());
  for (int64_t from = 0; from < ranks; ++from)
    for (int64_t to = 0; to < ranks; ++to)
      if (double bytes = matrix[from * ranks + to]; bytes > 0 && from != to)
        for (uint32_t link : topology.getPath(from, to))
          loads[link] += bytes;
  double worst = 0;
  for (auto [load, link] : llvm::zip_equal(loads, topology.getLinks()))
    worst = std::max(worst, load / link.bytesPerSecond);
  return worst;
}

/// Most bytes that a rank sends or receives. If devices share processors, also the mean bytes of each processor of a
/// node.
static double getMostBytes(const ClusterProfile &profile, llvm::ArrayRef<double> matrix, int64_t ranks) {
  double most = 0, ofNode = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    double sent = 0, received = 0;
    for (int64_t other = 0; other < ranks; ++other) {
      if (other == rank)
        continue;
      sent += matrix[rank * ranks + other];
      received += matrix[other * ranks + rank];
    }
    if (rank % profile.devicesPerNode == 0)
      ofNode = 0;
    ofNode += received;
    most = std::max({most, sent, received});
    if (profile.processors.count > 0)
      most = std::max(most, ofNode / profile.processors.count);
  }
  return most;
}

Expected<double> CostModel::getLinkBound(llvm::ArrayRef<double> matrix) const {
  if (matrix.size() != static_cast<size_t>(ranks * ranks))
    return llvm::createStringError("expected bytes between " + Twine(ranks) + " ranks but got " + Twine(matrix.size()) +
                                   " numbers");
  if (state->topology)
    return getWorstLink(*state->topology, matrix, ranks);
  std::optional<double> least;
  for (const CollectiveFit &fit : profile.collectives)
    if (double beta = fit.isCurve ? getCurveBeta(fit, fit.points.back().bytes) : fit.beta;
        fit.collective == Collective::AllToAll && (!least || beta < *least))
      least = beta;
  if (!least)
    return llvm::createStringError("cluster '" + profile.name + "' has neither links nor a fit for 'all_to_all'");
  return getMostBytes(profile, matrix, ranks) * *least;
}
