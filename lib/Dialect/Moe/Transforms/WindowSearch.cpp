//===- WindowSearch.cpp - the order of a window's ops ---------------------===//
#include "WindowSearch.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <random>
#include <utility>

using namespace mlir;
using namespace mlir::moe;

static constexpr double kNever = -1;

namespace {
/// The clock of a beginning of an order.
struct Clock {
  SmallVector<double, 3> free; ///< by lane: since when
  std::vector<double> ends;    ///< by op; kNever: not issued
  /// By list: when it first needs what it receives (kNever: not yet), and when it has made what it has sent so far.
  SmallVector<double, 3> needed, made, transfer;

  Clock(size_t lanes, size_t ops, size_t lists)
      : free(lanes, 0), ends(ops, kNever), needed(lists, kNever), made(lists, 0), transfer(lists, 0) {}

  double getBegin(const TimedOp &op) const {
    double begin = free[op.lane];
    for (uint32_t need : op.needs)
      begin = std::max(begin, ends[need]);
    return begin;
  }
  void run(const TimedOp &op, uint32_t number);
  double getPeriod() const;
};
} // namespace

void Clock::run(const TimedOp &op, uint32_t number) {
  double begin = getBegin(op);
  free[op.lane] = ends[number] = begin + op.seconds;
  if (op.receives && needed[op.list] == kNever)
    needed[op.list] = begin;
  if (op.transfer > 0) {
    made[op.list] = ends[number];
    transfer[op.list] += op.transfer;
  }
}

double Clock::getPeriod() const {
  double seconds = *llvm::max_element(free), arrival = 0;
  SmallVector<size_t, 3> lists = llvm::to_vector<3>(llvm::seq<size_t>(0, made.size()));
  llvm::sort(lists, [&](size_t a, size_t b) { return made[a] < made[b]; });
  for (size_t list : lists) {
    if (transfer[list] == 0)
      continue;
    // A device sends one after the other.
    arrival = std::max(arrival, made[list]) + transfer[list];
    seconds = std::max(seconds, arrival - std::max(0.0, needed[list]));
  }
  return seconds;
}

static uint32_t count(ArrayRef<TimedOp> ops, uint32_t TimedOp::*member) {
  uint32_t most = 0;
  for (const TimedOp &op : ops)
    most = std::max(most, op.*member + 1);
  return most;
}

double mlir::moe::getPeriod(ArrayRef<TimedOp> ops, ArrayRef<uint32_t> order) {
  Clock clock(count(ops, &TimedOp::lane), ops.size(), count(ops, &TimedOp::list));
  for (uint32_t op : order)
    clock.run(ops[op], op);
  return clock.getPeriod();
}

namespace {
/// Finds orders by list scheduling: of the lists' next ops, the one goes first that can begin first, after a head start
/// that each stretch of a list has. Stretches end at exchanges. Their head starts are found by local search.
class WindowSearch {
public:
  explicit WindowSearch(ArrayRef<TimedOp> ops);

  std::vector<uint32_t> run();

private:
  static constexpr int kRounds = 12, kTries = 300;
  /// Head starts, in times of the mean exchange.
  static constexpr double kHeadStarts[] = {-4, -2, -1, -0.5, -0.2, -0.05, 0, 0.05, 0.2, 0.5, 1, 2, 4};

  std::vector<uint32_t> order() const;
  bool canRun(const Clock &clock, uint32_t op) const;
  double getBound() const;

  ArrayRef<TimedOp> ops;
  SmallVector<SmallVector<uint32_t>, 3> lists;
  std::vector<uint32_t> stretchOf; ///< by op
  SmallVector<double> headStarts;  ///< by stretch
  double unit = 0;
};
} // namespace

WindowSearch::WindowSearch(ArrayRef<TimedOp> ops) : ops(ops), lists(count(ops, &TimedOp::list)) {
  uint32_t exchanges = 0, stretch = 0;
  for (auto [number, op] : llvm::enumerate(ops)) {
    if (number > 0 && (op.list != ops[number - 1].list || ops[number - 1].lane != 0))
      ++stretch;
    lists[op.list].push_back(number);
    stretchOf.push_back(stretch);
    if (op.lane != 0) {
      unit += op.seconds;
      ++exchanges;
    }
  }
  headStarts.assign(stretch + 1, 0);
  unit /= std::max<uint32_t>(exchanges, 1);
}

bool WindowSearch::canRun(const Clock &clock, uint32_t op) const {
  auto isIssued = [&](uint32_t other) { return clock.ends[other] != kNever; };
  return llvm::all_of(ops[op].needs, isIssued) && llvm::all_of(ops[op].follows, isIssued);
}

std::vector<uint32_t> WindowSearch::order() const {
  Clock clock(count(ops, &TimedOp::lane), ops.size(), lists.size());
  SmallVector<size_t, 3> next(lists.size(), 0);
  std::vector<uint32_t> order;
  while (order.size() < ops.size()) {
    std::optional<uint32_t> first;
    double least = 0;
    for (auto [list, at] : llvm::zip(lists, next)) {
      if (at == list.size() || !canRun(clock, list[at]))
        continue;
      double rank = clock.getBegin(ops[list[at]]) - headStarts[stretchOf[list[at]]];
      if (!first || rank < least) {
        first = list[at];
        least = rank;
      }
    }
    assert(first && "lists of a window wait for each other");
    clock.run(ops[*first], *first);
    ++next[ops[*first].list];
    order.push_back(*first);
  }
  return order;
}

/// No order has a shorter period.
double WindowSearch::getBound() const {
  SmallVector<double, 3> lanes(count(ops, &TimedOp::lane), 0);
  for (const TimedOp &op : ops)
    lanes[op.lane] += op.seconds;
  return *llvm::max_element(lanes);
}

std::vector<uint32_t> WindowSearch::run() {
  constexpr double nearlyBound = 1.002;
  std::vector<uint32_t> best = order();
  if (lists.size() == 1)
    return best;
  double least = getPeriod(ops, best), enough = nearlyBound * getBound();
  // The same in every run.
  std::minstd_rand random(1);
  auto choose = [&](size_t count) { return random() % count; };
  SmallVector<double> bestStarts = headStarts;
  for (int round = 0; round < kRounds && least > enough; ++round) {
    // From where a list as a whole is ahead of the others, or from the best so far.
    headStarts = bestStarts;
    if (round % 2 == 1)
      for (ArrayRef<uint32_t> list : lists) {
        double all = kHeadStarts[choose(std::size(kHeadStarts))] * unit;
        for (uint32_t op : list)
          headStarts[stretchOf[op]] = all;
      }
    double current = HUGE_VAL;
    for (int tries = 0; tries < kTries && least > enough; ++tries) {
      double &headStart = headStarts[choose(headStarts.size())];
      double before = std::exchange(headStart, kHeadStarts[choose(std::size(kHeadStarts))] * unit);
      std::vector<uint32_t> other = order();
      double seconds = getPeriod(ops, other);
      if (seconds > current) {
        headStart = before;
        continue;
      }
      current = seconds;
      if (seconds >= least)
        continue;
      least = seconds;
      best = std::move(other);
      bestStarts = headStarts;
    }
  }
  return best;
}

std::vector<uint32_t> mlir::moe::searchWindow(ArrayRef<TimedOp> ops) { return WindowSearch(ops).run(); }
