//===- Topology.h - a cluster's links and the ways over them ----*- C++ -*-===//
//
// Expands a profile's links over the nodes that some number of ranks fill. All nodes are the same, so ways are searched
// in one of them; a way between nodes is the way out of the one, over the switches above, and into the other.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_TOPOLOGY_H
#define MOE_COST_TOPOLOGY_H

#include "moe/Cost/ClusterProfile.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Allocator.h"

namespace mlir::moe {

/// The directed links of a cluster for some number of ranks, rank r on device r mod D of node r / D. The switches of a
/// fabric level are named `<level><number>`; the vertex above the last level is `network`.
class Topology {
public:
  /// Fails where the profile has too few nodes, no links for several ranks, or two ranks that no way joins; the error
  /// names them.
  static llvm::Expected<Topology> create(const ClusterProfile &profile, int64_t ranks);

  int64_t getNumRanks() const { return ranks; }
  llvm::ArrayRef<Link> getLinks() const { return links; }
  /// The links from rank `from` to rank `to`, in order: the way with the fewest links, then the least latency, then the
  /// first in the file's order. Empty where they are the same. Valid as long as the topology; kept from the first call
  /// on, which is why calls must not run at the same time.
  llvm::ArrayRef<uint32_t> getPath(int64_t from, int64_t to) const;
  /// Sum over the path, in seconds.
  double getLatency(int64_t from, int64_t to) const;
  /// By device of a node: the last link of its way out of the node, which devices of a NIC share; 0 where nothing leads
  /// out.
  std::vector<uint32_t> getExits() const;
  /// After how many ranks links repeat: those of a node, or of the nodes under one switch of the fabric's last level.
  int64_t getPeriod() const { return devices * (levels.empty() ? 1 : levels.back().nodes); }
  /// The link of the first period that is where `link` is in its own.
  uint32_t getFirstAlike(uint32_t link) const;
  /// Multiplies the bandwidth of the directed link `from` -> `to` by `factor`, in (0, 1]. Names are those of
  /// getLinks(); the error lists some that exist. Ways stay as they are.
  llvm::Error slowDown(llvm::StringRef from, llvm::StringRef to, double factor);

private:
  using Way = std::vector<uint32_t>;
  /// The switches of a level have two links each, up and down, one switch after the other.
  struct Level {
    int64_t nodes;
    uint32_t firstLink;
  };

  llvm::Error findWays(const struct NodeGraph &node);
  void addNodeLinks(const struct NodeGraph &node, llvm::ArrayRef<FabricLevel> fabric, int64_t nodes);
  void addFabric(llvm::ArrayRef<FabricLevel> fabric, int64_t nodes);
  /// Appends `way`, whose links are those of node 0, for another node.
  void append(const Way &way, int64_t node, llvm::SmallVectorImpl<uint32_t> &path) const;
  void appendFabric(int64_t fromNode, int64_t toNode, llvm::SmallVectorImpl<uint32_t> &path) const;

  int64_t ranks = 0;
  int64_t devices = 0; ///< of a node
  /// Node 0's in the order of the file, then the same for each other node, then the fabric's.
  std::vector<Link> links;
  uint32_t linksPerNode = 0;
  std::vector<Level> levels;
  /// In node 0: between devices [from * devices + to], from a device out, and in to a device.
  std::vector<Way> inside, out, in;
  mutable llvm::DenseMap<uint64_t, llvm::ArrayRef<uint32_t>> paths; ///< by from * ranks + to
  mutable llvm::BumpPtrAllocator storage;                           ///< of `paths`
};

} // namespace mlir::moe

#endif // MOE_COST_TOPOLOGY_H
