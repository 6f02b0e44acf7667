//===- Topology.cpp - a cluster's links and the paths over them -----------===//
#include "moe/Cost/Topology.h"
#include "ProfileReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>

using namespace mlir::moe;
using namespace mlir::moe::profile;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// One node
//===----------------------------------------------------------------------===//

namespace mlir::moe {
/// Links inside a node and to the vertex where the nodes meet. The devices are its first vertices.
struct NodeGraph {
  struct Edge {
    uint32_t from, to;
    double bytesPerSecond, latency, post;
  };
  std::vector<std::string> vertices;
  std::vector<Edge> edges;
  std::vector<llvm::SmallVector<uint32_t, 4>> outgoing; ///< edges, by vertex
  std::optional<uint32_t> network;                      ///< the vertex where nodes meet, if a link names it

  static llvm::Expected<NodeGraph> create(const ClusterProfile &profile);

private:
  uint32_t getVertex(StringRef name);
  void addEdge(uint32_t from, uint32_t to, double bytesPerSecond, const LinkPattern &link);
  llvm::StringMap<uint32_t> numbers;
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> edgeNumbers;
};
} // namespace mlir::moe

uint32_t NodeGraph::getVertex(StringRef name) {
  auto [it, isNew] = numbers.try_emplace(name, vertices.size());
  if (isNew) {
    vertices.push_back(name.str());
    outgoing.emplace_back();
    if (name == kNetwork)
      network = it->second;
  }
  return it->second;
}

/// Parallel links become one with their summed bandwidth and their least latency and post.
void NodeGraph::addEdge(uint32_t from, uint32_t to, double bytesPerSecond, const LinkPattern &link) {
  if (bytesPerSecond <= 0)
    return;
  auto [it, isNew] = edgeNumbers.try_emplace({from, to}, edges.size());
  if (isNew) {
    outgoing[from].push_back(edges.size());
    edges.push_back({from, to, bytesPerSecond, link.latency, link.post});
    return;
  }
  Edge &edge = edges[it->second];
  edge.bytesPerSecond += bytesPerSecond;
  edge.latency = std::min(edge.latency, link.latency);
  edge.post = std::min(edge.post, link.post);
}

llvm::Expected<NodeGraph> NodeGraph::create(const ClusterProfile &profile) {
  NodeGraph graph;
  for (int64_t i = 0; i < profile.devicesPerNode; ++i)
    graph.getVertex("device" + std::to_string(i));
  for (const LinkPattern &link : profile.links) {
    auto pairs = expandLink(link.from, link.to, profile.devicesPerNode);
    if (!pairs)
      return llvm::createStringError("link '" + link.from + "' to '" + link.to + "': expected " +
                                     llvm::toString(pairs.takeError()));
    for (const auto &[from, to] : *pairs) {
      uint32_t a = graph.getVertex(from), b = graph.getVertex(to);
      graph.addEdge(a, b, link.bytesPerSecond, link);
      graph.addEdge(b, a, link.backBytesPerSecond, link);
    }
  }
  return graph;
}

namespace {

/// Finds the best path from one vertex of a node to each other one by breadth-first search. Latency breaks ties, and
/// then the numbers of the links, from the first on.
class PathSearch {
public:
  PathSearch(const NodeGraph &graph, uint32_t from);
  /// Empty if there is none.
  std::vector<uint32_t> getPath(uint32_t to) const;

private:
  static constexpr uint32_t none = ~0u;
  struct Reached {
    uint32_t hops = none, edge = none; ///< last edge; none at the start
    double latency = 0;
  };
  void relax(uint32_t edge, std::vector<uint32_t> &next);
  /// Edge before `edge` on the path to it.
  uint32_t getPrevious(uint32_t edge) const { return reached[graph.edges[edge].from].edge; }
  /// Whether the path over edge `a` is better than the path over edge `b`, which has as many links.
  bool goesBefore(uint32_t a, uint32_t b) const;

  const NodeGraph &graph;
  std::vector<Reached> reached;
};

PathSearch::PathSearch(const NodeGraph &graph, uint32_t from) : graph(graph), reached(graph.vertices.size()) {
  reached[from].hops = 0;
  std::vector<uint32_t> frontier = {from}, next;
  for (; !frontier.empty(); std::swap(frontier, next), next.clear())
    for (uint32_t vertex : frontier)
      for (uint32_t edge : graph.outgoing[vertex])
        relax(edge, next);
}

void PathSearch::relax(uint32_t edge, std::vector<uint32_t> &next) {
  const NodeGraph::Edge &link = graph.edges[edge];
  Reached candidate = {reached[link.from].hops + 1, edge, reached[link.from].latency + link.latency};
  Reached &known = reached[link.to];
  if (known.hops == none)
    next.push_back(link.to);
  else if (known.hops < candidate.hops || known.latency < candidate.latency ||
           (known.latency == candidate.latency && !goesBefore(edge, known.edge)))
    return;
  known = candidate;
}

bool PathSearch::goesBefore(uint32_t a, uint32_t b) const {
  // Goes back from the ends to where the paths divide. The first links that differ decide.
  bool isBefore = false;
  for (; a != b; a = getPrevious(a), b = getPrevious(b))
    isBefore = a < b;
  return isBefore;
}

std::vector<uint32_t> PathSearch::getPath(uint32_t to) const {
  std::vector<uint32_t> path;
  for (uint32_t edge = reached[to].edge; edge != none; edge = getPrevious(edge))
    path.push_back(edge);
  std::reverse(path.begin(), path.end());
  return path;
}

std::string getVertexName(int64_t node, StringRef vertex) { return ("node" + Twine(node) + "/" + vertex).str(); }

} // namespace

//===----------------------------------------------------------------------===//
// Topology
//===----------------------------------------------------------------------===//

llvm::Expected<Topology> Topology::create(const ClusterProfile &profile, int64_t ranks) {
  assert(ranks >= 1 && ranks <= profile.getMaxDevices() && "CostModel::create checks them");
  llvm::Expected<NodeGraph> node = NodeGraph::create(profile);
  if (!node)
    return llvm::createStringError("cluster '" + profile.name + "': " + llvm::toString(node.takeError()));
  Topology topology;
  topology.ranks = ranks;
  topology.devices = profile.devicesPerNode;
  if (llvm::Error error = topology.findPaths(*node))
    return llvm::createStringError("cluster '" + profile.name + "': " + llvm::toString(std::move(error)));
  int64_t nodes = (ranks + profile.devicesPerNode - 1) / profile.devicesPerNode;
  topology.addNodeLinks(*node, profile.fabric, nodes);
  topology.addFabric(profile.fabric, nodes);
  return topology;
}

/// Finds the paths of node 0. Fails if two ranks are not connected.
llvm::Error Topology::findPaths(const NodeGraph &node) {
  auto fail = [](const std::string &from, const std::string &to) {
    return llvm::createStringError("expected links that lead from '" + from + "' to '" + to +
                                   "', but there is no such path");
  };
  int64_t used = std::min(ranks, devices);
  inside.resize(devices * devices);
  out.resize(devices);
  in.resize(devices);
  for (int64_t from = 0; from < used; ++from) {
    PathSearch search(node, from);
    for (int64_t to = 0; to < used; ++to) {
      inside[from * devices + to] = search.getPath(to);
      if (from != to && inside[from * devices + to].empty())
        return fail(getVertexName(0, node.vertices[from]), getVertexName(0, node.vertices[to]));
    }
    if (node.network)
      out[from] = search.getPath(*node.network);
  }
  if (ranks <= devices)
    return llvm::Error::success();
  std::optional<PathSearch> search;
  if (node.network)
    search.emplace(node, *node.network);
  for (int64_t device = 0; device < devices; ++device) {
    if (search)
      in[device] = search->getPath(device);
    // Device 0 stands for all devices at the far end. Other devices fail in their own turn.
    if (out[device].empty())
      return fail(getVertexName(0, node.vertices[device]), getVertexName(1, node.vertices[0]));
    if (in[device].empty())
      return fail(getVertexName(1, node.vertices[0]), getVertexName(0, node.vertices[device]));
  }
  return llvm::Error::success();
}

/// Name of the switch of level `i` above `node`, or of the vertex above the last level.
static std::string getSwitchName(llvm::ArrayRef<FabricLevel> fabric, size_t i, int64_t node) {
  return i == fabric.size() ? kNetwork.str() : fabric[i].name + std::to_string(node / fabric[i].nodes);
}

void Topology::addNodeLinks(const NodeGraph &node, llvm::ArrayRef<FabricLevel> fabric, int64_t nodes) {
  linksPerNode = node.edges.size();
  links.reserve(linksPerNode * nodes);
  for (int64_t n = 0; n < nodes; ++n) {
    auto getName = [&](uint32_t vertex) {
      return node.network == vertex ? getSwitchName(fabric, 0, n) : getVertexName(n, node.vertices[vertex]);
    };
    for (const NodeGraph::Edge &edge : node.edges)
      links.push_back({getName(edge.from), getName(edge.to), edge.bytesPerSecond, edge.latency, edge.post});
  }
}

void Topology::addFabric(llvm::ArrayRef<FabricLevel> fabric, int64_t nodes) {
  for (const auto &[i, level] : llvm::enumerate(fabric)) {
    levels.push_back({level.nodes, static_cast<uint32_t>(links.size())});
    for (int64_t first = 0; first < nodes; first += level.nodes) {
      std::string below = getSwitchName(fabric, i, first), above = getSwitchName(fabric, i + 1, first);
      links.push_back({below, above, level.bytesPerSecond, level.latency, 0});
      links.push_back({above, below, level.bytesPerSecond, level.latency, 0});
    }
  }
}

void Topology::append(const NodePath &nodePath, int64_t node, llvm::SmallVectorImpl<uint32_t> &path) const {
  for (uint32_t link : nodePath)
    path.push_back(node * linksPerNode + link);
}

/// Appends the links up to the lowest switch of both nodes, and down again.
void Topology::appendFabric(int64_t fromNode, int64_t toNode, llvm::SmallVectorImpl<uint32_t> &path) const {
  llvm::SmallVector<uint32_t, 4> down;
  for (const Level &level : levels) {
    int64_t from = fromNode / level.nodes, to = toNode / level.nodes;
    if (from == to)
      break;
    path.push_back(level.firstLink + 2 * from);
    down.push_back(level.firstLink + 2 * to + 1);
  }
  path.append(down.rbegin(), down.rend());
}

llvm::ArrayRef<uint32_t> Topology::getPath(int64_t from, int64_t to) const {
  assert(from >= 0 && from < ranks && to >= 0 && to < ranks && "ranks of the topology");
  if (from == to)
    return {};
  auto [it, isNew] = paths.try_emplace(static_cast<uint64_t>(from) * ranks + to);
  if (!isNew)
    return it->second;
  int64_t fromNode = from / devices, toNode = to / devices;
  llvm::SmallVector<uint32_t, 16> path;
  if (fromNode == toNode) {
    append(inside[from % devices * devices + to % devices], fromNode, path);
  } else {
    append(out[from % devices], fromNode, path);
    appendFabric(fromNode, toNode, path);
    append(in[to % devices], toNode, path);
  }
  it->second = llvm::ArrayRef<uint32_t>(path).copy(storage);
  return it->second;
}

std::vector<uint32_t> Topology::getExits() const {
  std::vector<uint32_t> exits;
  for (const NodePath &nodePath : out)
    exits.push_back(nodePath.empty() ? 0 : nodePath.back());
  return exits;
}

uint32_t Topology::getFirstAlike(uint32_t link) const {
  uint32_t nodes = getPeriod() / devices;
  auto fitting = llvm::find_if(llvm::reverse(levels), [&](const Level &level) { return level.firstLink <= link; });
  if (fitting == levels.rend())
    return link % (nodes * linksPerNode);
  return fitting->firstLink + (link - fitting->firstLink) % (2 * nodes / fitting->nodes);
}

double Topology::getLatency(int64_t from, int64_t to) const {
  double latency = 0;
  for (uint32_t link : getPath(from, to))
    latency += links[link].latency;
  return latency;
}

llvm::Error Topology::slowDown(StringRef from, StringRef to, double factor) {
  if (!(factor > 0 && factor <= 1))
    return llvm::createStringError("link '" + from + "' to '" + to +
                                   "': expected a factor greater than 0 and at most 1");
  const auto found = llvm::find_if(links, [&](const Link &link) { return link.from == from && link.to == to; });
  if (found != links.end()) {
    found->bytesPerSecond *= factor;
    return llvm::Error::success();
  }
  constexpr size_t listed = 6;
  llvm::SmallVector<std::string> names;
  auto list = [&](auto fits) {
    for (const Link &link : links)
      if (names.size() < listed && fits(link))
        names.push_back("'" + link.from + "' to '" + link.to + "'");
  };
  list([&](const Link &link) { return link.from == from; });
  if (names.empty())
    list([](const Link &) { return true; });
  return llvm::createStringError("link '" + from + "' to '" + to + "': expected one of the links, such as " +
                                 (names.empty() ? "none" : llvm::join(names, ", ")));
}
