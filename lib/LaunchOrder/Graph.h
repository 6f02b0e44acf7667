//===- Graph.h - launches as a scheduler sees them --------------*- C++ -*-===//
#ifndef MOE_LIB_LAUNCHORDER_GRAPH_H
#define MOE_LIB_LAUNCHORDER_GRAPH_H

#include "moe/Cost/CostModel.h"
#include "moe/Dialect/Plan/Transforms/Dependences.h"

#include <array>
#include <vector>

namespace mlir::moe {

/// Launches by number, in some order.
using Order = std::vector<unsigned>;

/// A launch on its stream.
struct Task {
  unsigned stream = 0;
  /// Alone on the device and the links.
  double seconds = 0;
  Resource resource = Resource::None;
  double issueSeconds = 0; ///< of the host, after the launch before it
};

/// How fast a kind of work runs, by Resource and by the set of kinds at work (bit 1 << r for Resource r).
using Speeds = std::array<std::array<double, 1u << kNumResources>, kNumResources>;

/// What has to come before what, and how long each takes.
struct Graph {
  std::vector<Task> tasks;
  /// By task: those that have to be done before, and the inverse.
  std::vector<SmallVector<unsigned, 4>> before, after;
  unsigned numStreams = 0;
  Speeds speeds;

  /// Tasks that take no time. Beyond the dependences, the first writers of a ring stay in order: it makes the ring's;
  /// and the backward comes after the outputs.
  explicit Graph(const plan::Dependences &dependences);
  /// The same tasks in reverse: what was before is after.
  Graph getReverse() const;
  /// `part` alone, renumbered by its order.
  Graph getPart(ArrayRef<unsigned> part) const;

  void setSpeeds(const CostModel &model);
  unsigned size() const { return tasks.size(); }

private:
  Graph() = default;
  void addEdge(unsigned first, unsigned second);
  void separateBackward(ArrayRef<plan::LaunchOp> launches);
};

/// The order nearest to `preference`, a permutation of all tasks, that the graph allows: each stream in its order,
/// those that the graph makes impossible put off until they can go. Streams interleave as in `preference`, as far as
/// that can be. Empty where the graph has a cycle.
Order makePossible(const Graph &graph, ArrayRef<unsigned> preference);

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_GRAPH_H
