//===- Lean.cpp - the same order with fewer bytes alive -------------------===//
#include "Lean.h"

#include "Timeline.h"

using namespace mlir;
using namespace mlir::moe;

/// Number of rounds over all launches. The second round finds few moves.
static constexpr unsigned maxRounds = 2;

namespace {
class LeanSearch {
public:
  LeanSearch(const Graph &graph, Order order, const Pricer &pricer, double seconds)
      : graph(graph), order(std::move(order)), runner(graph), pricer(pricer), seconds(seconds),
        bytes(pricer.getLiveBytes(this->order)) {}

  Order run();

private:
  void setPlaces();
  /// Whether the task moves from `from` to `to` without passing another task of its stream. Then the streams do not
  /// change.
  bool keepsStreams(size_t from, size_t to) const;
  /// Moves the task at `from` to `to` if that is better. Returns whether it did.
  bool tryMove(size_t from, size_t to);

  const Graph &graph;
  Order order;
  std::vector<size_t> places; ///< by task
  TimelineRunner runner;
  const Pricer &pricer;
  double seconds;
  LiveBytes bytes;
};
} // namespace

void LeanSearch::setPlaces() {
  places.resize(order.size());
  for (auto [place, task] : llvm::enumerate(order))
    places[task] = place;
}

bool LeanSearch::keepsStreams(size_t from, size_t to) const {
  ArrayRef<unsigned> passed =
      from < to ? ArrayRef(order).slice(from + 1, to - from) : ArrayRef(order).slice(to, from - to);
  return llvm::none_of(passed,
                       [&](unsigned task) { return graph.tasks[task].stream == graph.tasks[order[from]].stream; });
}

bool LeanSearch::tryMove(size_t from, size_t to) {
  if (from == to)
    return false;
  Order moved = order;
  moveTask(moved, from, to);
  LiveBytes its = pricer.getLiveBytes(moved);
  if (!(its < bytes) || (!keepsStreams(from, to) && !runner.isWithin(getSequences(graph, moved), seconds)))
    return false;
  order = std::move(moved);
  bytes = its;
  setPlaces();
  return true;
}

Order LeanSearch::run() {
  setPlaces();
  for (unsigned round = 0; round < maxRounds; ++round) {
    bool any = false;
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
    if (!any)
      break;
  }
  return order;
}

Order mlir::moe::makeLean(const Graph &graph, const Order &order, const Pricer &pricer, double seconds) {
  return LeanSearch(graph, order, pricer, seconds).run();
}
