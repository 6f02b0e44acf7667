//===- Graph.h - launches as a scheduler sees them --------------*- C++ -*-===//
#ifndef MOE_LIB_LAUNCHORDER_GRAPH_H
#define MOE_LIB_LAUNCHORDER_GRAPH_H

#include "moe/Cost/CostModel.h"
#include "moe/Dialect/Plan/Transforms/Dependences.h"

#include <array>
#include <vector>

namespace mlir::moe {

/// Numbers of launches in some order.
using Order = std::vector<unsigned>;

/// A launch as a task of its stream.
struct Task {
  unsigned stream = 0;
  /// Seconds alone on the device and the links.
  double seconds = 0;
  Resource resource = Resource::None;
  double issueSeconds = 0; ///< host's seconds after the previous launch
};

/// Speed of a kind of work, by Resource and by the set of kinds that run (bit 1 << r for Resource r).
using Speeds = std::array<std::array<double, 1u << kNumResources>, kNumResources>;

/// Tasks with their dependencies and times.
struct Graph {
  std::vector<Task> tasks;
  /// Tasks that must end before a task, and tasks that wait for it.
  std::vector<SmallVector<unsigned, 4>> before, after;
  unsigned numStreams = 0;
  Speeds speeds;

  /// Makes tasks that take no time. Two rules add to the dependences: the first writers of a ring's buffers keep their
  /// order, and the backward comes after the launches that write outputs.
  explicit Graph(const plan::Dependences &dependences);
  /// Returns the same tasks with all dependencies reversed.
  Graph getReverse() const;
  /// Returns the tasks of `part`, renumbered in its order.
  Graph getPart(ArrayRef<unsigned> part) const;

  void setSpeeds(const CostModel &model);
  unsigned size() const { return tasks.size(); }

private:
  Graph() = default;
  void addEdge(unsigned first, unsigned second);
  void separateBackward(ArrayRef<plan::LaunchOp> launches);
};

/// Numbers of `count` launches in program order.
Order getProgramOrder(size_t count);

/// Moves the task at place `from` to place `to`. The tasks in between shift by one place.
void moveTask(Order &order, size_t from, size_t to);

/// Seconds of the longest chain that begins with each task. `order` is one that the graph allows, and every task has
/// `speed`.
std::vector<double> getTails(const Graph &graph, ArrayRef<unsigned> order, double speed = 1);

/// Returns the order nearest to `preference`, a permutation of all tasks, that the graph allows. Each stream keeps its
/// order, unless its tasks would wait for each other forever. Streams interleave as in `preference` if possible. Empty
/// if the graph has a cycle.
Order makePossible(const Graph &graph, ArrayRef<unsigned> preference);

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_GRAPH_H
