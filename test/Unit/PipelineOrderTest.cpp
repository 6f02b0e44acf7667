//===- PipelineOrderTest.cpp - stages, and the order of their units -------===//
#include "moe/Dialect/Moe/Transforms/PipelineOrder.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::moe;

namespace {

SmallVector<size_t> cut(SmallVector<double> seconds, int64_t stages, SmallVector<double> receive = {}) {
  receive.resize(seconds.size(), 0);
  return cutIntoStages({std::move(seconds), std::move(receive)}, stages);
}

/// The slowest stage is as fast as it can be.
TEST(CutIntoStages, Balances) {
  EXPECT_EQ(cut({1, 1, 1, 3}, 2), (SmallVector<size_t>{0, 3}));
  EXPECT_EQ(cut({3, 1, 1, 1}, 2), (SmallVector<size_t>{0, 1}));
  EXPECT_EQ(cut({1, 1, 1, 1}, 4), (SmallVector<size_t>{0, 1, 2, 3}));
}

/// What a stage receives counts.
TEST(CutIntoStages, Receives) { EXPECT_EQ(cut({2, 2, 2, 2}, 2, {0, 0, 3, 0}), (SmallVector<size_t>{0, 1})); }

TEST(CutIntoStages, TooFewParts) { EXPECT_TRUE(cut({1, 1}, 3).empty()); }

/// Sums that differ by rounding alone lead to the same cuts.
TEST(CutIntoStages, IgnoresRounding) {
  SmallVector<double> exact(24, 0.1), rounded(24, 0.1);
  for (size_t i = 0; i < rounded.size(); i += 3)
    rounded[i] = 0.1 + (i % 2 ? 1e-17 : -1e-17);
  EXPECT_EQ(cut(exact, 5), cut(rounded, 5));
}

/// One device does forward and backward of one micro-batch after the other.
TEST(PipelineOrder, OneDevice) {
  SmallVector<PipelineUnit> order = getPipelineOrder(/*devices=*/1, /*stages=*/2, /*microBatches=*/2, true);
  SmallVector<PipelineUnit> expected = {{0, 0, false}, {0, 1, false}, {0, 1, true}, {0, 0, true},
                                        {1, 0, false}, {1, 1, false}, {1, 1, true}, {1, 0, true}};
  EXPECT_EQ(order, expected);
}

/// Of 1F1B: the first of two stages does two forwards before the first backward arrives.
TEST(PipelineOrder, TwoDevices) {
  SmallVector<PipelineUnit> first;
  for (const PipelineUnit &unit : getPipelineOrder(2, 2, 3, true))
    if (unit.stage == 0)
      first.push_back(unit);
  SmallVector<PipelineUnit> expected = {{0, 0, false}, {1, 0, false}, {0, 0, true},
                                        {2, 0, false}, {1, 0, true},  {2, 0, true}};
  EXPECT_EQ(first, expected);
}

} // namespace
