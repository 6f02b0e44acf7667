//===- CostModel.cpp - how long things take on a cluster ------------------===//
//
// What both forms share: launches that meet nobody, alpha and beta of groups, interference, bounds.
//
//===----------------------------------------------------------------------===//
#include "moe/Cost/CostModel.h"

#include "CollectiveFlows.h"
#include "Forms.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir::moe;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

llvm::Error mlir::moe::makeCostError(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

CostModel::CostModel(std::unique_ptr<State> state)
    : profile(state->profile), ranks(state->ranks), state(std::move(state)) {}
CostModel::~CostModel() = default;

static Expected<std::unique_ptr<Topology>> makeTopology(const ClusterProfile &profile, int64_t ranks) {
  Expected<Topology> topology = Topology::create(profile, ranks);
  if (!topology)
    return topology.takeError();
  return std::make_unique<Topology>(std::move(*topology));
}

static llvm::Error addFaults(CostModel::State &state, llvm::ArrayRef<LinkFault> faults) {
  if (!state.topology)
    return makeCostError("cluster '" + state.profile.name + "' has no links to slow down");
  Expected<std::unique_ptr<Topology>> faulty = makeTopology(state.profile, state.ranks);
  if (!faulty)
    return faulty.takeError();
  state.healthy = std::exchange(state.topology, std::move(*faulty));
  for (const LinkFault &fault : faults)
    if (llvm::Error error = state.topology->slowDown(fault.from, fault.to, fault.factor))
      return error;
  return llvm::Error::success();
}

Expected<std::unique_ptr<CostModel>> CostModel::create(const ClusterProfile &profile, int64_t ranks, CostForm form,
                                                       llvm::ArrayRef<LinkFault> faults) {
  if (ranks < 1 || ranks > profile.getMaxDevices())
    return makeCostError("cluster '" + profile.name + "' has " + Twine(profile.getMaxDevices()) +
                         " devices, but the plan is for " + Twine(ranks) + " ranks");
  auto state = std::make_unique<State>(State{profile, ranks, nullptr, nullptr, {}, {}, {}, {}});
  for (const KernelRate &kernel : profile.kernels)
    state->kernels[kernel.kernel].push_back(&kernel);
  if (form == CostForm::LinkLevel && profile.links.empty())
    return makeCostError("cluster '" + profile.name + "' has no links, which the link-level form needs");
  if (!profile.links.empty()) {
    Expected<std::unique_ptr<Topology>> topology = makeTopology(profile, ranks);
    if (!topology)
      return topology.takeError();
    state->topology = std::move(*topology);
  }
  if (!faults.empty())
    if (llvm::Error error = addFaults(*state, faults))
      return error;
  return form == CostForm::ClosedForm ? makeClosedForm(std::move(state)) : makeLinkLevel(std::move(state));
}

//===----------------------------------------------------------------------===//
// Launches that meet nobody
//===----------------------------------------------------------------------===//

namespace {

/// Between which points of an axis a size lies: at `index`, and by `weight` of the way, in logarithms, at the next one.
struct AxisPlace {
  size_t index = 0;
  double weight = 0;
};

} // namespace

static AxisPlace locate(llvm::ArrayRef<double> axis, double size) {
  if (size <= axis.front())
    return {};
  if (size >= axis.back())
    return {axis.size() - 1, 0};
  size_t next = llvm::upper_bound(axis, size) - axis.begin();
  return {next - 1, std::log(size / axis[next - 1]) / std::log(axis[next] / axis[next - 1])};
}

/// Linear in logarithms between the grid's points, the nearest one outside.
static double getEfficiency(const EfficiencyCurve &curve, double rows, double columns, double depth) {
  AxisPlace places[] = {locate(curve.rows, rows), locate(curve.columns, columns), locate(curve.depth, depth)};
  auto getValue = [&](unsigned corner) {
    size_t row = places[0].index + (corner & 1), column = places[1].index + (corner >> 1 & 1);
    return curve.values[(row * curve.columns.size() + column) * curve.depth.size() + places[2].index + (corner >> 2)];
  };
  if (places[0].weight == 0 && places[1].weight == 0 && places[2].weight == 0)
    return getValue(0);
  double sum = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double weight = 1;
    for (unsigned axis = 0; axis < 3; ++axis)
      weight *= corner >> axis & 1 ? places[axis].weight : 1 - places[axis].weight;
    if (weight > 0)
      sum += weight * std::log(getValue(corner));
  }
  return std::exp(sum);
}

/// The digits of f32, bf16, ..; 0 where there are none.
static double getElementBytes(StringRef dtype) {
  unsigned bits = 0;
  if (dtype.drop_while([](char c) { return !llvm::isDigit(c); }).getAsInteger(10, bits))
    return 0;
  return bits / 8.0;
}

static bool hasLeadingParams(const Work &work, llvm::ArrayRef<int64_t> params) {
  return work.params.take_front(params.size()) == params;
}

/// The curve that holds for the launch's products.
static const EfficiencyCurve &getCurve(const DeviceRate &rate, const Work &work) {
  for (const SpecialCurve &special : llvm::reverse(rate.special)) {
    bool fits = special.calls.empty() || llvm::any_of(special.calls, [&](const KernelCalls &calls) {
                  return calls.kernel == work.kernel && hasLeadingParams(work, calls.params);
                });
    fits &= !special.isRagged || work.cost->raggedRows > 0;
    if (fits && work.cost->gemm.columns % special.columnsMultiple == 0)
      return special.efficiency;
  }
  return rate.efficiency;
}

/// One product of [rows, depth] and [depth, columns].
static double getProductSeconds(const ClusterProfile &profile, const DeviceRate &rate, const EfficiencyCurve &curve,
                                double rows, double columns, double depth) {
  if (rows <= 0 || columns <= 0 || depth <= 0)
    return 0;
  // Fewer rows than the curve's first take no less time than those.
  double paidRows = std::max(rows, curve.rows.front());
  double efficiency = getEfficiency(curve, paidRows, columns, depth);
  double compute = 2 * paidRows * columns * depth / (rate.flopsPerSecond * efficiency);
  double bytes = (rows * depth + depth * columns + rows * columns) * getElementBytes(rate.dtype);
  return std::max(compute, bytes / profile.memoryBytesPerSecond);
}

static Expected<double> getMatrixSeconds(const ClusterProfile &profile, const Work &work) {
  const DeviceRate *rate = profile.getRate(work.dtype);
  if (!rate) {
    std::string known =
        llvm::join(llvm::map_range(profile.rates, [](const DeviceRate &rate) { return rate.dtype; }), ", ");
    return makeCostError("cluster '" + profile.name + "' has no rate for dtype '" + work.dtype + "'; it has " + known);
  }
  const EfficiencyCurve &curve = getCurve(*rate, work);
  const GemmShape &gemm = work.cost->gemm;
  auto getProduct = [&](int64_t rows, int64_t depth) {
    return getProductSeconds(profile, *rate, curve, rows, gemm.columns, depth);
  };
  if (work.rows.empty())
    return gemm.groups * getProduct(gemm.rows, gemm.depth);
  double seconds = 0;
  for (int64_t rows : work.rows)
    seconds += work.cost->raggedDepth ? getProduct(gemm.rows, rows) : getProduct(rows, gemm.depth);
  return seconds;
}

/// The entry that says most about the launch, or null.
static const KernelRate *findKernel(const llvm::StringMap<llvm::SmallVector<const KernelRate *>> &kernels,
                                    const Work &work) {
  const KernelRate *best = nullptr;
  auto getDetail = [](const KernelRate *kernel) { return std::pair(kernel->params.size(), !kernel->dtype.empty()); };
  for (const KernelRate *kernel : kernels.lookup(work.kernel)) {
    bool hasDtype = kernel->dtype.empty() || kernel->dtype == work.dtype;
    if (hasDtype && hasLeadingParams(work, kernel->params) && (!best || getDetail(kernel) > getDetail(best)))
      best = kernel;
  }
  return best;
}

/// Bytes read and written by the rows that are used.
static double getBytes(const Work &work) {
  double bytes = static_cast<double>(work.cost->getBytesMoved());
  if (work.rows.empty() || work.cost->raggedRows == 0)
    return bytes;
  double used = 0;
  for (int64_t rows : work.rows)
    used += rows;
  return bytes * used / work.cost->raggedRows;
}

std::optional<double> CostModel::getRelativeError(const Work &work) const {
  const KernelRate *kernel = work.cost->resource == Resource::Memory ? findKernel(state->kernels, work) : nullptr;
  return kernel ? kernel->relativeError : std::nullopt;
}

Expected<double> CostModel::getSeconds(const Work &work) const {
  double seconds = 0;
  switch (work.cost->resource) {
  case Resource::None:
    return 0;
  case Resource::Matrix: {
    Expected<double> matrix = getMatrixSeconds(profile, work);
    if (!matrix)
      return matrix.takeError();
    seconds = *matrix;
    break;
  }
  case Resource::Memory: {
    const KernelRate *kernel = findKernel(state->kernels, work);
    seconds = kernel ? kernel->latency + getBytes(work) / kernel->bytesPerSecond
                     : getBytes(work) / profile.memoryBytesPerSecond;
    break;
  }
  case Resource::HostLink:
    if (!profile.hostBytesPerSecond)
      return makeCostError("cluster '" + profile.name + "' has no 'device.host_link', which '" + work.kernel +
                           "' needs");
    // Each byte crosses it once, though it is read here and written there.
    seconds = profile.hostLatency + static_cast<double>(std::max(work.cost->bytesRead, work.cost->bytesWritten)) /
                                        *profile.hostBytesPerSecond;
    break;
  case Resource::Network:
    return makeCostError("expected a kernel but got the exchange '" + work.kernel +
                         "', whose time depends on its group");
  }
  return std::max(seconds, profile.kernelSeconds);
}

//===----------------------------------------------------------------------===//
// Alpha and beta
//===----------------------------------------------------------------------===//

static size_t getKey(Collective collective, llvm::ArrayRef<int64_t> ranks, StringRef dtype) {
  return llvm::hash_combine(collective, ranks.size(), ranks.front(), ranks.back(), ranks[ranks.size() / 2], dtype);
}

const CostModel::AlphaBeta *GroupCache::find(Collective collective, llvm::ArrayRef<int64_t> ranks,
                                             StringRef dtype) const {
  auto it = entries.find(getKey(collective, ranks, dtype));
  if (it == entries.end())
    return nullptr;
  for (const Entry &entry : it->second)
    if (entry.collective == collective && entry.dtype == dtype && llvm::ArrayRef(entry.ranks) == ranks)
      return &entry.value;
  return nullptr;
}

void GroupCache::insert(Collective collective, llvm::ArrayRef<int64_t> ranks, StringRef dtype,
                        CostModel::AlphaBeta value) {
  entries[getKey(collective, ranks, dtype)].push_back({collective, ranks.vec(), dtype.str(), value});
}

namespace {

/// Groups that exchange at the same time, and the members whose sends have to be added up.
struct Siblings {
  std::vector<std::vector<int64_t>> groups;
  size_t senders = 0; ///< the first ones of each group
  /// All periods of the topology see the same: only what ranks of the first one send is added up, on links of the first
  /// one.
  bool isFolded = false;
};

} // namespace

/// The stride of `group` if groups of its size and stride, one after the other, are all ranks and it is one of them;
/// else 0.
static int64_t getStride(llvm::ArrayRef<int64_t> group, int64_t ranks) {
  int64_t size = group.size(), stride = size > 1 ? group[1] - group[0] : 1;
  if (stride <= 0 || ranks % (size * stride) != 0 || group[0] % (size * stride) >= stride)
    return 0;
  for (int64_t member = 0; member < size; ++member)
    if (group[member] != group[0] + member * stride)
      return 0;
  return stride;
}

/// What the ranks of one stage of a pipeline send to those of another, all at the same time: `pair` and what lies
/// beside it, stages being no longer than the way between the two.
static std::vector<std::vector<int64_t>> getTransfersBeside(llvm::ArrayRef<int64_t> pair, int64_t ranks) {
  int64_t distance = pair[1] - pair[0], length = std::abs(distance), first = pair[0] - pair[0] % length;
  std::vector<std::vector<int64_t>> transfers;
  for (int64_t rank = first; rank < std::min({first + length, ranks, ranks - distance}); ++rank)
    transfers.push_back({rank, rank + distance});
  return transfers;
}

/// Whether the members of both are on nodes in the same way.
static bool isAlike(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b, int64_t devicesPerNode) {
  auto getNode = [&](llvm::ArrayRef<int64_t> group, size_t member) {
    return group[member] / devicesPerNode - group[0] / devicesPerNode;
  };
  return llvm::all_of(llvm::seq<size_t>(0, a.size()), [&](size_t m) { return getNode(a, m) == getNode(b, m); });
}

/// In an SPMD program the groups of one size and stride do the same at the same time. A rooted
/// pair that is no such pattern is of two stages; any other group is alone.
static Siblings getSiblings(const Exchange &exchange, const ClusterProfile &profile, const Topology &topology,
                            Algorithm algorithm, bool hasFaults) {
  llvm::ArrayRef<int64_t> group = exchange.ranks;
  int64_t size = group.size(), ranks = topology.getNumRanks(), period = topology.getPeriod();
  Siblings siblings = {{}, group.size(), false};
  int64_t stride = getStride(group, ranks), span = size * stride;
  // A tree is not the same for all of its members, and neither is a chain.
  bool areAlikeMembers = algorithm != Algorithm::Tree && !exchange.isRooted();
  siblings.isFolded = stride && !hasFaults && areAlikeMembers && ranks % period == 0 &&
                      (span % period == 0 || period % span == 0) && (stride % period == 0 || period % stride == 0);
  if (siblings.isFolded)
    siblings.senders = std::clamp<int64_t>(period / stride, 1, size);
  int64_t end = siblings.isFolded ? period : ranks;
  for (int64_t first = 0; stride && first < end; first += span)
    for (int64_t offset = 0; offset < stride && first + offset < end; ++offset) {
      auto &sibling = siblings.groups.emplace_back();
      for (int64_t member = 0; member < size; ++member)
        sibling.push_back(first + offset + member * stride);
    }
  // What the members of a hierarchical one do depends on their nodes.
  bool areAlike = algorithm != Algorithm::Hierarchical || llvm::all_of(siblings.groups, [&](const auto &sibling) {
                    return isAlike(sibling, group, profile.devicesPerNode);
                  });
  if (!stride && size == 2 && exchange.isRooted())
    return {getTransfersBeside(group, ranks), group.size(), false};
  if (!stride || !areAlike)
    return {{group.vec()}, group.size(), false};
  return siblings;
}

/// A step of all groups at once, one byte of payload each: the worst latency, of a chain that of all its ways, and the
/// seconds of the worst link.
static CostModel::AlphaBeta addUpStep(const Topology &topology, const Phase &phase, size_t step,
                                      const Siblings &siblings, std::vector<double> &loads) {
  CostModel::AlphaBeta sum;
  llvm::SmallVector<uint32_t, 0> used;
  for (const std::vector<int64_t> &group : siblings.groups) {
    double latency = 0;
    for (size_t member = 0; member < siblings.senders; ++member) {
      llvm::ArrayRef<Send> sends = phase.getSends(member);
      if (step >= sends.size())
        continue;
      if (!phase.isPipelined)
        latency = 0;
      for (uint32_t link : topology.getPath(group[member], group[sends[step].to])) {
        latency += topology.getLinks()[link].latency;
        if (siblings.isFolded)
          link = topology.getFirstAlike(link);
        if (loads[link] == 0)
          used.push_back(link);
        loads[link] += sends[step].bytes;
      }
      sum.alpha = std::max(sum.alpha, latency);
    }
  }
  for (uint32_t link : used) {
    sum.beta = std::max(sum.beta, loads[link] / topology.getLinks()[link].bytesPerSecond);
    loads[link] = 0;
  }
  return sum;
}

static CostModel::AlphaBeta addUp(const Topology &topology, llvm::ArrayRef<Phase> phases, const Siblings &siblings) {
  CostModel::AlphaBeta sum;
  std::vector<double> loads(topology.getLinks().size());
  for (const Phase &phase : phases) {
    size_t steps = 0;
    for (size_t member = 0; member < siblings.senders; ++member)
      steps = std::max(steps, phase.getSends(member).size());
    for (size_t step = 0; step < steps; ++step) {
      CostModel::AlphaBeta one = addUpStep(topology, phase, step, siblings, loads);
      sum.alpha += phase.repeats * one.alpha;
      sum.beta += phase.repeats * one.beta;
    }
  }
  return sum;
}

static Expected<CostModel::AlphaBeta> getFromLinks(const ClusterProfile &profile, const Topology &topology,
                                                   Collective collective, llvm::ArrayRef<int64_t> ranks,
                                                   Algorithm algorithm, bool hasFaults,
                                                   std::array<GroupCache, kNumAlgorithms> &caches) {
  GroupCache &cache = caches[static_cast<unsigned>(algorithm)];
  Exchange exchange;
  exchange.collective = collective;
  exchange.payload = 1;
  exchange.ranks = ranks;
  Siblings siblings = getSiblings(exchange, profile, topology, algorithm, hasFaults);
  if (const CostModel::AlphaBeta *known = cache.find(collective, siblings.groups[0], ""))
    return *known;
  exchange.ranks = siblings.groups[0];
  Expected<std::vector<Phase>> phases = makePhases(exchange, algorithm, profile.devicesPerNode, siblings.senders);
  if (!phases)
    return makeCostError("cluster '" + profile.name + "': " + llvm::toString(phases.takeError()));
  CostModel::AlphaBeta sum = addUp(topology, *phases, siblings);
  cache.insert(collective, siblings.groups[0], "", sum);
  return sum;
}

/// The fit for this shape of group; one for this dtype before one for any.
static const CollectiveFit *findFit(const ClusterProfile &profile, Collective collective, int64_t members,
                                    int64_t perNode, StringRef dtype) {
  const CollectiveFit *found = nullptr;
  for (const CollectiveFit &fit : profile.collectives) {
    bool isFor = fit.collective == collective && (fit.dtype.empty() || fit.dtype == dtype) &&
                 fit.minMembers <= members && members <= fit.maxMembers && fit.minPerNode <= perNode &&
                 perNode <= fit.maxPerNode;
    if (isFor && (!found || (found->dtype.empty() && !fit.dtype.empty())))
      found = &fit;
  }
  return found;
}

static llvm::Error makeNoGroupError(const ClusterProfile &profile, Collective collective, int64_t members,
                                    int64_t perNode, StringRef dtype) {
  std::string nodes = perNode ? (Twine(perNode) + " on each node").str() : "a different number on each node";
  return makeCostError("cluster '" + profile.name + "' has neither links nor a fit for '" + getName(collective) +
                       "' of dtype '" + dtype + "' among " + Twine(members) + " members, " + nodes);
}

Expected<Algorithm> CostModel::chooseAlgorithm(Collective collective, llvm::ArrayRef<int64_t> group,
                                               int64_t payload) const {
  Algorithm algorithm = profile.algorithms[static_cast<unsigned>(collective)];
  if (algorithm != Algorithm::RingOrTree)
    return algorithm;
  // Where there are no links there is a fit, which is of what the cluster chose.
  if (!state->topology)
    return Algorithm::Ring;
  double shortest = std::numeric_limits<double>::infinity();
  for (Algorithm candidate : {Algorithm::Ring, Algorithm::Tree}) {
    Expected<AlphaBeta> links = getFromLinks(profile, *state->topology, collective, group, candidate,
                                             state->healthy != nullptr, state->fromLinks);
    if (!links)
      return links.takeError();
    double seconds = links->alpha + links->beta * static_cast<double>(payload);
    if (seconds < shortest)
      algorithm = candidate;
    shortest = std::min(shortest, seconds);
  }
  return algorithm;
}

Expected<CostModel::AlphaBeta> CostModel::getAlphaBeta(Collective collective, llvm::ArrayRef<int64_t> group,
                                                       StringRef dtype, int64_t payload) const {
  Exchange exchange;
  exchange.collective = collective;
  exchange.ranks = group;
  if (llvm::Error error = check(exchange))
    return error;
  for (int64_t rank : group)
    if (rank < 0 || rank >= ranks)
      return makeCostError("expected the members of '" + getName(collective) + "' to be below " + Twine(ranks) +
                           ", the number of ranks, but got rank " + Twine(rank));
  Expected<Algorithm> algorithm = chooseAlgorithm(collective, group, payload);
  if (!algorithm)
    return algorithm.takeError();
  GroupCache &cache = state->groups[static_cast<unsigned>(*algorithm)];
  if (const AlphaBeta *known = cache.find(collective, group, dtype))
    return *known;
  AlphaBeta result;
  int64_t perNode = getMembersPerNode(group, profile.devicesPerNode);
  const CollectiveFit *fit = perNode ? findFit(profile, collective, group.size(), perNode, dtype) : nullptr;
  if (fit)
    result = {fit->alpha + fit->perMember * static_cast<double>(group.size()), fit->beta, true, fit->relativeError};
  else if (!state->topology)
    return makeNoGroupError(profile, collective, group.size(), perNode, dtype);
  if (!fit || state->healthy) {
    Expected<AlphaBeta> links = getFromLinks(profile, *state->topology, collective, group, *algorithm,
                                             state->healthy != nullptr, state->fromLinks);
    if (!links)
      return links;
    if (!fit) {
      result = *links;
    } else {
      // The fit was measured without the faults: they slow it down as they do the links.
      Expected<AlphaBeta> healthy =
          getFromLinks(profile, *state->healthy, collective, group, *algorithm, false, state->fromHealthyLinks);
      if (!healthy)
        return healthy;
      if (healthy->beta > 0)
        result.beta *= links->beta / healthy->beta;
    }
  }
  cache.insert(collective, group, dtype, result);
  return result;
}

double Exchange::getPart() const {
  if (phases == 1)
    return 1;
  auto members = static_cast<int64_t>(ranks.size());
  return static_cast<double>(getNumPeers(members, phase, phases)) / static_cast<double>(members - 1);
}

llvm::Error CostModel::check(const Exchange &exchange) const {
  size_t members = exchange.ranks.size();
  if (members == 0 || exchange.collective == Collective::None)
    return makeCostError("expected a collective with members but got '" + getName(exchange.collective) + "' among " +
                         Twine(members));
  if (exchange.root < 0 || exchange.root >= static_cast<int64_t>(members))
    return makeCostError("expected a root below " + Twine(members) + " but got " + Twine(exchange.root));
  bool isPhase =
      exchange.phases >= 1 && exchange.phase >= 0 && exchange.phase < exchange.phases && members % exchange.phases == 0;
  if (!isPhase || (exchange.phases > 1 && exchange.collective != Collective::AllToAll))
    return makeCostError("expected phases of an 'all_to_all', in a number that divides its " + Twine(members) +
                         " members, but got phase " + Twine(exchange.phase) + " of " + Twine(exchange.phases) +
                         " of '" + getName(exchange.collective) + "'");
  if (exchange.matrix.empty())
    return llvm::Error::success();
  if (exchange.collective != Collective::AllToAll)
    return makeCostError("expected a ragged exchange to be an 'all_to_all' but got '" + getName(exchange.collective) +
                         "'");
  if (exchange.matrix.size() != members * members)
    return makeCostError("expected bytes between " + Twine(members) + " members but got " +
                         Twine(exchange.matrix.size()) + " numbers");
  return llvm::Error::success();
}

Expected<double> CostModel::getShareSeconds(const Exchange &exchange, unsigned member) const {
  if (profile.processors.count == 0)
    return makeCostError("the devices of cluster '" + profile.name + "' share no processors");
  if (llvm::Error error = check(exchange))
    return error;
  Expected<AlphaBeta> fit = getAlphaBeta(exchange.collective, exchange.ranks, exchange.dtype, exchange.payload);
  if (!fit)
    return fit.takeError();
  if (exchange.matrix.empty())
    return exchange.getPart() * (fit->alpha + fit->beta * exchange.getWholePayload());
  int64_t received = 0;
  for (size_t from = 0, members = exchange.ranks.size(); from < members; ++from)
    received += exchange.matrix[from * members + member];
  return exchange.getPart() * fit->alpha + fit->beta * received;
}

//===----------------------------------------------------------------------===//
// Interference and bounds
//===----------------------------------------------------------------------===//

namespace {
enum Kind : unsigned { Compute = 1, Communication = 2, Copy = 4 };
} // namespace

static unsigned getKind(Resource resource) {
  switch (resource) {
  case Resource::None:
    return 0;
  case Resource::Matrix:
  case Resource::Memory:
    return Compute;
  case Resource::Network:
    return Communication;
  case Resource::HostLink:
    return Copy;
  }
  return 0;
}

Expected<double> CostModel::getSpeed(Resource resource, unsigned busy) const {
  unsigned kind = getKind(resource), kinds = kind;
  for (unsigned other = 0; other < kNumResources; ++other)
    if (busy >> other & 1)
      kinds |= getKind(static_cast<Resource>(other));
  if (kind == 0 || kinds == kind)
    return 1;
  for (const Interference &set : profile.interference)
    if (kinds == (set.compute * Compute | set.communication * Communication | set.copy * Copy))
      return kind == Compute ? set.computeSpeed : kind == Communication ? set.communicationSpeed : set.copySpeed;
  llvm::SmallVector<StringRef, 3> names;
  for (auto [bit, name] : {std::pair(Compute, "compute"), {Communication, "communication"}, {Copy, "copy"}})
    if (kinds & bit)
      names.push_back(name);
  return makeCostError("cluster '" + profile.name + "' has no interference of " + llvm::join(names, ", "));
}

/// Bytes over bandwidth of the worst link.
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

/// The most bytes that a rank sends or receives; where devices share processors, also the mean of each node's
/// processors.
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
    return makeCostError("expected bytes between " + Twine(ranks) + " ranks but got " + Twine(matrix.size()) +
                         " numbers");
  if (state->topology)
    return getWorstLink(*state->topology, matrix, ranks);
  const CollectiveFit *best = nullptr;
  for (const CollectiveFit &fit : profile.collectives)
    if (fit.collective == Collective::AllToAll && (!best || fit.beta < best->beta))
      best = &fit;
  if (!best)
    return makeCostError("cluster '" + profile.name + "' has neither links nor a fit for 'all_to_all'");
  return getMostBytes(profile, matrix, ranks) * best->beta;
}
