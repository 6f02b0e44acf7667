//===- CollectiveFlows.cpp - collectives as flows -------------------------===//
#include "CollectiveFlows.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>

using namespace mlir::moe;

namespace {

using MemberList = llvm::SmallVector<uint32_t>;

class FlowBuilder {
public:
  FlowBuilder(const GroupExchange &exchange, const NodeLayout &layout, size_t senders);
  bool build(Algorithm algorithm);
  bool isUniform() const {
    return llvm::all_of(nodes, [&](const MemberList &node) { return node.size() == nodes[0].size(); });
  }

  std::vector<Phase> phases;

private:
  bool buildRing();
  bool buildTree();
  bool buildNvls();
  void buildPhase();
  bool buildHierarchical();

  void beginPhase();
  void endPhase(bool isPipelined);
  void send(uint32_t from, uint32_t to, double bytes, uint32_t messages = 1);
  void addRings(llvm::ArrayRef<MemberList> rings, double bytes);
  void addHops(const MemberList &path);
  void addChain(const MemberList &order, double bytes);
  void addNodeTrees(size_t channel, double bytes);
  void addPairwise(llvm::ArrayRef<MemberList> sets, bool isAcross,
                   llvm::function_ref<double(uint32_t from, uint32_t to)> bytes);

  void findChannels();
  /// Members in the order of a channel's ring.
  MemberList getOrder(size_t channel) const;
  /// Member at which a channel leaves a node.
  uint32_t getExit(size_t node, size_t channel) const { return nodes[node][exits[node][channel]]; }

  double payload() const { return static_cast<double>(exchange.payload); }
  double bytesBetween(uint32_t from, uint32_t to) const {
    return exchange.matrix.empty() ? payload() / members : static_cast<double>(exchange.matrix[from * members + to]);
  }
  /// An all-reduce passes every link twice: up and down a tree, or around a ring.
  uint32_t getRounds() const { return exchange.collective == Collective::AllReduce ? 2 : 1; }

  const GroupExchange &exchange;
  const NodeLayout &layout;
  uint32_t members, senders;
  /// Members by node and by place in the node. Both have the order of the group.
  llvm::SmallVector<MemberList> nodes, indices;
  llvm::SmallVector<MemberList> exits; ///< place in each node, by channel
  size_t channels = 1;
  llvm::SmallVector<llvm::SmallVector<Send, 2>> sendsOf; ///< sends of the phase that is built
};

} // namespace

FlowBuilder::FlowBuilder(const GroupExchange &exchange, const NodeLayout &layout, size_t senders)
    : exchange(exchange), layout(layout), members(exchange.ranks.size()), senders(std::min<size_t>(senders, members)) {
  llvm::DenseMap<int64_t, size_t> nodeOf;
  for (uint32_t member = 0; member < members; ++member) {
    auto [it, isNew] = nodeOf.try_emplace(exchange.ranks[member] / layout.devicesPerNode, nodes.size());
    if (isNew)
      nodes.emplace_back();
    MemberList &node = nodes[it->second];
    if (node.size() == indices.size())
      indices.emplace_back();
    indices[node.size()].push_back(member);
    node.push_back(member);
  }
  findChannels();
}

/// Finds the exits of each node that its members use, and the last member at each of them. One node needs no exits.
void FlowBuilder::findChannels() {
  channels = nodes.size() > 1 ? members : 1;
  for (const MemberList &node : nodes) {
    MemberList links, &places = exits.emplace_back();
    for (uint32_t place = 0; place < node.size(); ++place) {
      int64_t device = exchange.ranks[node[place]] % layout.devicesPerNode;
      uint32_t link = layout.exits.empty() ? 0 : layout.exits[device];
      auto *known = llvm::find(links, link);
      if (known == links.end()) {
        links.push_back(link);
        places.push_back(place);
      } else {
        places[known - links.begin()] = place;
      }
    }
    channels = std::min<size_t>(channels, places.size());
  }
  if (channels == 1)
    for (auto [node, places] : llvm::zip_equal(nodes, exits))
      places = {static_cast<uint32_t>(node.size() - 1)};
}

MemberList FlowBuilder::getOrder(size_t channel) const {
  MemberList order;
  for (size_t node = 0; node < nodes.size(); ++node)
    for (size_t step = 1; step <= nodes[node].size(); ++step)
      order.push_back(nodes[node][(exits[node][channel] + step) % nodes[node].size()]);
  return order;
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

void FlowBuilder::beginPhase() {
  phases.emplace_back();
  sendsOf.assign(senders, {});
}

void FlowBuilder::send(uint32_t from, uint32_t to, double bytes, uint32_t messages) {
  if (from >= senders)
    return;
  auto *known = llvm::find_if(sendsOf[from], [&](const Send &other) { return other.to == to; });
  if (known == sendsOf[from].end())
    sendsOf[from].push_back({to, bytes, messages});
  else
    known->bytes += bytes;
}

/// Drops a phase without sends.
void FlowBuilder::endPhase(bool isPipelined) {
  Phase &phase = phases.back();
  phase.isPipelined = isPipelined;
  phase.begin.push_back(0);
  for (const auto &sends : sendsOf) {
    phase.sends.insert(phase.sends.end(), sends.begin(), sends.end());
    phase.begin.push_back(phase.sends.size());
  }
  if (phase.sends.empty())
    phases.pop_back();
}

/// Sends all but one of the parts of `bytes` each around each ring.
void FlowBuilder::addRings(llvm::ArrayRef<MemberList> rings, double bytes) {
  uint32_t rounds = getRounds();
  for (const MemberList &ring : rings)
    for (size_t i = 0, size = ring.size(); size > 1 && i < size; ++i)
      send(ring[i], ring[(i + 1) % size], rounds * bytes * static_cast<double>(size - 1), rounds * (size - 1));
}

/// Adds the path of the first byte.
void FlowBuilder::addHops(const MemberList &path) {
  for (size_t i = 1; i < path.size(); ++i)
    phases.back().hops.push_back({path[i - 1], path[i]});
}

/// Adds the chain of a broadcast, from the root to the member before it, or of a reduce, from the member after the root
/// to the root.
void FlowBuilder::addChain(const MemberList &order, double bytes) {
  MemberList chain = order;
  auto *root = llvm::find(chain, static_cast<uint32_t>(exchange.root));
  std::rotate(chain.begin(), exchange.collective == Collective::Broadcast ? root : root + 1, chain.end());
  for (size_t i = 1; i < chain.size(); ++i)
    send(chain[i - 1], chain[i], bytes);
  if (phases.back().hops.empty())
    addHops(chain);
}

bool FlowBuilder::buildRing() {
  Collective collective = exchange.collective;
  bool isSum = collective == Collective::AllGather || collective == Collective::ReduceScatter ||
               collective == Collective::AllReduce;
  if (!isSum && !exchange.isRooted())
    return false;
  beginPhase();
  double share = payload() / static_cast<double>(channels);
  for (size_t channel = 0; channel < channels; ++channel)
    exchange.isRooted() ? addChain(getOrder(channel), share) : addRings(getOrder(channel), share / members);
  if (!exchange.isRooted())
    addHops(getOrder(0));
  phases.back().rounds = getRounds();
  endPhase(/*isPipelined=*/true);
  return true;
}

//===----------------------------------------------------------------------===//
// Trees
//===----------------------------------------------------------------------===//

/// Parent of a node in the first of two binary trees of `count` nodes. Its root is 0, and odd nodes are leaves.
static size_t getParent(size_t node, size_t count) {
  size_t bit = node & -node, parent = (node ^ bit) | (bit << 1);
  return parent < count ? parent : node ^ bit;
}

/// Parent in tree `tree`. The second tree has the nodes of the first in reverse, or moved on by one if their number is
/// odd.
static size_t getParent(size_t node, size_t count, unsigned tree) {
  if (tree == 0)
    return getParent(node, count);
  if (count % 2 == 0)
    return count - 1 - getParent(count - 1 - node, count);
  return (getParent((node + count - 1) % count, count) + 1) % count;
}

static bool isRoot(size_t node, size_t count, unsigned tree) {
  return count == 1 || node == (tree == 0 ? 0 : count % 2 == 0 ? count - 1 : 1);
}

/// Sends up and down both trees, between the members where a channel leaves its nodes.
void FlowBuilder::addNodeTrees(size_t channel, double bytes) {
  MemberList longest; // path to the root
  for (unsigned tree : {0, 1})
    for (size_t node = 0, count = nodes.size(); node < count; ++node) {
      MemberList path = {getExit(node, channel)};
      for (size_t at = node; !isRoot(at, count, tree);)
        path.push_back(getExit(at = getParent(at, count, tree), channel));
      if (path.size() > longest.size())
        longest = path;
      if (path.size() == 1)
        continue;
      send(path[0], path[1], bytes / 2);
      send(path[1], path[0], bytes / 2);
    }
  if (channel == 0)
    addHops(longest);
}

bool FlowBuilder::buildTree() {
  Collective collective = exchange.collective;
  beginPhase();
  if (exchange.isRooted()) {
    // Places count from the root.
    auto at = [&](uint32_t place) { return (place + static_cast<uint32_t>(exchange.root)) % members; };
    bool isUp = collective == Collective::Reduce;
    for (uint32_t stride = 1; stride < members; stride *= 2) {
      for (uint32_t place = 0; place + stride < members; place += 2 * stride)
        isUp ? send(at(place + stride), at(place), payload()) : send(at(place), at(place + stride), payload());
      phases.back().hops.push_back({at(0), at(stride)});
    }
  } else if (collective == Collective::AllReduce) {
    phases.back().rounds = 2;
    double bytes = payload() / static_cast<double>(channels);
    for (size_t channel = 0; channel < channels; ++channel) {
      for (size_t node = 0; node < nodes.size(); ++node) {
        MemberList chain = nodes[node];
        std::rotate(chain.begin(), chain.begin() + exits[node][channel], chain.end());
        for (size_t i = 1; i < chain.size(); ++i) {
          send(chain[i], chain[i - 1], bytes);
          send(chain[i - 1], chain[i], bytes);
        }
        if (node == 0 && channel == 0)
          addHops(chain);
      }
      addNodeTrees(channel, bytes);
    }
  }
  endPhase(/*isPipelined=*/true);
  return exchange.isRooted() || collective == Collective::AllReduce;
}

bool FlowBuilder::buildNvls() {
  size_t perNode = indices.size(), count = nodes.size();
  bool isPossible = layout.nodeReduces && exchange.collective == Collective::AllReduce && perNode > 1 && isUniform() &&
                    (count == 1 || channels == perNode);
  if (!isPossible)
    return false;
  beginPhase();
  phases.back().rounds = 2;
  phases.back().hops.push_back({nodes[0][0], nodes[0][1]});
  double part = payload() / static_cast<double>(perNode);
  // Bytes to the switch and from it load the links as the same bytes to the next member do.
  for (const MemberList &node : nodes)
    for (size_t i = 0; i < perNode; ++i)
      send(node[i], node[(i + 1) % perNode], payload() + part);
  if (count > 1 && layout.networkReduces) {
    for (const MemberList &index : indices)
      for (size_t i = 0; i < count; ++i)
        send(index[i], index[(i + 1) % count], part);
    phases.back().hops.push_back({indices[0][0], indices[0][1]});
  } else if (count > 1) {
    for (size_t channel = 0; channel < channels; ++channel)
      addNodeTrees(channel, part);
  }
  endPhase(/*isPipelined=*/true);
  return true;
}

//===----------------------------------------------------------------------===//
// all_to_all
//===----------------------------------------------------------------------===//

/// Each member sends to all others of its set. With `isAcross` it also sends to the next set, then to the one after it,
/// and so on, in each first to the member in its own place. So all members of a node send to the same node, each to
/// another member, and no entry of a node has more to do than others. Sends to the own set come between these, so that
/// the exits of the node are always busy. Skips zero bytes of a matrix.
void FlowBuilder::addPairwise(llvm::ArrayRef<MemberList> sets, bool isAcross,
                              llvm::function_ref<double(uint32_t from, uint32_t to)> bytes) {
  beginPhase();
  for (size_t set = 0; set < sets.size(); ++set)
    for (uint32_t place = 0; place < sets[set].size(); ++place) {
      uint32_t from = sets[set][place];
      if (from >= senders)
        continue;
      size_t size = sets[set].size(), next = 1;
      auto add = [&](uint32_t to) {
        if (double amount = bytes(from, to); amount > 0 || exchange.matrix.empty())
          sendsOf[from].push_back({to, amount});
      };
      auto addOwn = [&] { add(sets[set][(place + next++) % size]); };
      for (size_t shift = 1; isAcross && shift < sets.size(); ++shift) {
        const MemberList &others = sets[(set + shift) % sets.size()];
        for (size_t step = 0; step < others.size(); ++step) {
          add(others[(place + step) % others.size()]);
          if (next < size)
            addOwn();
        }
      }
      while (next < size)
        addOwn();
    }
  endPhase(/*isPipelined=*/false);
}

/// Builds one phase of an all_to_all. Each member sends to those of one block, first to the one in its own place. Skips
/// zero bytes of a matrix.
void FlowBuilder::buildPhase() {
  auto blocks = static_cast<uint32_t>(exchange.phases);
  uint32_t size = members / blocks;
  beginPhase();
  for (uint32_t member = 0; member < senders; ++member) {
    uint32_t first = (member / size + blocks - static_cast<uint32_t>(exchange.phase)) % blocks * size;
    for (uint32_t step = exchange.phase == 0 ? 1 : 0; step < size; ++step) {
      uint32_t to = first + (member + step) % size;
      double amount = exchange.matrix.empty() ? payload() / size : bytesBetween(member, to);
      if (amount > 0 || exchange.matrix.empty())
        sendsOf[member].push_back({to, amount});
    }
  }
  endPhase(/*isPipelined=*/false);
}

//===----------------------------------------------------------------------===//
// Hierarchical
//===----------------------------------------------------------------------===//

bool FlowBuilder::buildHierarchical() {
  switch (exchange.collective) {
  case Collective::AllToAll: {
    llvm::SmallVector<uint32_t> nodeOf(members), indexOf(members);
    for (uint32_t node = 0; node < nodes.size(); ++node)
      for (uint32_t index = 0; index < indices.size(); ++index) {
        nodeOf[nodes[node][index]] = node;
        indexOf[nodes[node][index]] = index;
      }
    addPairwise(nodes, /*isAcross=*/false, [&](uint32_t from, uint32_t to) {
      double sum = 0;
      for (uint32_t member : indices[indexOf[to]])
        sum += bytesBetween(from, member);
      return sum;
    });
    addPairwise(indices, /*isAcross=*/false, [&](uint32_t from, uint32_t to) {
      double sum = 0;
      for (uint32_t member : nodes[nodeOf[from]])
        sum += bytesBetween(member, to);
      return sum;
    });
    return true;
  }
  case Collective::ReduceScatter:
  case Collective::AllReduce:
  case Collective::AllGather:
    beginPhase();
    addRings(nodes, payload() / static_cast<double>(indices.size()));
    addRings(indices, payload() / members);
    addHops(nodes[0]);
    addHops(indices[0]);
    phases.back().rounds = getRounds();
    endPhase(/*isPipelined=*/true);
    return true;
  default:
    return false;
  }
}

bool FlowBuilder::build(Algorithm algorithm) {
  if (exchange.isNothing())
    return true;
  if (exchange.phases > 1) {
    buildPhase();
    return true;
  }
  switch (algorithm) {
  case Algorithm::Ring:
    return buildRing();
  case Algorithm::Tree:
    return buildTree();
  case Algorithm::Pairwise:
    if (exchange.collective != Collective::AllToAll)
      return false;
    addPairwise(nodes, /*isAcross=*/true, [&](uint32_t from, uint32_t to) { return bytesBetween(from, to); });
    return true;
  case Algorithm::Hierarchical:
    return buildHierarchical();
  case Algorithm::Nvls:
    return buildNvls();
  case Algorithm::Fastest: // chosen before
    break;
  }
  return false;
}

llvm::Expected<std::vector<Phase>> mlir::moe::makePhases(const GroupExchange &exchange, Algorithm algorithm,
                                                         const NodeLayout &layout, size_t senders) {
  FlowBuilder builder(exchange, layout, senders);
  if (algorithm == Algorithm::Hierarchical && exchange.phases == 1 && !builder.isUniform())
    return llvm::createStringError("hierarchical '" + getName(exchange.collective) +
                                   "': expected the same number of members on each node, but the group of " +
                                   llvm::Twine(exchange.ranks.size()) + " has more on some nodes");
  if (!builder.build(algorithm))
    return llvm::createStringError("algorithm '" + getName(algorithm) + "' does not carry out '" +
                                   getName(exchange.collective) + "'");
  return std::move(builder.phases);
}

int64_t mlir::moe::getMembersPerNode(llvm::ArrayRef<int64_t> ranks, int64_t devicesPerNode) {
  llvm::DenseMap<int64_t, int64_t> counts;
  for (int64_t rank : ranks)
    ++counts[rank / devicesPerNode];
  if (counts.empty())
    return 0;
  int64_t perNode = counts.begin()->second;
  bool isUniform = llvm::all_of(counts, [&](auto &node) { return node.second == perNode; });
  return isUniform ? perNode : 0;
}
