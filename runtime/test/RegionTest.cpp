//===- RegionTest.cpp - elements of a tensor in a block of memory ---------===//

#include "run/checkpoint/Region.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

using namespace moert::run;

namespace {

/// Oracle: the index in the tensor of each element of a region, one after the other.
std::vector<std::vector<int64_t>> indicesOf(const Region &region) {
  std::vector<std::vector<int64_t>> indices;
  for (int64_t flat = region.begin; flat < region.begin + region.count; ++flat) {
    std::vector<int64_t> index(region.offset.size());
    int64_t rest = flat;
    for (size_t dim = index.size(); dim-- > 0; rest /= region.lengths[dim])
      index[dim] = region.offset[dim] + rest % region.lengths[dim];
    indices.push_back(index);
  }
  return indices;
}

Region randomRegion(const std::vector<int64_t> &shape, std::mt19937 &random) {
  auto below = [&](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
  std::vector<int64_t> offset, lengths;
  for (int64_t size : shape) {
    bool isWhole = below(2) == 0;
    offset.push_back(isWhole ? 0 : below(size));
    lengths.push_back(isWhole ? size : below(size - offset.back() + 1));
  }
  Region region = Region::box(offset, lengths);
  if (region.count == 0 || below(2) == 0)
    return region;
  int64_t first = below(region.count);
  return region.part(first, below(region.count - first + 1));
}

} // namespace

// Runs agree with an element-wise comparison: each element occurs once, in the least number of runs.
TEST(Region, CommonRuns) {
  std::mt19937 random(1);
  size_t common = 0;
  for (const std::vector<int64_t> &shape :
       {std::vector<int64_t>{}, {7}, {1}, {4, 5}, {3, 1, 4}, {2, 3, 4, 3}, {5, 2, 2}})
    for (int round = 0; round < 2000; ++round) {
      Region a = randomRegion(shape, random), b = randomRegion(shape, random);
      ASSERT_TRUE(a.liesIn(shape) && b.liesIn(shape));
      std::map<std::vector<int64_t>, int64_t> inA;
      for (const std::vector<int64_t> &index : indicesOf(a))
        inA.emplace(index, static_cast<int64_t>(inA.size()));
      std::vector<std::pair<int64_t, int64_t>> want, got;
      const auto inB = indicesOf(b);
      for (size_t i = 0; i < inB.size(); ++i)
        if (auto it = inA.find(inB[i]); it != inA.end())
          want.emplace_back(it->second, static_cast<int64_t>(i));
      forEachCommonRun(a, b, [&](int64_t inFirst, int64_t inSecond, int64_t count) {
        ASSERT_GT(count, 0);
        for (int64_t i = 0; i < count; ++i)
          got.emplace_back(inFirst + i, inSecond + i);
      });
      ASSERT_EQ(got, want) << a.text() << " and " << b.text();
      common += want.size();
    }
  EXPECT_GT(common, 10000u);
}

TEST(Region, FewRuns) {
  auto runs = [](const Region &a, const Region &b) {
    int count = 0;
    forEachCommonRun(a, b, [&](int64_t, int64_t, int64_t) { ++count; });
    return count;
  };
  Region whole = Region::whole({100, 8, 16});
  EXPECT_EQ(runs(whole, whole), 1);
  EXPECT_EQ(runs(whole, Region::box({50, 0, 0}, {50, 8, 16})), 1);
  EXPECT_EQ(runs(whole, Region::box({50, 2, 0}, {50, 4, 16})), 50);
  EXPECT_EQ(runs(whole, Region::box({0, 0, 8}, {1, 8, 8})), 8);
  // Rows outside a range are not visited.
  EXPECT_EQ(runs(Region::box({50, 2, 0}, {50, 4, 16}).part(64 * 10, 128), whole), 2);
}

TEST(Region, Bounds) {
  const std::vector<int64_t> shape{4, 6};
  EXPECT_TRUE(Region::whole(shape).liesIn(shape));
  EXPECT_TRUE(Region::box({4, 0}, {0, 6}).liesIn(shape));
  for (const Region &region :
       {Region{{0}, {4}, 0, 4}, Region{{0, 0}, {5, 6}, 0, 30}, Region{{-1, 0}, {1, 6}, 0, 6},
        Region{{3, 0}, {2, 6}, 0, 12}, Region{{0, 0}, {4, 6}, 0, 25}, Region{{0, 0}, {4, 6}, 20, 5},
        Region{{0, 0}, {4, 6}, -1, 5}, Region{{0, 0}, {4, -6}, 0, 0}, Region{{INT64_MAX, 0}, {1, 6}, 0, 6},
        Region{{0, 0}, {4, 6}, INT64_MAX, 1}})
    EXPECT_FALSE(region.liesIn(shape)) << region.text();
  EXPECT_EQ(Region::whole(shape).text(), "[0:4, 0:6]");
  EXPECT_EQ(Region::whole({}).text(), "[]");
  EXPECT_EQ(Region::box({1, 0}, {2, 6}).part(3, 4).text(), "[1:3, 0:6].flat[3:7]");
}
