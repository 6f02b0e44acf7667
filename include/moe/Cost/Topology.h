//===- Topology.h - a cluster's links and the ways over them ----*- C++ -*-===//
#ifndef MOE_COST_TOPOLOGY_H
#define MOE_COST_TOPOLOGY_H

#include "moe/Cost/ClusterProfile.h"

#include "llvm/ADT/ArrayRef.h"

namespace mlir::moe {

/// The directed links of a cluster for some number of ranks, rank r on device r mod D of node r / D.
class Topology {
public:
  /// Fails where the profile has no links, too few nodes, or two devices that no way joins; the error names them.
  static llvm::Expected<Topology> create(const ClusterProfile &profile, int64_t ranks);

  int64_t getNumRanks() const { return ranks; }
  llvm::ArrayRef<Link> getLinks() const { return links; }
  /// The links from rank `from` to rank `to`, in order: the way with the fewest links, then the least latency, then the
  /// first in the file's order. Empty where they are the same.
  llvm::ArrayRef<uint32_t> getPath(int64_t from, int64_t to) const;
  /// Sum over the path.
  double getLatency(int64_t from, int64_t to) const;
  /// Divides the bandwidth of a link, or of the link pair `a <-> b`, as named by the file with node numbers; the error
  /// lists some names that exist.
  llvm::Error slowDown(llvm::StringRef from, llvm::StringRef to, double factor);

private:
  int64_t ranks = 0;
  std::vector<Link> links;
  /// Ways are looked up by the pair's place in its node and, for other nodes, composed of the part inside the node, the
  /// fabric, and the part inside the other one.
  mutable std::vector<std::vector<uint32_t>> paths;
  std::vector<std::vector<uint32_t>> outgoing;
  std::vector<std::string> vertices;
  std::vector<uint32_t> deviceVertex;
  void findPaths(int64_t from) const;
};

} // namespace mlir::moe

#endif // MOE_COST_TOPOLOGY_H
