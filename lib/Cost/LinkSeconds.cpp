//===- LinkSeconds.cpp - times of exchanges on links ----------------------===//
#include "Forms.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>

using namespace mlir::moe;
using llvm::Expected;

/// In a pipelined part, messages are posted while others move.
double LinkTimes::getAlpha(const Protocol &protocol, Algorithm algorithm) const {
  double alpha = parts.empty() ? 0 : protocol.base;
  double factor = algorithm == Algorithm::Tree ? protocol.treeLatency : protocol.latency;
  for (const Part &part : parts) {
    double latency = part.latency * factor, posts = part.posts * protocol.post;
    alpha += part.isPipelined ? std::max(latency, posts) : latency + posts;
  }
  return alpha;
}

double LinkTimes::getBeta() const {
  double beta = 0;
  for (const Part &part : parts)
    beta += part.beta;
  return beta;
}

namespace {

/// Groups that exchange at the same time, with the members whose sends count.
struct Siblings {
  std::vector<std::vector<int64_t>> groups;
  size_t senders = 0; ///< number of first members of each group that count
  /// Whether only sends of the topology's first period count, on the links of this period. All periods have the same
  /// load.
  bool isFolded = false;
};

} // namespace

/// Stride of `group` if it is one of equal groups that cover all ranks in order; else 0.
static int64_t getStride(llvm::ArrayRef<int64_t> group, int64_t ranks) {
  int64_t size = group.size(), stride = size > 1 ? group[1] - group[0] : 1;
  if (stride <= 0 || ranks % (size * stride) != 0 || group[0] % (size * stride) >= stride)
    return 0;
  for (int64_t member = 0; member < size; ++member)
    if (group[member] != group[0] + member * stride)
      return 0;
  return stride;
}

/// Transfers that the ranks of a pipeline stage make at the same time as `pair`. A stage is at most as long as the
/// distance of the pair.
static std::vector<std::vector<int64_t>> getTransfersBeside(llvm::ArrayRef<int64_t> pair, int64_t ranks) {
  int64_t distance = pair[1] - pair[0], length = std::abs(distance), first = pair[0] - pair[0] % length;
  std::vector<std::vector<int64_t>> transfers;
  for (int64_t rank = first; rank < std::min({first + length, ranks, ranks - distance}); ++rank)
    transfers.push_back({rank, rank + distance});
  return transfers;
}

/// Whether both groups are distributed over nodes in the same way.
static bool isAlike(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b, int64_t devicesPerNode) {
  auto getNode = [&](llvm::ArrayRef<int64_t> group, size_t member) {
    return group[member] / devicesPerNode - group[0] / devicesPerNode;
  };
  return llvm::all_of(llvm::seq<size_t>(0, a.size()), [&](size_t m) { return getNode(a, m) == getNode(b, m); });
}

/// Finds the groups that exchange at the same time. In an SPMD program, these have one size and stride. A rooted pair
/// without such a pattern connects two stages. Any other group exchanges alone.
static Siblings getSiblings(const GroupExchange &exchange, const ClusterProfile &profile, const Topology &topology,
                            Algorithm algorithm, bool hasFaults) {
  llvm::ArrayRef<int64_t> group = exchange.ranks;
  int64_t size = group.size(), ranks = topology.getNumRanks(), period = topology.getPeriod();
  Siblings siblings = {{}, group.size(), false};
  int64_t stride = getStride(group, ranks), span = size * stride;
  // Members of trees and of chains differ.
  bool areAlikeMembers = algorithm != Algorithm::Tree && algorithm != Algorithm::Nvls && !exchange.isRooted();
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
  // Members of groups that spread differently over nodes do different work.
  bool areAlike = llvm::all_of(siblings.groups,
                               [&](const auto &sibling) { return isAlike(sibling, group, profile.devicesPerNode); });
  if (!stride && size == 2 && exchange.isRooted())
    return {getTransfersBeside(group, ranks), group.size(), false};
  if (!stride || !areAlike)
    return {{group.vec()}, group.size(), false};
  return siblings;
}

/// Adds the sends of one member for one byte of payload: returns the seconds to post them, and adds to the loads of
/// links.
static double addSends(const Topology &topology, llvm::ArrayRef<int64_t> group, size_t member,
                       llvm::ArrayRef<Send> sends, bool isFolded, llvm::DenseMap<uint32_t, double> &loads) {
  double posts = 0;
  for (const Send &send : sends)
    for (uint32_t link : topology.getPath(group[member], group[send.to])) {
      posts += topology.getLinks()[link].post * send.messages;
      loads[isFolded ? topology.getFirstAlike(link) : link] += send.bytes;
    }
  return posts;
}

/// Latency of a phase: all hops if it is pipelined, else the longest of a send.
static double getLatency(const Topology &topology, const Phase &phase, llvm::ArrayRef<int64_t> group, size_t senders) {
  double latency = 0;
  for (auto [from, to] : phase.hops)
    latency += phase.rounds * topology.getLatency(group[from], group[to]);
  for (size_t member = 0; !phase.isPipelined && member < senders; ++member)
    for (const Send &send : phase.getSends(member))
      latency = std::max(latency, topology.getLatency(group[member], group[send.to]));
  return latency;
}

/// Times of a phase of all groups, with one byte of payload each.
static LinkTimes::Part addUp(const Topology &topology, const Phase &phase, const Siblings &siblings) {
  LinkTimes::Part part;
  part.isPipelined = phase.isPipelined;
  llvm::DenseMap<uint32_t, double> loads;
  for (const std::vector<int64_t> &group : siblings.groups) {
    part.latency = std::max(part.latency, getLatency(topology, phase, group, siblings.senders));
    for (size_t member = 0; member < siblings.senders; ++member)
      part.posts =
          std::max(part.posts, addSends(topology, group, member, phase.getSends(member), siblings.isFolded, loads));
  }
  for (auto [link, bytes] : loads)
    part.beta = std::max(part.beta, bytes / topology.getLinks()[link].bytesPerSecond);
  return part;
}

Expected<LinkTimes> CostModel::State::getLinkTimes(Collective collective, llvm::ArrayRef<int64_t> group,
                                                   Algorithm algorithm, bool isHealthy) {
  bool hasFaults = healthy && !isHealthy;
  const Topology &used = healthy && isHealthy ? *healthy : *topology;
  auto &cache = (healthy && isHealthy ? healthyLinks : links)[static_cast<unsigned>(algorithm)];
  if (const LinkTimes *known = cache.find(collective, group, ""))
    return *known;
  GroupExchange exchange;
  exchange.collective = collective;
  exchange.payload = 1;
  exchange.ranks = group;
  Siblings siblings = getSiblings(exchange, profile, used, algorithm, hasFaults);
  if (const LinkTimes *known = cache.find(collective, siblings.groups[0], ""))
    return cache.insert(collective, group, "", *known);
  exchange.ranks = siblings.groups[0];
  Expected<std::vector<Phase>> phases = makePhases(exchange, algorithm, layout, siblings.senders);
  if (!phases)
    return llvm::createStringError("cluster '" + profile.name + "': " + llvm::toString(phases.takeError()));
  LinkTimes times;
  for (const Phase &phase : *phases)
    times.parts.push_back(addUp(used, phase, siblings));
  return cache.insert(collective, siblings.groups[0], "", std::move(times));
}
