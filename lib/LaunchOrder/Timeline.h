//===- Timeline.h - a quick look at how an order would run ------*- C++ -*-===//
//
// One rank's streams in virtual time, as moe/Simulator/Simulator.h has them in closed form, without what that needs to
// explain itself: the search asks thousands of times. Where links are shared or processors are, this is a guess.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_LAUNCHORDER_TIMELINE_H
#define MOE_LIB_LAUNCHORDER_TIMELINE_H

#include "Graph.h"

namespace mlir::moe {

/// Tasks of each stream in order.
using Sequences = std::vector<Order>;

Sequences getSequences(const Graph &graph, ArrayRef<unsigned> order);

struct Timeline {
  /// When the last task ends; infinity where the streams wait for each other.
  double seconds = 0;
  /// Of all tasks' ends: of two orders that take equally long, the one that does more earlier.
  double sumOfEnds = 0;
  /// Tasks as they begin. A dependence's tasks stand in its order.
  Order order;
  /// By task: the one whose end it waited for last, -1 where it waited for none, and whether that was because it is the
  /// one before on its stream.
  std::vector<int32_t> cause;
  std::vector<bool> waitedForStream;
  /// A task that ends last.
  int32_t last = -1;
};

/// Runs one graph many times.
class Runner {
public:
  explicit Runner(const Graph &graph) : graph(graph) {}

  /// Each stream in its order.
  const Timeline &run(const Sequences &sequences);
  /// Each stream takes the ready task of the least rank; `rank` by task, no two the same.
  const Timeline &run(ArrayRef<unsigned> rank);

private:
  struct Stream {
    enum class State : uint8_t { Idle, Issuing, Working } state = State::Idle;
    unsigned task = 0;
    double until = 0;                                 ///< when it is issued, or ends as long as the speed holds
    double remaining = 0;                             ///< seconds alone
    double free = 0;                                  ///< since when
    int32_t last = -1;                                ///< task
    size_t head = 0;                                  ///< into its sequence
    std::vector<std::pair<unsigned, unsigned>> ready; ///< rank and task, a heap
  };

  const Timeline &run();
  void makeReady(unsigned task);
  bool takeNext(Stream &stream, unsigned index);
  void begin(Stream &stream);
  void work(Stream &stream);
  void end(Stream &stream);
  double getSpeed(const Stream &stream) const;
  bool step();

  const Graph &graph;
  const Sequences *sequences = nullptr;
  ArrayRef<unsigned> rank;
  Timeline timeline;
  std::vector<Stream> streams;
  std::vector<unsigned> missing;
  std::vector<double> readyAt;
  std::array<unsigned, kNumResources> busy;
  unsigned mask = 0;
  double now = 0, issued = 0; ///< the present time, and when the last task is issued
};

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_TIMELINE_H
