//===- ShardingTest.cpp ---------------------------------------------------===//

#include "run/Sharding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

using namespace moert;
using namespace moert::run;

namespace {

/// World 24: mp 2, ep 3 above it, dp 4 above both, and one group that is mp and ep at once.
const std::vector<Group> groups{{"mp", 2, 1}, {"ep", 3, 2}, {"dp", 4, 6}, {"fused", 6, 1}};

Value makeValue(std::vector<int64_t> local, std::vector<std::vector<int64_t>> layout, int32_t dtype) {
  Value value{"v", "output", dtype, {}, local, layout};
  for (size_t dim = 0; dim < local.size(); ++dim)
    value.shape.push_back(local[dim] * shardsOf(value, dim, groups));
  return value;
}

/// The oracle: where element `flat` of rank `rank`'s part lies in the whole.
int64_t wholeIndex(const Value &value, int64_t rank, int64_t flat) {
  int64_t index = 0, stride = 1;
  for (size_t dim = value.shape.size(); dim-- > 0;) {
    int64_t start = shardIndex(value, dim, groups, rank) * value.localShape[dim];
    index += (start + flat % value.localShape[dim]) * stride;
    flat /= value.localShape[dim];
    stride *= value.shape[dim];
  }
  return index;
}

} // namespace

TEST(Sharding, Members) {
  EXPECT_EQ(groups[1].memberOf(5), 2);
  for (const Group &group : groups)
    for (int64_t rank = 0; rank < 24; ++rank)
      EXPECT_EQ(group.rankOf(group.instanceOf(rank), group.memberOf(rank)), rank);
}

// The first group of a dimension is the outermost.
TEST(Sharding, OutermostFirst) {
  Value value = makeValue({1}, {{2, 0}}, MOERT_F32);
  EXPECT_EQ(shardIndex(value, 0, groups, 13), 5);
  value.layout = {{0, 2}};
  EXPECT_EQ(shardIndex(value, 0, groups, 13), 6);
}

TEST(Sharding, RoundTrip) {
  std::vector<std::pair<std::vector<int64_t>, std::vector<std::vector<int64_t>>>> cases{
      {{}, {}},
      {{3}, {{}}},
      {{3}, {{2, 1, 0}}},
      {{2, 3}, {{2}, {0}}},
      {{2, 3}, {{}, {3}}},
      {{2, 3}, {{1, 2}, {}}},
      {{2, 3, 2}, {{0}, {2}, {1}}},
      {{2, 1, 3, 2}, {{1}, {0}, {}, {2}}},
      {{2, 2, 3, 2}, {{}, {2, 3}, {}, {}}},
      {{0, 3}, {{2}, {}}},
  };
  for (const auto &[local, layout] : cases)
    for (int32_t dtype : {MOERT_F32, MOERT_F64}) {
      Value value = makeValue(local, layout, dtype);
      Tensor whole, back;
      ASSERT_TRUE(Tensor::allocate(value, whole).ok());
      ASSERT_TRUE(Tensor::allocate(value, back).ok());
      for (int64_t i = 0; i < whole.elements(); ++i)
        setElement(whole.as<char>(), dtype, i, static_cast<double>(i + 1));
      Assembler assembler(value, groups, back);
      for (int64_t rank = 0; rank < 24; ++rank) {
        std::vector<char> part(static_cast<size_t>(value.localBytes()));
        cutPart(whole, value, groups, rank, part.data());
        for (int64_t i = 0; i < value.localElements(); ++i)
          ASSERT_EQ(elementAt(part.data(), dtype, i), static_cast<double>(wholeIndex(value, rank, i) + 1));
        assembler.add(rank, part.data());
      }
      EXPECT_TRUE(assembler.complete());
      EXPECT_EQ(assembler.disagreement(), 0);
      EXPECT_EQ(memcmp(whole.as<char>(), back.as<char>(), static_cast<size_t>(whole.bytes())), 0);
    }
}

TEST(Sharding, ReplicasThatDiffer) {
  Value value = makeValue({2}, {{0}}, MOERT_F64);
  Tensor whole;
  ASSERT_TRUE(Tensor::allocate(value, whole).ok());
  Assembler assembler(value, groups, whole);
  double low[] = {3, 0}, high[] = {0, 4}, off[] = {3, 0.5}, nan[] = {NAN, 0};
  auto bytes = [](const double *values) { return reinterpret_cast<const char *>(values); };
  assembler.add(0, bytes(low));
  EXPECT_FALSE(assembler.complete());
  assembler.add(1, bytes(high));
  EXPECT_TRUE(assembler.complete());
  assembler.add(3, bytes(high));
  EXPECT_EQ(assembler.disagreement(), 0);
  assembler.add(4, bytes(off));
  EXPECT_DOUBLE_EQ(assembler.disagreement(), 0.5);
  assembler.add(6, bytes(nan));
  assembler.add(8, bytes(low));
  EXPECT_TRUE(std::isnan(assembler.disagreement()));
}
