//===- Improve.cpp - local search on the streams' orders ------------------===//
#include "Improve.h"

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
  void apply(const Move &move);
  void undo(const Move &move) { apply({move.stream, move.to, move.from}); }
  bool isTabu(const Move &move) const;
  void forbidUndoing(const Move &move);
  void evaluate();
  /// Takes the best allowed move. Returns false if there is none.
  bool step();
  bool isBetter(double seconds, double sumOfEnds, double thanSeconds, double thanSum) const;

  const Graph &graph;
  TimelineRunner runner;
  Sequences sequences;
  Timeline current;
  Order best;
  double bestSeconds, bestSum;
  uint64_t budget;
  unsigned number = 0;
  /// Step until which the first task of a pair must not come before the second.
  llvm::DenseMap<std::pair<unsigned, unsigned>, unsigned> tabu;
};
} // namespace

TabuSearch::TabuSearch(const Graph &graph, ArrayRef<unsigned> order, uint64_t budget)
    : graph(graph), runner(graph), sequences(getSequences(graph, order)), budget(budget) {
  evaluate();
  best = current.order;
  bestSeconds = current.seconds;
  bestSum = current.sumOfEnds;
}

void TabuSearch::evaluate() { current = runner.runToChange(sequences); }

void TabuSearch::apply(const Move &move) { moveTask(sequences[move.stream], move.from, move.to); }

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

bool TabuSearch::isTabu(const Move &move) const {
  const Order &sequence = sequences[move.stream];
  unsigned task = sequence[move.from];
  auto isForbidden = [&](unsigned first, unsigned second) {
    auto found = tabu.find({first, second});
    return found != tabu.end() && found->second > number;
  };
  for (unsigned place = move.from + 1; place <= move.to; ++place)
    if (isForbidden(sequence[place], task))
      return true;
  for (unsigned place = move.to; place < move.from; ++place)
    if (isForbidden(task, sequence[place]))
      return true;
  return false;
}

/// Must be called before `move` is applied.
void TabuSearch::forbidUndoing(const Move &move) {
  const Order &sequence = sequences[move.stream];
  unsigned task = sequence[move.from];
  for (unsigned place = move.from + 1; place <= move.to; ++place)
    tabu[{task, sequence[place]}] = number + tenure;
  for (unsigned place = move.to; place < move.from; ++place)
    tabu[{sequence[place], task}] = number + tenure;
}

bool TabuSearch::isBetter(double seconds, double sumOfEnds, double thanSeconds, double thanSum) const {
  if (seconds < thanSeconds * (1 - kTimeTolerance) || seconds > thanSeconds * (1 + kTimeTolerance))
    return seconds < thanSeconds;
  return sumOfEnds < thanSum * (1 - kTimeTolerance);
}

bool TabuSearch::step() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::optional<Move> chosen;
  double seconds = infinity, sum = infinity;
  for (const Move &move : findMoves()) {
    bool forbidden = isTabu(move);
    double most = std::min(seconds, forbidden ? bestSeconds : infinity) * (1 + kTimeTolerance);
    apply(move);
    Ends tried = runner.rerun(sequences, move.stream, std::min(move.from, move.to), most);
    undo(move);
    budget -= std::min<uint64_t>(budget, graph.size());
    bool isBest = isBetter(tried.seconds, tried.sumOfEnds, bestSeconds, bestSum);
    if (tried.seconds == infinity || (forbidden && !isBest))
      continue;
    if (!chosen || isBetter(tried.seconds, tried.sumOfEnds, seconds, sum)) {
      chosen = move;
      seconds = tried.seconds;
      sum = tried.sumOfEnds;
    }
  }
  if (!chosen)
    return false;
  forbidUndoing(*chosen);
  apply(*chosen);
  evaluate();
  return true;
}

Order TabuSearch::run() {
  if (current.seconds == std::numeric_limits<double>::infinity())
    return {};
  for (unsigned since = 0; budget > 0 && since < patience; ++number, ++since) {
    if (!step())
      break;
    if (!isBetter(current.seconds, current.sumOfEnds, bestSeconds, bestSum))
      continue;
    // Improvements that do not shorten the step do not extend the search.
    if (current.seconds < bestSeconds * (1 - kTimeTolerance))
      since = 0;
    best = current.order;
    bestSeconds = current.seconds;
    bestSum = current.sumOfEnds;
  }
  return best;
}

Order mlir::moe::improve(const Graph &graph, ArrayRef<unsigned> order, uint64_t budget) {
  return TabuSearch(graph, order, budget).run();
}
