//===- StageCutTest.cpp - stages of about equal time ----------------------===//
#include "moe/Scheduling/StageCut.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::moe;

namespace {

SmallVector<size_t> cut(SmallVector<double> seconds, int64_t stages, SmallVector<double> receive = {}) {
  receive.resize(seconds.size(), 0);
  StageCutProblem problem{std::move(seconds), std::move(receive), stages};
  EXPECT_EQ(problem.check(), "");
  SmallVector<size_t> first = cutIntoStages(problem);
  EXPECT_EQ(problem.verify(first), "");
  return first;
}

/// The slowest stage is as fast as it can be.
TEST(StageCut, Balances) {
  EXPECT_EQ(cut({1, 1, 1, 3}, 2), (SmallVector<size_t>{0, 3}));
  EXPECT_EQ(cut({3, 1, 1, 1}, 2), (SmallVector<size_t>{0, 1}));
  EXPECT_EQ(cut({1, 1, 1, 1}, 4), (SmallVector<size_t>{0, 1, 2, 3}));
}

/// The other stages are as equal as possible if the slowest stage leaves a choice.
TEST(StageCut, EvensOut) {
  EXPECT_EQ(cut({1, 1, 1, 1, 1, 1, 4}, 3), (SmallVector<size_t>{0, 3, 6}));
  EXPECT_EQ(cut({4, 1, 1, 1, 1, 1, 1}, 3), (SmallVector<size_t>{0, 1, 4}));
}

/// The time to receive counts.
TEST(StageCut, Receives) { EXPECT_EQ(cut({2, 2, 2, 2}, 2, {0, 0, 3, 0}), (SmallVector<size_t>{0, 1})); }

TEST(StageCut, Mistakes) {
  StageCutProblem problem{{1, 1}, {0, 0}, 3};
  EXPECT_EQ(problem.check(), "expected from 1 to 2 stages but got 3");
  problem.stages = 2;
  EXPECT_EQ(problem.verify(ArrayRef<size_t>{0}), "expected 2 stages but got 1");
  EXPECT_EQ(problem.verify(ArrayRef<size_t>{0, 2}), "expected stages that begin with part 0 and at rising parts");
  EXPECT_EQ(problem.verify(ArrayRef<size_t>{0, 0}), "expected stages that begin with part 0 and at rising parts");
  problem.receive.pop_back();
  EXPECT_EQ(problem.check(), "expected receiving times of 2 parts but got 1");
}

/// Sums that differ by rounding alone lead to the same cuts.
TEST(StageCut, IgnoresRounding) {
  SmallVector<double> exact(24, 0.1), rounded(24, 0.1);
  for (size_t i = 0; i < rounded.size(); i += 3)
    rounded[i] = 0.1 + (i % 2 ? 1e-17 : -1e-17);
  EXPECT_EQ(cut(exact, 5), cut(rounded, 5));
}

} // namespace
