//===- CollectiveFlows.cpp - collectives as flows -------------------------===//
#include "CollectiveFlows.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

using namespace mlir::moe;

namespace {

/// Members in rows and columns: the rows are nodes and the columns same indices, or the other way round.
using Rings = llvm::ArrayRef<llvm::SmallVector<uint32_t>>;

class FlowBuilder {
public:
  FlowBuilder(const Exchange &exchange, int64_t devicesPerNode, size_t senders)
      : exchange(exchange), members(exchange.ranks.size()), senders(std::min<size_t>(senders, members)) {
    all.emplace_back();
    for (uint32_t member = 0; member < members; ++member)
      all[0].push_back(member);
    // Members in the order of the group, by node and by place in the node.
    llvm::DenseMap<int64_t, size_t> nodeOf;
    for (uint32_t member = 0; member < members; ++member) {
      auto [it, isNew] = nodeOf.try_emplace(exchange.ranks[member] / devicesPerNode, nodes.size());
      if (isNew)
        nodes.emplace_back();
      auto &node = nodes[it->second];
      if (node.size() == indices.size())
        indices.emplace_back();
      indices[node.size()].push_back(member);
      node.push_back(member);
    }
  }

  bool build(Algorithm algorithm);
  bool isUniform() const {
    return llvm::all_of(nodes, [&](const auto &node) { return node.size() == nodes[0].size(); });
  }

  std::vector<Phase> phases;

private:
  bool buildRing();
  bool buildTree();
  bool buildPairwise();
  void buildPhase();
  bool buildHierarchical();

  using SendsOf = llvm::function_ref<void(uint32_t member, std::vector<Send> &sends)>;
  void addPhase(uint32_t repeats, SendsOf sendsOf);
  void addRings(Rings rings, uint32_t steps, double bytes);
  void addPairwise(Rings sets, llvm::function_ref<double(uint32_t from, uint32_t to)> bytes);
  void addTree(bool toRoot);
  void addPipeline();

  double payload() const { return static_cast<double>(exchange.payload); }
  double bytesBetween(uint32_t from, uint32_t to) const {
    return exchange.matrix.empty() ? payload() / members : static_cast<double>(exchange.matrix[from * members + to]);
  }

  const Exchange &exchange;
  uint32_t members, senders;
  llvm::SmallVector<llvm::SmallVector<uint32_t>> all, nodes, indices;
};

} // namespace

void FlowBuilder::addPhase(uint32_t repeats, SendsOf sendsOf) {
  if (repeats == 0)
    return;
  Phase phase;
  phase.repeats = repeats;
  phase.begin.push_back(0);
  for (uint32_t member = 0; member < senders; ++member) {
    sendsOf(member, phase.sends);
    phase.begin.push_back(phase.sends.size());
  }
  if (!phase.sends.empty())
    phases.push_back(std::move(phase));
}

/// `steps` times from each member to the next one of its ring.
void FlowBuilder::addRings(Rings rings, uint32_t steps, double bytes) {
  llvm::SmallVector<uint32_t> next(members);
  for (const auto &ring : rings)
    for (size_t i = 0; i < ring.size(); ++i)
      next[ring[i]] = ring[(i + 1) % ring.size()];
  addPhase(steps, [&](uint32_t member, std::vector<Send> &sends) { sends.push_back({next[member], bytes}); });
}

/// From each member to all others of its set, in turn. Bytes of a matrix that are none are not sent.
void FlowBuilder::addPairwise(Rings sets, llvm::function_ref<double(uint32_t from, uint32_t to)> bytes) {
  llvm::SmallVector<std::pair<const llvm::SmallVector<uint32_t> *, size_t>> placeOf(members);
  for (const auto &set : sets)
    for (size_t i = 0; i < set.size(); ++i)
      placeOf[set[i]] = {&set, i};
  addPhase(1, [&](uint32_t member, std::vector<Send> &sends) {
    auto [set, place] = placeOf[member];
    for (size_t step = 1; step < set->size(); ++step) {
      uint32_t to = (*set)[(place + step) % set->size()];
      double amount = bytes(member, to);
      if (amount > 0 || exchange.matrix.empty())
        sends.push_back({to, amount});
    }
  });
}

/// A binomial tree; members are counted from the root.
void FlowBuilder::addTree(bool toRoot) {
  uint32_t root = exchange.root;
  llvm::SmallVector<uint32_t> strides;
  for (uint32_t stride = 1; stride < members; stride *= 2)
    strides.push_back(stride);
  if (!toRoot)
    std::reverse(strides.begin(), strides.end());
  for (uint32_t stride : strides)
    addPhase(1, [&](uint32_t member, std::vector<Send> &sends) {
      uint32_t place = (member + members - root) % members;
      bool isParent = place % (2 * stride) == 0 && place + stride < members;
      bool isChild = place % (2 * stride) == stride;
      if (toRoot ? isChild : isParent)
        sends.push_back({(toRoot ? member + members - stride : member + stride) % members, payload()});
    });
}

/// From the root to the one before it, or from the one behind it to the root.
void FlowBuilder::addPipeline() {
  uint32_t root = exchange.root;
  addPhase(1, [&](uint32_t member, std::vector<Send> &sends) {
    uint32_t next = (member + 1) % members;
    if ((exchange.collective == Collective::Broadcast ? next : member) != root)
      sends.push_back({next, payload()});
  });
  if (!phases.empty())
    phases.back().isPipelined = true;
}

bool FlowBuilder::buildRing() {
  Collective collective = exchange.collective;
  if (exchange.isRooted()) {
    addPipeline();
    return true;
  }
  if (collective != Collective::AllGather && collective != Collective::ReduceScatter &&
      collective != Collective::AllReduce)
    return false;
  addRings(all, (members - 1) * (collective == Collective::AllReduce ? 2 : 1), payload() / members);
  return true;
}

bool FlowBuilder::buildTree() {
  Collective collective = exchange.collective;
  if (collective != Collective::Broadcast && collective != Collective::Reduce && collective != Collective::AllReduce)
    return false;
  if (collective != Collective::Broadcast)
    addTree(/*toRoot=*/true);
  if (collective != Collective::Reduce)
    addTree(/*toRoot=*/false);
  return true;
}

bool FlowBuilder::buildPairwise() {
  if (exchange.collective != Collective::AllToAll)
    return false;
  addPairwise(all, [&](uint32_t from, uint32_t to) { return bytesBetween(from, to); });
  return true;
}

/// One phase of an all_to_all: from each member to those of one block, each beginning with the one in its own place.
/// Bytes of a matrix that are none are not sent.
void FlowBuilder::buildPhase() {
  auto blocks = static_cast<uint32_t>(exchange.phases);
  uint32_t size = members / blocks;
  addPhase(1, [&](uint32_t member, std::vector<Send> &sends) {
    uint32_t first = (member / size + blocks - static_cast<uint32_t>(exchange.phase)) % blocks * size;
    for (uint32_t step = exchange.phase == 0 ? 1 : 0; step < size; ++step) {
      uint32_t to = first + (member + step) % size;
      double amount = exchange.matrix.empty() ? payload() / size : bytesBetween(member, to);
      if (amount > 0 || exchange.matrix.empty())
        sends.push_back({to, amount});
    }
  });
}

bool FlowBuilder::buildHierarchical() {
  uint32_t perNode = indices.size();
  double inside = payload() / perNode, between = payload() / members;
  switch (exchange.collective) {
  case Collective::AllToAll: {
    llvm::SmallVector<uint32_t> nodeOf(members), indexOf(members);
    for (uint32_t node = 0; node < nodes.size(); ++node)
      for (uint32_t index = 0; index < perNode; ++index) {
        nodeOf[nodes[node][index]] = node;
        indexOf[nodes[node][index]] = index;
      }
    addPairwise(nodes, [&](uint32_t from, uint32_t to) {
      double sum = 0;
      for (uint32_t member : indices[indexOf[to]])
        sum += bytesBetween(from, member);
      return sum;
    });
    addPairwise(indices, [&](uint32_t from, uint32_t to) {
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
    if (exchange.collective != Collective::AllGather) {
      addRings(nodes, perNode - 1, inside);
      addRings(indices, nodes.size() - 1, between);
    }
    if (exchange.collective != Collective::ReduceScatter) {
      addRings(indices, nodes.size() - 1, between);
      addRings(nodes, perNode - 1, inside);
    }
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
    return buildPairwise();
  case Algorithm::Hierarchical:
    return buildHierarchical();
  case Algorithm::RingOrTree: // chosen before
    break;
  }
  return false;
}

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

llvm::Expected<std::vector<Phase>> mlir::moe::makePhases(const Exchange &exchange, Algorithm algorithm,
                                                         int64_t devicesPerNode, size_t senders) {
  FlowBuilder builder(exchange, devicesPerNode, senders);
  if (algorithm == Algorithm::Hierarchical && exchange.phases == 1 && !builder.isUniform())
    return makeError("hierarchical '" + getName(exchange.collective) +
                     "': expected the same number of members on each node, but the group of " +
                     llvm::Twine(exchange.ranks.size()) + " has more on some nodes");
  if (!builder.build(algorithm))
    return makeError("algorithm '" + getName(algorithm) + "' does not carry out '" + getName(exchange.collective) +
                     "'");
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
