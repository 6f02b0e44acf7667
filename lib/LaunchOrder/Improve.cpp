//===- Improve.cpp - local search on the streams' orders ------------------===//
#include "Search.h"

#include "Timeline.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace mlir::moe;

/// Number of steps for which two tasks that changed places do not change back.
static constexpr unsigned tenure = 9;
/// Number of steps without a better order after which the search ends.
static constexpr unsigned patience = 120;
/// Number of moves that a step tries. If there are more, it tries this many at equal distances.
static constexpr unsigned maxMoves = 48;

namespace {
/// A call of moveTask() for a stream.
struct Move {
  unsigned stream, from, to;
};

class TabuSearch {
public:
  TabuSearch(const Graph &graph, ArrayRef<unsigned> order, uint64_t budget);
  Order run();

private:
  std::vector<Move> findMoves() const;
  /// Adds moves of the tasks on places `first` to `last` of a stream, which all waited for their predecessors.
  void addMoves(unsigned stream, unsigned first, unsigned last, std::vector<Move> &moves) const;
  void apply(const Move &move) { moveTask(sequences[move.stream], move.from, move.to); }
  void undo(const Move &move) { apply({move.stream, move.to, move.from}); }
  /// Pairs of tasks that change places if `move` is applied. The first task of a pair is before the second one.
  std::vector<std::pair<unsigned, unsigned>> getPairs(const Move &move) const;
  bool isTabu(const Move &move) const;
  /// Takes the best allowed move. Returns false if there is none.
  bool step();

  const Graph &graph;
  TimelineRunner runner;
  Sequences sequences;
  Timeline current;
  Order best;
  Ends bestEnds;
  uint64_t budget;
  unsigned number = 0;
  /// Step until which the first task of a pair must not come before the second.
  llvm::DenseMap<std::pair<unsigned, unsigned>, unsigned> tabu;
};
} // namespace

TabuSearch::TabuSearch(const Graph &graph, ArrayRef<unsigned> order, uint64_t budget)
    : graph(graph), runner(graph), sequences(getSequences(graph, order)), current(runner.runToChange(sequences)),
      best(current.order), bestEnds(current), budget(budget) {}

/// A task moves to an end of the row or changes places with its neighbour.
void TabuSearch::addMoves(unsigned stream, unsigned first, unsigned last, std::vector<Move> &moves) const {
  if (first == last)
    return;
  for (unsigned place = first; place <= last; ++place) {
    if (place < last)
      moves.push_back({stream, place, last});
    if (place > first + (first + 1 == last))
      moves.push_back({stream, place, first});
    if (place < last && place + 1 != last)
      moves.push_back({stream, place, place + 1});
  }
}

std::vector<Move> TabuSearch::findMoves() const {
  std::vector<unsigned> placeOf(graph.size());
  for (const Order &sequence : sequences)
    for (auto [place, task] : llvm::enumerate(sequence))
      placeOf[task] = place;
  std::vector<Move> moves;
  for (int32_t task = current.last; task >= 0;) {
    unsigned stream = graph.tasks[task].stream, last = placeOf[task], first = last;
    while (current.waitedForStream[task]) {
      task = current.cause[task];
      first = placeOf[task];
    }
    addMoves(stream, first, last, moves);
    task = current.cause[task];
  }
  if (moves.size() <= maxMoves)
    return moves;
  std::vector<Move> some;
  for (size_t i = 0; i < maxMoves; ++i)
    some.push_back(moves[(i * moves.size() / maxMoves + number) % moves.size()]);
  return some;
}

std::vector<std::pair<unsigned, unsigned>> TabuSearch::getPairs(const Move &move) const {
  const Order &sequence = sequences[move.stream];
  unsigned task = sequence[move.from];
  std::vector<std::pair<unsigned, unsigned>> pairs;
  for (unsigned place = move.from + 1; place <= move.to; ++place)
    pairs.push_back({task, sequence[place]});
  for (unsigned place = move.to; place < move.from; ++place)
    pairs.push_back({sequence[place], task});
  return pairs;
}

bool TabuSearch::isTabu(const Move &move) const {
  return llvm::any_of(getPairs(move), [&](auto pair) { return tabu.lookup({pair.second, pair.first}) > number; });
}

static bool isBetter(const Ends &ends, const Ends &than) {
  if (ends.seconds < than.seconds * (1 - kTimeTolerance) || ends.seconds > than.seconds * (1 + kTimeTolerance))
    return ends.seconds < than.seconds;
  return ends.sumOfEnds < than.sumOfEnds * (1 - kTimeTolerance);
}

bool TabuSearch::step() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::optional<Move> chosen;
  Ends least{infinity, infinity};
  for (const Move &move : findMoves()) {
    bool forbidden = isTabu(move);
    double most = std::min(least.seconds, forbidden ? bestEnds.seconds : infinity) * (1 + kTimeTolerance);
    apply(move);
    Ends tried = runner.rerun(sequences, move.stream, std::min(move.from, move.to), most);
    undo(move);
    budget -= std::min<uint64_t>(budget, graph.size());
    if (tried.seconds == infinity || (forbidden && !isBetter(tried, bestEnds)))
      continue;
    if (!chosen || isBetter(tried, least)) {
      chosen = move;
      least = tried;
    }
  }
  if (!chosen)
    return false;
  for (auto pair : getPairs(*chosen))
    tabu[pair] = number + tenure;
  apply(*chosen);
  current = runner.runToChange(sequences);
  return true;
}

Order TabuSearch::run() {
  if (current.seconds == std::numeric_limits<double>::infinity())
    return {};
  for (unsigned since = 0; budget > 0 && since < patience; ++number, ++since) {
    if (!step())
      break;
    if (!isBetter(current, bestEnds))
      continue;
    // Improvements that do not shorten the step do not extend the search.
    if (current.seconds < bestEnds.seconds * (1 - kTimeTolerance))
      since = 0;
    best = current.order;
    bestEnds = current;
  }
  return best;
}

Order mlir::moe::improve(const Graph &graph, ArrayRef<unsigned> order, uint64_t budget) {
  return TabuSearch(graph, order, budget).run();
}
