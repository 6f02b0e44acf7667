//===- GroupSeconds.cpp - alpha and beta of groups -----------------------===//
#include "CollectiveFlows.h"
#include "Forms.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>

using namespace mlir::moe;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

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
