//===- Lean.cpp - the same order with fewer bytes alive -------------------===//
#include "Search.h"

#include "Timeline.h"

using namespace mlir;
using namespace mlir::moe;

/// Number of rounds over all launches. The second round finds few moves.
static constexpr unsigned maxRounds = 2;

/// Whether the task moves from `from` to `to` without passing another task of its stream. Then the streams do not
/// change.
static bool keepsStreams(const Graph &graph, ArrayRef<unsigned> order, size_t from, size_t to) {
  ArrayRef<unsigned> passed = from < to ? order.slice(from + 1, to - from) : order.slice(to, from - to);
  return llvm::none_of(passed,
                       [&](unsigned task) { return graph.tasks[task].stream == graph.tasks[order[from]].stream; });
}

Order mlir::moe::makeLean(const Graph &graph, Order order, const Pricer &pricer, double seconds) {
  TimelineRunner runner(graph);
  LiveBytes bytes = pricer.getLiveBytes(order);
  std::vector<size_t> places(order.size()); // by task
  auto setPlaces = [&] {
    for (auto [place, task] : llvm::enumerate(order))
      places[task] = place;
  };
  // Returns whether it moves the task, because that is better.
  auto tryMove = [&](size_t from, size_t to) {
    if (from == to)
      return false;
    Order moved = order;
    moveTask(moved, from, to);
    LiveBytes its = pricer.getLiveBytes(moved);
    if (!(its < bytes) ||
        (!keepsStreams(graph, order, from, to) && !runner.isWithin(getSequences(graph, moved), seconds)))
      return false;
    order = std::move(moved);
    bytes = its;
    setPlaces();
    return true;
  };
  setPlaces();
  bool any = true;
  for (unsigned round = 0; round < maxRounds && any; ++round) {
    any = false;
    for (size_t number = order.size(); number-- > 0;) {
      unsigned task = order[number];
      size_t last = order.size() - 1, first = 0;
      for (unsigned next : graph.after[task])
        last = std::min(last, places[next] - 1);
      any |= !graph.after[task].empty() && tryMove(places[task], last);
      for (unsigned before : graph.before[task])
        first = std::max(first, places[before] + 1);
      any |= !graph.before[task].empty() && tryMove(places[task], first);
    }
  }
  return order;
}
