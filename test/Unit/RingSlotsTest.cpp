// Values that outlive iterations of a loop. No two values of a slot are in use at once, in any number of iterations,
// and there are few slots.
#include "../../lib/Dialect/Plan/Transforms/RingSlots.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir::plan;

namespace {

bool never(size_t, size_t) { return false; }

/// A value of an iteration: the number of launches from the iteration's beginning to its own, and its length in
/// launches.
struct Life {
  size_t begin, launches;
};

std::vector<SlotUse> makeUses(llvm::ArrayRef<Life> lives, size_t length, int64_t iterations) {
  std::vector<SlotUse> uses;
  for (int64_t iteration = 0; iteration < iterations; ++iteration)
    for (unsigned value = 0; value < lives.size(); ++value) {
      size_t first = iteration * length + lives[value].begin;
      uses.push_back({value, iteration, first, first + lives[value].launches - 1});
    }
  return uses;
}

int64_t getMostAlive(llvm::ArrayRef<SlotUse> uses) {
  int64_t most = 0;
  for (const SlotUse &use : uses)
    most = std::max<int64_t>(most, llvm::count_if(uses, [&](const SlotUse &other) {
                               return other.first <= use.first && use.first <= other.last;
                             }));
  return most;
}

/// Expects each slot to be free when it is written.
void expectApart(const RingSlots &slots, llvm::ArrayRef<SlotUse> uses) {
  for (const SlotUse &one : uses)
    for (const SlotUse &other : uses)
      if (&one < &other && one.first <= other.last && other.first <= one.last) {
        EXPECT_NE(slots.get(one.value, one.iteration), slots.get(other.value, other.iteration));
      }
}

TEST(RingSlots, AreRotatingRegisters) {
  // Lives of 1.5 and of 0.5 iterations fill two slots. Each by itself would need two, and one.
  Life lives[] = {{0, 15}, {15, 5}};
  RingSlots slots = chooseSlots(2, makeUses(lives, 10, 4), {10, 10}, never);
  EXPECT_EQ(slots.depth, 2);
  expectApart(slots, makeUses(lives, 10, 20));
}

TEST(RingSlots, TakeOver) {
  // A sum to which each iteration adds.
  std::vector<SlotUse> uses = {{0, 0, 3, 13}, {0, 1, 13, 23}, {0, 2, 23, 33}};
  EXPECT_EQ(chooseSlots(1, uses, {10, 10}, [](size_t, size_t) { return true; }).depth, 1);
  EXPECT_EQ(chooseSlots(1, uses, {10, 10}, never).depth, 2);
}

TEST(RingSlots, AreApartInAnyNumberOfIterations) {
  std::mt19937 random(1);
  int64_t taken = 0, alive = 0;
  for (int repeat = 0; repeat < 100; ++repeat) {
    size_t length = 20 + random() % 80, values = 1 + random() % 12;
    std::vector<Life> lives(values);
    for (Life &life : lives)
      life = {random() % length, 1 + random() % (3 * length)};
    RingSlots slots = chooseSlots(values, makeUses(lives, length, 8), {3 * length, length}, never);
    std::vector<SlotUse> uses = makeUses(lives, length, 8 + 2 * slots.depth);
    expectApart(slots, uses);
    int64_t most = getMostAlive(uses);
    EXPECT_GE(slots.depth, most);
    taken += slots.depth;
    alive += most;
  }
  // Randomly tiled lives leave gaps.
  EXPECT_LE(static_cast<double>(taken), 1.15 * static_cast<double>(alive));
}

TEST(RingSlots, FindFree) {
  RingSlots slots{{0, 1}, 3};
  SlotUse uses[] = {{0, 0, 5, 9}, {1, 0, 5, 9}, {2, 0, 1, 5}};
  EXPECT_EQ(findFreeSlot(slots, uses, never), 2);
  slots.depth = 2;
  EXPECT_EQ(findFreeSlot(slots, uses, never), std::nullopt);
  uses[2].last = 4;
  EXPECT_EQ(findFreeSlot(slots, uses, never), 0);
}

} // namespace
