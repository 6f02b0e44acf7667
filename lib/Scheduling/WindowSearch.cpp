//===- WindowSearch.cpp - the order of a window's ops ---------------------===//
#include "moe/Scheduling/Window.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

using namespace mlir;
using namespace mlir::moe;

static constexpr double kNever = -1;

namespace {
/// Clock of an order that is being made.
struct Clock {
  SmallVector<double, 3> free; ///< by lane: time since when it is free
  std::vector<double> ends;    ///< end of each op; kNever: not issued
  /// Times by list: when it first needs results of another stage (kNever: not yet), when it has made all that it has
  /// sent so far, and seconds of sending it.
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
    // A device sends one value after the other.
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

std::string WindowProblem::check() const {
  for (auto [number, op] : llvm::enumerate(ops)) {
    auto isKnown = [&](uint32_t other) { return other < ops.size(); };
    if (!llvm::all_of(op.needs, isKnown) || !llvm::all_of(op.follows, isKnown))
      return "expected op " + std::to_string(number) + " to need and follow ops of the window";
    if (uint32_t before = number == 0 ? 0 : ops[number - 1].list; op.list < before)
      return "expected op " + std::to_string(number) + " in list " + std::to_string(before) + " or a later one";
  }
  return "";
}

std::string WindowProblem::verify(ArrayRef<uint32_t> order) const {
  std::vector<size_t> places(ops.size(), order.size());
  for (auto [place, op] : llvm::enumerate(order)) {
    if (op >= ops.size() || places[op] != order.size())
      return "expected each op once but got op " + std::to_string(op) + " at place " + std::to_string(place);
    places[op] = place;
  }
  if (order.size() != ops.size())
    return "expected " + std::to_string(ops.size()) + " ops but got " + std::to_string(order.size());
  for (auto [number, op] : llvm::enumerate(ops)) {
    auto isLater = [&, number = number](uint32_t other) { return places[other] > places[number]; };
    if (llvm::any_of(op.needs, isLater) || (number > 0 && ops[number - 1].list == op.list && isLater(number - 1)) ||
        llvm::any_of(op.follows, [&](uint32_t other) { return ops[other].seconds > 0 && isLater(other); }))
      return "expected op " + std::to_string(number) + " after the ops that it needs and follows";
  }
  return "";
}

double WindowProblem::getPeriod(ArrayRef<uint32_t> order) const {
  Clock clock(count(ops, &TimedOp::lane), ops.size(), count(ops, &TimedOp::list));
  for (uint32_t op : order)
    clock.run(ops[op], op);
  return clock.getPeriod();
}

namespace {
/// Finds orders by list scheduling. The next op is the one that can begin first, after a head start of its stretch of
/// the list. Stretches end at exchanges. Local search finds their head starts. Equal stretches, as those of equal
/// blocks, have the same one, so that the search is as good for many blocks as for few.
/// Computation counts as able to begin when its list comes to it at a steady pace, so that all lists end together.
/// Otherwise the list with less work would run ahead. The rest of the other one would have nothing beside it, and
/// values of both would be kept.
class WindowSearch {
public:
  explicit WindowSearch(ArrayRef<TimedOp> ops);

  std::vector<uint32_t> run();

private:
  static constexpr int kRounds = 12, kTries = 300;
  /// Head starts, in times of the mean exchange.
  static constexpr double kHeadStarts[] = {-4, -2, -1, -0.5, -0.2, -0.05, 0, 0.05, 0.2, 0.5, 1, 2, 4};

  /// Periods that lists are paced for, in times of the lower bound. With 0 the first that can begin is the first.
  static constexpr double kPaces[] = {1, 0, 0.7, 0.9, 1.05, 1.1, 1.15};

  void findStretches();
  void setDue();
  /// An order by the current head starts and pace, and its period.
  std::pair<std::vector<uint32_t>, double> order() const;
  /// Makes such an order, keeps it if it is the best so far, and returns its period.
  double tryOrder();
  bool canRun(const Clock &clock, uint32_t op) const;

  ArrayRef<TimedOp> ops;
  size_t lanes;
  SmallVector<SmallVector<uint32_t>, 3> lists;
  std::vector<uint32_t> stretchOf; ///< by op; equal stretches have the same number
  SmallVector<double> headStarts;  ///< by stretch
  std::vector<double> due;         ///< by op: when it begins at a steady pace, as a share of the period
  double unit = 0;                 ///< mean seconds of an exchange
  double pace = 0;                 ///< the period that the lists are paced for
  struct {
    std::vector<uint32_t> order;
    double seconds = HUGE_VAL;
    SmallVector<double> headStarts;
    double pace = 0;
  } best; ///< the shortest order so far, and what made it
};
} // namespace

WindowSearch::WindowSearch(ArrayRef<TimedOp> ops)
    : ops(ops), lanes(count(ops, &TimedOp::lane)), lists(count(ops, &TimedOp::list)) {
  uint32_t exchanges = 0;
  for (auto [number, op] : llvm::enumerate(ops)) {
    lists[op.list].push_back(number);
    if (op.lane != 0) {
      unit += op.seconds;
      ++exchanges;
    }
  }
  unit /= std::max<uint32_t>(exchanges, 1);
  findStretches();
  setDue();
}

void WindowSearch::findStretches() {
  using Stretch = std::vector<std::tuple<uint32_t, uint32_t, double>>; // list, lane and seconds of each op
  std::map<Stretch, uint32_t> known;
  Stretch stretch;
  for (auto [number, op] : llvm::enumerate(ops)) {
    stretch.emplace_back(op.list, op.lane, op.seconds);
    if (op.lane == 0 && number + 1 < ops.size() && ops[number + 1].list == op.list)
      continue;
    uint32_t kind = known.try_emplace(stretch, known.size()).first->second;
    stretchOf.insert(stretchOf.end(), stretch.size(), kind);
    stretch.clear();
  }
  headStarts.assign(known.size(), 0);
}

void WindowSearch::setDue() {
  SmallVector<double, 3> work(lists.size(), 0);
  for (const TimedOp &op : ops)
    due.push_back(std::exchange(work[op.list], work[op.list] + op.seconds));
  for (auto [op, share] : llvm::zip(ops, due))
    share /= work[op.list] > 0 ? work[op.list] : 1;
  // No op is due later than one that waits for it.
  for (auto [number, op] : llvm::enumerate(ops))
    for (uint32_t other : op.follows)
      due[other] = std::min(due[other], due[number]);
  for (size_t number = ops.size(); number-- > 1;)
    if (ops[number - 1].list == ops[number].list)
      due[number - 1] = std::min(due[number - 1], due[number]);
}

bool WindowSearch::canRun(const Clock &clock, uint32_t op) const {
  auto isIssued = [&](uint32_t other) { return clock.ends[other] != kNever; };
  return llvm::all_of(ops[op].needs, isIssued) && llvm::all_of(ops[op].follows, isIssued);
}

std::pair<std::vector<uint32_t>, double> WindowSearch::order() const {
  Clock clock(lanes, ops.size(), lists.size());
  SmallVector<size_t, 3> next(lists.size(), 0);
  std::vector<uint32_t> order;
  order.reserve(ops.size());
  while (order.size() < ops.size()) {
    std::optional<uint32_t> first;
    double least = 0;
    for (auto [list, at] : llvm::zip(lists, next)) {
      if (at == list.size() || !canRun(clock, list[at]))
        continue;
      const TimedOp &op = ops[list[at]];
      double paced = op.lane == 0 ? due[list[at]] * pace : 0;
      double rank = std::max(clock.getBegin(op), paced) - headStarts[stretchOf[list[at]]];
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
  return {std::move(order), clock.getPeriod()};
}

double WindowSearch::tryOrder() {
  auto [other, seconds] = order();
  if (seconds < best.seconds)
    best = {std::move(other), seconds, headStarts, pace};
  return seconds;
}

std::vector<uint32_t> WindowSearch::run() {
  constexpr double nearlyBound = 1.002;
  if (lists.size() <= 1)
    return order().first;
  SmallVector<double, 3> busy(lanes, 0);
  for (const TimedOp &op : ops)
    busy[op.lane] += op.seconds;
  // Lower bound of the period: the busy time of the busiest lane. Search ends near it.
  double bound = *llvm::max_element(busy), enough = nearlyBound * bound;
  for (double share : kPaces) {
    pace = share * bound;
    tryOrder();
  }
  // Fixed seed, so that every run gives the same order.
  std::minstd_rand random(1);
  auto choose = [&](size_t count) { return random() % count; };
  for (int round = 0; round < kRounds && best.seconds > enough; ++round) {
    // Starts from the best order so far, or from one of another pace in which a list as a whole is ahead of the others.
    headStarts = best.headStarts;
    pace = round % 2 == 1 ? kPaces[choose(std::size(kPaces))] * bound : best.pace;
    if (round % 2 == 1)
      for (ArrayRef<uint32_t> list : lists) {
        double all = kHeadStarts[choose(std::size(kHeadStarts))] * unit;
        for (uint32_t op : list)
          headStarts[stretchOf[op]] = all;
      }
    double current = HUGE_VAL;
    for (int tries = 0; tries < kTries && best.seconds > enough; ++tries) {
      double &headStart = headStarts[choose(headStarts.size())];
      double before = std::exchange(headStart, kHeadStarts[choose(std::size(kHeadStarts))] * unit);
      if (double seconds = tryOrder(); seconds > current)
        headStart = before;
      else
        current = seconds;
    }
  }
  return best.order;
}

//===----------------------------------------------------------------------===//
// Ops without time
//===----------------------------------------------------------------------===//

namespace {
/// A window without the ops that take no time, such as views and passes that few steps have. The search then has fewer
/// ops to place. Such an op stays with the op before it in its list. If it takes results of other lists, it stays with
/// the next op that takes time, and may come one exchange later. Lists still do not wait for each other, since
/// gradients of weights that wait for exchanges then wait for more of them.
class ShorterWindow {
public:
  explicit ShorterWindow(ArrayRef<TimedOp> all);

  ArrayRef<TimedOp> getOps() const { return ops; }
  /// Order of all ops, from an order of those that stay.
  std::vector<uint32_t> expand(ArrayRef<uint32_t> order) const;

private:
  void addOps();
  bool isFirst(uint32_t number) const { return number == 0 || all[number - 1].list != all[number].list; }
  bool isLast(uint32_t number) const { return number + 1 == all.size() || isFirst(number + 1); }
  bool takesFromOthers(uint32_t number) const;
  const SmallVector<uint32_t, 4> &findNeeds(uint32_t number);
  void addWaits(uint32_t number);

  ArrayRef<TimedOp> all;
  std::vector<TimedOp> ops;                      ///< those that stay
  std::vector<SmallVector<uint32_t, 2>> members; ///< by op that stays: it, and the ops that go along with it
  std::vector<uint32_t> place;                   ///< by op: the op that stays and has it
  std::vector<bool> stays;                       ///< by op
  std::vector<std::optional<SmallVector<uint32_t, 4>>> needs; ///< by op, if known: the ops that stay and that it needs
};
} // namespace

bool ShorterWindow::takesFromOthers(uint32_t number) const {
  return !all[number].follows.empty() ||
         llvm::any_of(all[number].needs, [&](uint32_t need) { return all[need].list != all[number].list; });
}

void ShorterWindow::addOps() {
  SmallVector<uint32_t, 2> waiting; // for the next op
  for (uint32_t number = 0; number < all.size(); ++number) {
    const TimedOp &op = all[number];
    bool isFree = op.seconds == 0 && op.lane == 0 && !op.receives && op.transfer == 0;
    bool goesWithLast = isFree && !isFirst(number) && waiting.empty() && !takesFromOthers(number);
    stays.push_back(!isFree || (!goesWithLast && isLast(number)));
    place.push_back(goesWithLast ? ops.size() - 1 : ops.size());
    if (goesWithLast) {
      members.back().push_back(number);
      continue;
    }
    waiting.push_back(number);
    if (!stays.back())
      continue;
    members.push_back(std::exchange(waiting, {}));
    TimedOp &own = ops.emplace_back(op);
    own.needs.clear();
    own.follows.clear();
  }
}

template <typename Numbers> static void makeUnique(Numbers &numbers) {
  llvm::sort(numbers);
  numbers.erase(llvm::unique(numbers), numbers.end());
}

/// Ops that stay and whose results an op takes, directly or through ops that do not stay.
const SmallVector<uint32_t, 4> &ShorterWindow::findNeeds(uint32_t number) {
  if (needs[number])
    return *needs[number];
  SmallVector<uint32_t, 4> found;
  for (uint32_t need : all[number].needs)
    if (stays[need])
      found.push_back(place[need]);
    else
      llvm::append_range(found, findNeeds(need));
  makeUnique(found);
  return needs[number].emplace(std::move(found));
}

/// Adds waits for results of other lists, and for ops that have to be issued before.
void ShorterWindow::addWaits(uint32_t number) {
  SmallVector<uint32_t, 1> &follows = ops[place[number]].follows;
  for (uint32_t need : all[number].needs)
    if (all[need].list != all[number].list)
      follows.push_back(place[need]);
  // An op that goes along may come late, so the op before it that stays represents it.
  for (uint32_t other : all[number].follows) {
    while (!stays[other] && !isFirst(other))
      --other;
    if (stays[other])
      follows.push_back(place[other]);
  }
}

ShorterWindow::ShorterWindow(ArrayRef<TimedOp> all) : all(all), needs(all.size()) {
  addOps();
  for (uint32_t number = 0; number < all.size(); ++number) {
    addWaits(number);
    if (stays[number])
      ops[place[number]].needs = findNeeds(number);
  }
  for (TimedOp &op : ops)
    makeUnique(op.follows);
}

std::vector<uint32_t> ShorterWindow::expand(ArrayRef<uint32_t> order) const {
  std::vector<uint32_t> expanded;
  for (uint32_t op : order)
    expanded.insert(expanded.end(), members[op].begin(), members[op].end());
  return expanded;
}

std::vector<uint32_t> mlir::moe::searchWindow(const WindowProblem &problem) {
  assert(problem.check().empty() && "expected a problem without a mistake");
  ShorterWindow window(problem.ops);
  return window.expand(WindowSearch(window.getOps()).run());
}
