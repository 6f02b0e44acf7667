//===- TokenReach.cpp - reach of tokens -----------------------------------===//
#include "Engine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <array>
#include <map>
#include <utility>

using namespace mlir::moe;
using Choices = llvm::ArrayRef<RoutingTrace::Choice>;

namespace {
/// Places of a layer's experts in a group: equal parts, each on `copies` neighbouring members.
struct ExpertPlaces {
  SimGroup group;
  int64_t experts = 0, copies = 1;

  int64_t getNumHolders() const { return group.size / copies; }
  int64_t getNumOwn() const { return experts / getNumHolders(); }
  /// Whether the experts can be divided equally.
  bool fit() const { return group.size % copies == 0 && experts % getNumHolders() == 0; }
};

/// Sums over counted tokens, or expected values for one token.
struct Reach {
  double ranks = 0, nodes = 0, otherNodes = 0;

  void add(const Reach &other, double factor) {
    ranks += factor * other.ranks;
    nodes += factor * other.nodes;
    otherNodes += factor * other.otherNodes;
  }
};

/// The members of a rank's group on one node.
struct NodeMembers {
  int64_t node = 0, begin = 0, end = 0;
};

/// Reach of the tokens of one layer.
class LayerReach {
public:
  LayerReach(const ExpertPlaces &places, const TokenDraw &draw, int64_t nodeRanks)
      : places(places), draw(draw), nodeRanks(nodeRanks) {}

  std::vector<NodeMembers> getNodes(int64_t rank) const;
  /// Expected reach of a token that chooses each expert with its chance. Without chances, all are equally likely.
  Reach getExpected(int64_t rank, llvm::ArrayRef<double> chances);
  /// Mean reach of the tokens that made these choices.
  Reach count(int64_t rank, Choices choices) const;

private:
  const ExpertPlaces &places;
  TokenDraw draw;
  int64_t nodeRanks;
  std::map<std::pair<int64_t, int64_t>, double> evenChances; ///< by first expert and number of experts
};
} // namespace

std::vector<NodeMembers> LayerReach::getNodes(int64_t rank) const {
  std::vector<NodeMembers> nodes;
  int64_t instance = places.group.getInstance(rank);
  for (int64_t member = 0; member < places.group.size; ++member) {
    int64_t node = places.group.getRank(instance, member) / nodeRanks;
    if (nodes.empty() || nodes.back().node != node)
      nodes.push_back({node, member, member});
    nodes.back().end = member + 1;
  }
  return nodes;
}

Reach LayerReach::getExpected(int64_t rank, llvm::ArrayRef<double> chances) {
  auto getChance = [&](int64_t first, int64_t experts) {
    if (!chances.empty())
      return draw.getChanceOfSome(first, chances.slice(first, experts));
    auto [known, isNew] = evenChances.try_emplace({first, experts});
    if (isNew)
      known->second = draw.getChanceOfSome(first, std::vector<double>(experts, draw.getEvenChance()));
    return known->second;
  };
  Reach reach;
  int64_t own = places.getNumOwn(), copies = places.copies;
  for (int64_t holder = 0; holder < places.getNumHolders(); ++holder)
    reach.ranks += static_cast<double>(copies) * getChance(holder * own, own);
  for (const NodeMembers &its : getNodes(rank)) {
    int64_t first = its.begin / copies, end = (its.end + copies - 1) / copies;
    double chance = getChance(first * own, (end - first) * own);
    reach.nodes += chance;
    reach.otherNodes += its.node == rank / nodeRanks ? 0 : chance;
  }
  return reach;
}

Reach LayerReach::count(int64_t rank, Choices choices) const {
  Reach reach;
  int64_t own = places.getNumOwn(), copies = places.copies, holders = places.getNumHolders();
  std::vector<NodeMembers> nodes = getNodes(rank);
  // Last token of each holder and of each node.
  std::vector<int64_t> lastOfHolder(holders, -1), lastOfNode(nodes.size(), -1);
  for (auto [index, expert] : llvm::enumerate(choices)) {
    int64_t token = static_cast<int64_t>(index) / draw.topK, holder = expert / own;
    if (std::exchange(lastOfHolder[holder], token) == token)
      continue;
    reach.ranks += static_cast<double>(copies);
    for (auto [its, last] : llvm::zip_equal(nodes, lastOfNode)) {
      bool holds = its.begin < (holder + 1) * copies && holder * copies < its.end;
      if (!holds || std::exchange(last, token) == token)
        continue;
      ++reach.nodes;
      reach.otherNodes += its.node != rank / nodeRanks;
    }
  }
  Reach mean;
  mean.add(reach, static_cast<double>(draw.topK) / static_cast<double>(choices.size()));
  return mean;
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

/// Places of experts by a rule that divides counts among the holders of experts. None for another rule.
static std::optional<ExpertPlaces> getPlaces(const SimProgram &program, const SimLaunch &launch, const CountsRule &rule,
                                             int64_t experts) {
  auto getColumns = [&](int32_t buffer) {
    return buffer < 0 || program.buffers[buffer].shape.empty() ? 0 : program.buffers[buffer].shape.back();
  };
  ExpertPlaces places{{}, experts, 1};
  if (const auto *exchange = rule.getIf<counts::Exchange>()) {
    // Counts may be repeated for each holder of an expert.
    int64_t columns = getColumns(launch.inputs[exchange->input]);
    if (exchange->splitDim != 1 || columns == 0 || columns % experts != 0 || launch.group < 0)
      return std::nullopt;
    places.group = program.groups[launch.group];
    places.copies = exchange->copies * (columns / experts);
    return places;
  }
  if (launch.partGroup < 0)
    return std::nullopt;
  places.group = program.groups[launch.partGroup];
  if (const auto *own = rule.getIf<counts::OwnExperts>()) {
    places.copies = own->holders;
    return places;
  }
  const auto *merged = rule.getIf<counts::MergedRows>();
  if (!merged || getColumns(launch.outputs[rule.output]) * places.group.size != experts * merged->holders)
    return std::nullopt;
  places.copies = merged->holders;
  return places;
}

/// Places of a layer's experts in the largest group that divides them. Smaller groups are parts of it. None if the
/// experts are on one rank.
static std::optional<ExpertPlaces> findPlaces(const SimProgram &program, llvm::StringRef layer, int64_t experts) {
  std::optional<ExpertPlaces> largest;
  for (const SimLaunch &launch : program.launches) {
    if (launch.label != layer)
      continue;
    for (const CountsRule &rule : launch.counts)
      if (std::optional<ExpertPlaces> places = getPlaces(program, launch, rule, experts))
        if (places->group.size > (largest ? largest->group.size : 1) && places->fit())
          largest = places;
  }
  return largest;
}

static TokenDraw getDraw(const CountsRule &routing, const RoutedShape &shape) {
  TokenDraw draw{shape.experts, shape.topK};
  if (const auto *rule = routing.getIf<counts::RouteInGroups>()) {
    draw.groups = rule->groups;
    draw.topGroups = rule->topGroups;
  }
  return draw;
}

/// Mean reach of a layer, whose routing launch is number `router`, over the ranks of a program.
static TokenReach findReach(const SimProgram &program, uint32_t router, Counts &counts, LayerReach layer,
                            const ExpertPlaces &places, int64_t tokens) {
  TokenReach result;
  result.numRanks = places.group.size;
  result.isCounted = true;
  Reach mean;
  for (int64_t rank : llvm::seq(program.firstRank, program.firstRank + program.numRanks)) {
    Choices choices = counts.getTokenChoices(rank, router);
    result.isCounted &= !choices.empty();
    result.numNodes = std::max<int64_t>(result.numNodes, layer.getNodes(rank).size());
    std::vector<double> chances;
    if (choices.empty() && !counts.isEven())
      for (int32_t count : counts.getChosen(rank, router))
        chances.push_back(static_cast<double>(count) / static_cast<double>(tokens));
    Reach reach = choices.empty() ? layer.getExpected(rank, chances) : layer.count(rank, choices);
    mean.add(reach, 1 / static_cast<double>(program.numRanks));
  }
  result.ranks = mean.ranks;
  result.nodes = mean.nodes;
  result.otherNodes = mean.otherNodes;
  return result;
}

std::vector<TokenReach> mlir::moe::findTokenReach(const SimWorld &world, Counts &counts, int64_t nodeRanks) {
  std::vector<TokenReach> result;
  /// Reach of layers, by properties that layers with the same reach have in common if routing is even.
  std::map<std::array<int64_t, 9>, TokenReach> known;
  for (const SimProgram &program : world.programs) {
    if (!program.isRagged())
      continue;
    for (llvm::StringRef layer : program.routedLayers) {
      const SimLaunch &router = program.getRouter(layer);
      RoutedShape shape = getRoutedShape(program, router, *router.getRouting());
      std::optional<ExpertPlaces> places = findPlaces(program, router.label, shape.experts);
      if (!places)
        continue;
      TokenDraw draw = getDraw(*router.getRouting(), shape);
      auto [reach, isNew] =
          known.try_emplace({places->group.size, places->group.stride, places->copies, places->experts, draw.topK,
                             draw.groups, draw.topGroups, program.firstRank, program.numRanks});
      if (isNew || !counts.isEven())
        reach->second = findReach(program, &router - program.launches.data(), counts, {*places, draw, nodeRanks},
                                  *places, shape.tokens);
      result.push_back(reach->second);
      result.back().layer = layer.str();
    }
  }
  return result;
}
