//===- RingSlots.cpp - slots for values that outlive iterations -----------===//
#include "RingSlots.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cassert>

using namespace mlir;
using namespace mlir::plan;

/// Whether both uses overlap.
static bool isConflict(llvm::ArrayRef<SlotUse> uses, size_t a, size_t b, MayTakeOver mayTakeOver) {
  if (uses[b].first < uses[a].first)
    std::swap(a, b);
  if (uses[a].last != uses[b].first || a == b)
    return uses[b].first <= uses[a].last;
  return !mayTakeOver(a, b);
}

namespace {
/// A value that must not share a slot with another value, a number of iterations later.
struct Neighbour {
  unsigned value;
  int64_t iterations;
};

/// Conflicts between the values of a ring.
struct Conflicts {
  std::vector<llvm::SmallVector<Neighbour, 0>> neighbours; ///< by value
  int64_t mostAlive = 1;
};
} // namespace

static llvm::SmallVector<size_t> sortByFirst(llvm::ArrayRef<SlotUse> uses) {
  auto sorted = llvm::to_vector(llvm::seq(size_t(0), uses.size()));
  llvm::stable_sort(sorted, [&](size_t a, size_t b) { return uses[a].first < uses[b].first; });
  return sorted;
}

/// Walks along the launches with the uses that are alive.
static Conflicts findConflicts(unsigned values, llvm::ArrayRef<SlotUse> uses, MayTakeOver mayTakeOver) {
  Conflicts conflicts;
  conflicts.neighbours.resize(values);
  llvm::DenseSet<std::pair<std::pair<unsigned, unsigned>, int64_t>> known;
  llvm::SmallVector<size_t> alive;
  for (size_t next : sortByFirst(uses)) {
    const SlotUse &use = uses[next];
    llvm::erase_if(alive, [&](size_t other) { return uses[other].last < use.first; });
    int64_t count = 1;
    for (size_t other : alive) {
      if (!isConflict(uses, other, next, mayTakeOver))
        continue;
      ++count;
      const SlotUse &its = uses[other];
      int64_t iterations = use.iteration - its.iteration;
      if (!known.insert({{its.value, use.value}, iterations}).second)
        continue;
      conflicts.neighbours[use.value].push_back({its.value, iterations});
      conflicts.neighbours[its.value].push_back({use.value, -iterations});
    }
    conflicts.mostAlive = std::max(conflicts.mostAlive, count);
    alive.push_back(next);
  }
  return conflicts;
}

namespace {
/// A value, and its iteration when it follows the others in their slot.
struct Turn {
  unsigned value;
  int64_t iteration;
};
} // namespace

/// Uses of each value in the steady state. An iteration shows where it begins, and where another iteration's use ends.
static std::vector<SlotUse> findSteady(unsigned values, llvm::ArrayRef<SlotUse> uses, const SlotPeriod &period) {
  std::vector<std::optional<SlotUse>> made(values), left(values);
  for (const SlotUse &use : uses) {
    if (!made[use.value] || period.contains(use.first))
      made[use.value] = use;
    if (period.contains(use.last))
      left[use.value] = use;
  }
  std::vector<SlotUse> steady;
  for (auto [own, other] : llvm::zip(made, left)) {
    SlotUse use = *own;
    if (other) {
      int64_t later = (use.iteration - other->iteration) * static_cast<int64_t>(period.length);
      use.last = std::max(static_cast<int64_t>(use.first), static_cast<int64_t>(other->last) + later);
    }
    steady.push_back(use);
  }
  return steady;
}

/// Lets each value follow the one whose last use is shortly before, beginning with number `first`. One slot can hold
/// them all in this order. The content of slot 0 in iteration i has slot -i in iteration 0.
static llvm::SmallVector<Turn> makeTurns(std::vector<SlotUse> steady, size_t first, const SlotPeriod &period) {
  llvm::SmallVector<Turn> turns;
  size_t now = steady[first].first;
  while (!steady.empty()) {
    // Each value begins once in a period.
    auto getGap = [&](const SlotUse &use) {
      return (use.first % period.length + period.length - now % period.length) % period.length;
    };
    auto next = llvm::min_element(steady, [&](auto &a, auto &b) { return getGap(a) < getGap(b); });
    size_t begin = now + getGap(*next);
    turns.push_back({next->value, next->iteration + static_cast<int64_t>(begin / period.length) -
                                      static_cast<int64_t>(next->first / period.length)});
    now = begin + (next->last - next->first) + 1;
    steady.erase(next);
  }
  return turns;
}

/// Gives each value the slot of its turn, or the next free one. Returns none if there is no free slot.
static std::optional<RingSlots> tryDepth(int64_t depth, llvm::ArrayRef<Turn> turns, const Conflicts &conflicts) {
  RingSlots slots{std::vector<int64_t>(turns.size(), -1), depth};
  llvm::BitVector occupied(depth);
  int64_t late = 0;
  for (const Turn &turn : turns) {
    occupied.reset();
    for (const Neighbour &other : conflicts.neighbours[turn.value])
      if (other.value == turn.value && other.iterations % depth == 0)
        return std::nullopt;
      else if (slots.first[other.value] >= 0)
        occupied.set(slots.get(other.value, -other.iterations));
    if (occupied.all())
      return std::nullopt;
    auto getSlot = [&] { return ((-turn.iteration - late) % depth + depth) % depth; };
    while (occupied.test(getSlot()))
      ++late;
    slots.first[turn.value] = getSlot();
  }
  return slots;
}

RingSlots mlir::plan::chooseSlots(unsigned values, llvm::ArrayRef<SlotUse> uses, const SlotPeriod &period,
                                  MayTakeOver mayTakeOver) {
  assert(values > 0 && "expected a ring with values");
  Conflicts conflicts = findConflicts(values, uses, mayTakeOver);
  std::vector<SlotUse> steady = findSteady(values, uses, period);
  // The first value decides which ones remain at the end, between which the gaps are large.
  constexpr unsigned mostTries = 16;
  std::vector<llvm::SmallVector<Turn>> turns(std::min(values, mostTries));
  for (int64_t depth = conflicts.mostAlive;; ++depth)
    for (auto [first, order] : llvm::enumerate(turns)) {
      if (order.empty())
        order = makeTurns(steady, first, period);
      if (std::optional<RingSlots> slots = tryDepth(depth, order, conflicts))
        return *slots;
    }
}

std::optional<int64_t> mlir::plan::findFreeSlot(const RingSlots &slots, llvm::ArrayRef<SlotUse> uses,
                                                MayTakeOver mayTakeOver) {
  llvm::BitVector occupied(slots.depth);
  size_t last = uses.size() - 1;
  for (size_t other = 0; other < last; ++other)
    if (isConflict(uses, other, last, mayTakeOver))
      occupied.set(slots.get(uses[other].value, uses[other].iteration));
  int free = occupied.find_first_unset();
  return free < 0 ? std::nullopt : std::optional<int64_t>(free);
}
