//===- Topology.h - a cluster's links and the paths over them ---*- C++ -*-===//
//
// Expands a profile's links over the nodes that a number of ranks fill. All nodes are equal, so paths are searched in
// one of them. A path between nodes leaves one node, goes over the switches above, and enters the other.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_TOPOLOGY_H
#define MOE_COST_TOPOLOGY_H

#include "moe/Cost/ClusterProfile.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Allocator.h"

namespace mlir::moe {

/// The directed links of a cluster for some number of ranks. Rank r is device r mod D of node r / D. The switches of a
/// fabric level are named `<level><number>`; the vertex above the last level is `network`.
class Topology {
public:
  /// The profile has as many devices as `ranks`. Fails if two ranks have no path. The error names them.
  static llvm::Expected<Topology> create(const ClusterProfile &profile, int64_t ranks);

  int64_t getNumRanks() const { return ranks; }
  llvm::ArrayRef<Link> getLinks() const { return links; }
  /// Links from rank `from` to rank `to`, in order. The path has the fewest links, then the least latency, then the
  /// first links of the file. Empty if the ranks are equal. Valid as long as the topology. Calls must not run at the
  /// same time, because the first one keeps the path.
  llvm::ArrayRef<uint32_t> getPath(int64_t from, int64_t to) const;
  /// Sum of the latencies of the path, in seconds.
  double getLatency(int64_t from, int64_t to) const;
  /// Last link of each device's path out of its node, by device of a node; 0 if there is no path. Devices that share a
  /// NIC have the same link.
  std::vector<uint32_t> getExits() const;
  /// Number of ranks after which links repeat: those of a node, or of the nodes under one switch of the fabric's last
  /// level.
  int64_t getPeriod() const { return devices * (levels.empty() ? 1 : levels.back().nodes); }
  /// Link of the first period at the place that `link` has in its own.
  uint32_t getFirstAlike(uint32_t link) const;
  /// Multiplies the bandwidth of the directed link `from` -> `to` by `factor`, in (0, 1]. Names are those of
  /// getLinks(), and the error lists some that exist. Paths do not change.
  llvm::Error slowDown(llvm::StringRef from, llvm::StringRef to, double factor);

private:
  using NodePath = std::vector<uint32_t>;
  /// Each switch of a level has two links, up and down, one switch after the other.
  struct Level {
    int64_t nodes;
    uint32_t firstLink;
  };

  llvm::Error findPaths(const struct NodeGraph &node);
  void addNodeLinks(const struct NodeGraph &node, llvm::ArrayRef<FabricLevel> fabric, int64_t nodes);
  void addFabric(llvm::ArrayRef<FabricLevel> fabric, int64_t nodes);
  /// Appends `nodePath`, a path of node 0, for another node.
  void append(const NodePath &nodePath, int64_t node, llvm::SmallVectorImpl<uint32_t> &path) const;
  void appendFabric(int64_t fromNode, int64_t toNode, llvm::SmallVectorImpl<uint32_t> &path) const;

  int64_t ranks = 0;
  int64_t devices = 0; ///< devices of a node
  /// Links of node 0 in the order of the file, then those of the other nodes, then those of the fabric.
  std::vector<Link> links;
  uint32_t linksPerNode = 0;
  std::vector<Level> levels;
  /// Paths in node 0: between devices [from * devices + to], from each device out, and in to each device.
  std::vector<NodePath> inside, out, in;
  mutable llvm::DenseMap<uint64_t, llvm::ArrayRef<uint32_t>> paths; ///< by from * ranks + to
  mutable llvm::BumpPtrAllocator storage;                           ///< memory of `paths`
};

} // namespace mlir::moe

#endif // MOE_COST_TOPOLOGY_H
