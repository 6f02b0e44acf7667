//===- ShardingTest.cpp ---------------------------------------------------===//

#include "run/checkpoint/Sharding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

using namespace moert;
using namespace moert::run;

namespace {

/// World 24: mp 2, ep 3 above it, dp 4 above both, and a group that is mp and ep together.
const std::vector<Group> kGroups{{"mp", 2, 1}, {"ep", 3, 2}, {"dp", 4, 6}, {"fused", 6, 1}};

Value makeValue(std::vector<int64_t> local, std::vector<std::vector<int64_t>> layout, int32_t dtype) {
  Value value{"v", "output", dtype, {}, local, layout};
  for (size_t dim = 0; dim < local.size(); ++dim)
    value.shape.push_back(local[dim] * shardsOf(value, dim, kGroups));
  return value;
}

/// Oracle: place in the whole of element `flat` of the part of rank `rank`.
int64_t wholeIndex(const Value &value, int64_t rank, int64_t flat) {
  int64_t index = 0, stride = 1;
  for (size_t dim = value.shape.size(); dim-- > 0;) {
    int64_t start = shardIndex(value, dim, kGroups, rank) * value.localShape[dim];
    index += (start + flat % value.localShape[dim]) * stride;
    flat /= value.localShape[dim];
    stride *= value.shape[dim];
  }
  return index;
}

} // namespace

TEST(Sharding, Members) {
  EXPECT_EQ(kGroups[1].memberOf(5), 2);
  for (const Group &group : kGroups)
    for (int64_t rank = 0; rank < 24; ++rank)
      EXPECT_EQ(group.rankOf(group.instanceOf(rank), group.memberOf(rank)), rank);
}

// The first group of a dimension is the outermost.
TEST(Sharding, OutermostFirst) {
  Value value = makeValue({1}, {{2, 0}}, MOERT_F32);
  EXPECT_EQ(shardIndex(value, 0, kGroups, 13), 5);
  value.layout = {{0, 2}};
  EXPECT_EQ(shardIndex(value, 0, kGroups, 13), 6);
}

// World 8: dp 2, cp 2, mp 2. There are two shards, each of two sequences of 8 rows. Rank 0 has rows 0, 1, 6 and 7 of
// the first two.
TEST(Sharding, CutSequences) {
  const std::vector<Group> kGroups{{"mp", 2, 1}, {"cp", 2, 2}, {"dp", 2, 4}};
  for (int64_t chunks : {2, 4}) {
    Value value{"v", "output", MOERT_I32, {32, 2}, {8, 1}, {{2, 1}, {0}}};
    value.cutSequence = 8;
    value.cutChunks = chunks;
    Tensor whole, again;
    ASSERT_TRUE(Tensor::allocate(value, whole).ok());
    ASSERT_TRUE(Tensor::allocate(value, again).ok());
    std::iota(whole.as<int32_t>(), whole.as<int32_t>() + 64, 0);
    Assembler assembler(value, kGroups, again);
    for (int64_t rank = 0; rank < 8; ++rank) {
      int32_t part[8];
      cutPart(whole, value, kGroups, rank, reinterpret_cast<char *>(part));
      const int64_t member = rank / 2 % 2;
      const std::vector<int64_t> own =
          chunks == 2 ? std::vector<int64_t>{0, 1, 2, 3} : std::vector<int64_t>{0, 1, 6, 7};
      for (int64_t i = 0; i < 8; ++i) {
        const int64_t row = chunks == 2 ? member * 4 + own[i % 4] : member ? 2 + i % 4 : own[i % 4];
        EXPECT_EQ(part[i], 2 * (rank / 4 * 16 + i / 4 * 8 + row) + rank % 2) << rank << " " << i;
      }
      assembler.add(rank, reinterpret_cast<const char *>(part));
    }
    EXPECT_TRUE(assembler.complete());
    for (int64_t i = 0; i < 64; ++i)
      EXPECT_EQ(again.as<int32_t>()[i], i);
  }
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
      Assembler assembler(value, kGroups, back);
      for (int64_t rank = 0; rank < 24; ++rank) {
        std::vector<char> part(static_cast<size_t>(value.localBytes()));
        cutPart(whole, value, kGroups, rank, part.data());
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
  Assembler assembler(value, kGroups, whole);
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
