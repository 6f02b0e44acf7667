//===- CollectivesTest.cpp - every collective against a slow oracle -------===//
//
// Each test runs a whole world through the host backend. The oracles say, element by element, what moert.h says.
//
//===----------------------------------------------------------------------===//

#include "host/HostBackend.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

using namespace moert;
using testing::HasSubstr;

namespace {

using Dims = std::vector<int64_t>;

int64_t product(const Dims &dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

/// One operand of every rank, in double; stored in the dtype under test.
struct Operand {
  Dims dims;
  std::vector<std::vector<double>> ranks;
};

class World {
public:
  World(int64_t ranks, Group group, bool verify = false) : ranks(ranks), groups{group} {
    program.streams = {"comm"};
    program.ops.emplace_back();
    program.ops[0].label = "layer7";
    backend = host::createHostBackend(program, groups, ranks, {2, verify});
  }

  /// Values of `operands` are stored in `dtype` ('i32' where named in `integers`), run through one call, and read back.
  Status run(Kind kind, int32_t dtype, std::vector<Operand *> operands, std::vector<int64_t> ints,
             std::vector<size_t> integers = {}, std::vector<size_t> aliasOf = {}) {
    std::vector<std::vector<std::vector<char>>> memory(operands.size());
    auto dtypeOf = [&](size_t k) {
      return std::find(integers.begin(), integers.end(), k) != integers.end() ? MOERT_I32 : dtype;
    };
    for (size_t k = 0; k < operands.size(); ++k)
      for (int64_t rank = 0; rank < ranks && operands[k]; ++rank)
        memory[k].push_back(stored(operands[k]->ranks[static_cast<size_t>(rank)], dtypeOf(k)));
    auto home = [&](size_t k) { return k < aliasOf.size() ? aliasOf[k] : k; };
    Status status = backend.device->runStep(
        [&](int64_t rank) {
          Call call;
          call.kind = kind;
          call.group = 0;
          call.countsView = kind == Kind::AllReduce ? 1 : -1;
          std::copy(ints.begin(), ints.end(), call.ints.begin());
          for (size_t k = 0; k < operands.size(); ++k) {
            View &view = call.views[static_cast<size_t>(call.viewCount++)];
            if (!operands[k])
              continue;
            view.dtype = dtypeOf(k);
            view.rank = static_cast<int64_t>(operands[k]->dims.size());
            std::copy(operands[k]->dims.begin(), operands[k]->dims.end(), view.dims.begin());
            view.data = memory[home(k)][static_cast<size_t>(rank)].data();
          }
          return backend.communicator->issue(rank, 0, call);
        },
        60);
    for (size_t k = 0; k < operands.size(); ++k)
      for (int64_t rank = 0; rank < ranks && operands[k]; ++rank)
        load(memory[home(k)][static_cast<size_t>(rank)], dtypeOf(k), operands[k]->ranks[static_cast<size_t>(rank)]);
    return status;
  }

  /// Small integers, so that sums are exact in every dtype.
  Operand random(const Dims &dims) {
    Operand operand{dims, {}};
    for (int64_t rank = 0; rank < ranks; ++rank) {
      operand.ranks.emplace_back(static_cast<size_t>(product(dims)));
      for (double &value : operand.ranks.back())
        value = static_cast<double>(static_cast<int64_t>(generator() % 15) - 7);
    }
    return operand;
  }

  /// Filled with what must not be left over.
  Operand garbage(const Dims &dims) {
    return {dims, std::vector<std::vector<double>>(static_cast<size_t>(ranks),
                                                   std::vector<double>(static_cast<size_t>(product(dims)), 99))};
  }

  /// The rank of member `member` of the group instance that `rank` belongs to.
  size_t peer(int64_t rank, int64_t member) const {
    const Group &group = groups[0];
    return static_cast<size_t>(rank + (member - group.memberOf(rank)) * group.stride);
  }
  int64_t me(int64_t rank) const { return groups[0].memberOf(rank); }
  int64_t size() const { return groups[0].size; }

  int64_t ranks;
  std::vector<Group> groups;
  std::mt19937 generator{7};

private:
  static std::vector<char> stored(const std::vector<double> &values, int32_t dtype) {
    std::vector<char> bytes(values.size() * dtypeSize(dtype) + 1);
    for (size_t i = 0; i < values.size(); ++i) {
      auto narrow = static_cast<float>(values[i]);
      auto integer = static_cast<int32_t>(dtype == MOERT_I32 ? values[i] : 0);
      const char *from = dtype == MOERT_F64   ? reinterpret_cast<const char *>(&values[i])
                         : dtype == MOERT_I32 ? reinterpret_cast<const char *>(&integer)
                                              : reinterpret_cast<const char *>(&narrow);
      // bf16 is the upper half of f32; the values of these tests need no rounding.
      if (dtype == MOERT_BF16)
        from += 2;
      std::copy(from, from + dtypeSize(dtype), bytes.data() + i * dtypeSize(dtype));
    }
    return bytes;
  }

  static void load(const std::vector<char> &bytes, int32_t dtype, std::vector<double> &values) {
    for (size_t i = 0; i < values.size(); ++i) {
      char buffer[8] = {};
      std::copy(bytes.data() + i * dtypeSize(dtype), bytes.data() + (i + 1) * dtypeSize(dtype),
                buffer + (dtype == MOERT_BF16 ? 2 : 0));
      float narrow;
      int32_t integer;
      double wide;
      memcpy(&narrow, buffer, 4), memcpy(&integer, buffer, 4), memcpy(&wide, buffer, 8);
      values[i] = dtype == MOERT_F64 ? wide : dtype == MOERT_I32 ? integer : narrow;
    }
  }

  Program program;
  Backend backend;
};

Dims indexOf(const Dims &dims, int64_t flat) {
  Dims index(dims.size());
  for (size_t d = dims.size(); d-- > 0; flat /= dims[d])
    index[d] = flat % dims[d];
  return index;
}

double at(const std::vector<double> &values, const Dims &dims, const Dims &index) {
  int64_t flat = 0;
  for (size_t d = 0; d < dims.size(); ++d)
    flat = flat * dims[d] + index[d];
  return values[static_cast<size_t>(flat)];
}

/// Worlds and groups inside them.
struct Shape {
  int64_t ranks, size, stride;
};

class CollectivesTest : public testing::TestWithParam<std::tuple<Shape, int32_t>> {
protected:
  Shape shape = std::get<0>(GetParam());
  int32_t dtype = std::get<1>(GetParam());
  World world{shape.ranks, {"g", shape.size, shape.stride}};
};

INSTANTIATE_TEST_SUITE_P(Groups, CollectivesTest,
                         testing::Combine(testing::Values(Shape{1, 1, 1}, Shape{2, 2, 1}, Shape{8, 2, 4},
                                                          Shape{8, 4, 2}, Shape{12, 3, 2}, Shape{64, 8, 4}),
                                          testing::Values(MOERT_F32, MOERT_F64, MOERT_I32, MOERT_BF16)));

} // namespace

TEST_P(CollectivesTest, AllGather) {
  for (size_t dim = 0; dim < 3; ++dim) {
    Dims small{2, 3, 4}, large = small;
    large[dim] *= shape.size;
    Operand in = world.random(small), out = world.garbage(large);
    ASSERT_TRUE(world.run(Kind::AllGather, dtype, {&in, &out}, {static_cast<int64_t>(dim)}).ok());
    for (int64_t rank = 0; rank < shape.ranks; ++rank)
      for (int64_t flat = 0; flat < product(large); ++flat) {
        Dims index = indexOf(large, flat);
        int64_t member = index[dim] / small[dim];
        index[dim] %= small[dim];
        ASSERT_EQ(out.ranks[static_cast<size_t>(rank)][static_cast<size_t>(flat)],
                  at(in.ranks[world.peer(rank, member)], small, index));
      }
  }
}

TEST_P(CollectivesTest, ReduceScatter) {
  for (size_t dim = 0; dim < 3; ++dim) {
    Dims small{2, 3, 4}, large = small;
    large[dim] *= shape.size;
    Operand in = world.random(large), out = world.garbage(small);
    ASSERT_TRUE(world.run(Kind::ReduceScatter, dtype, {&in, &out}, {static_cast<int64_t>(dim)}).ok());
    for (int64_t rank = 0; rank < shape.ranks; ++rank)
      for (int64_t flat = 0; flat < product(small); ++flat) {
        Dims index = indexOf(small, flat);
        index[dim] += world.me(rank) * small[dim];
        double sum = 0;
        for (int64_t member = 0; member < shape.size; ++member)
          sum += at(in.ranks[world.peer(rank, member)], large, index);
        ASSERT_EQ(out.ranks[static_cast<size_t>(rank)][static_cast<size_t>(flat)], sum);
      }
  }
}

// Out of place and in place, over all elements or the used rows.
TEST_P(CollectivesTest, AllReduce) {
  for (bool inPlace : {false, true})
    for (int64_t used : {-1, 0, 3, 5}) {
      Dims dims{5, 7};
      Operand in = world.random(dims), out = world.garbage(dims), counts = world.garbage({1, 2});
      for (auto &values : counts.ranks)
        values = {0.0 + static_cast<double>(used > 2 ? 2 : 0), static_cast<double>(used > 2 ? used - 2 : 0)};
      Operand before = in;
      std::vector<size_t> alias;
      if (inPlace)
        alias = {0, 1, 0};
      ASSERT_TRUE(world.run(Kind::AllReduce, dtype, {&in, used < 0 ? nullptr : &counts, &out}, {}, {1}, alias).ok());
      for (int64_t rank = 0; rank < shape.ranks; ++rank)
        for (size_t flat = 0; flat < 35; ++flat) {
          double sum = 0;
          for (int64_t member = 0; member < shape.size; ++member)
            sum += before.ranks[world.peer(rank, member)][flat];
          bool touched = used < 0 || static_cast<int64_t>(flat) < used * 7;
          double untouched = inPlace ? before.ranks[static_cast<size_t>(rank)][flat] : 99;
          ASSERT_EQ(out.ranks[static_cast<size_t>(rank)][flat], touched ? sum : untouched);
        }
    }
}

TEST_P(CollectivesTest, AllToAll) {
  for (size_t split = 0; split < 3; ++split)
    for (size_t concat = 0; concat < 3; ++concat) {
      Dims from{2, 3, 4};
      from[split] *= shape.size;
      Dims part = from;
      part[split] /= shape.size;
      Dims to = part;
      to[concat] *= shape.size;
      Operand in = world.random(from), out = world.garbage(to);
      ASSERT_TRUE(
          world.run(Kind::AllToAll, dtype, {&in, &out}, {static_cast<int64_t>(split), static_cast<int64_t>(concat)})
              .ok());
      for (int64_t rank = 0; rank < shape.ranks; ++rank)
        for (int64_t flat = 0; flat < product(to); ++flat) {
          Dims index = indexOf(to, flat);
          int64_t source = index[concat] / part[concat];
          index[concat] %= part[concat];
          index[split] += world.me(rank) * part[split];
          ASSERT_EQ(out.ranks[static_cast<size_t>(rank)][static_cast<size_t>(flat)],
                    at(in.ranks[world.peer(rank, source)], from, index));
        }
    }
}

TEST_P(CollectivesTest, BroadcastAndReduce) {
  for (int64_t root = 0; root < shape.size; ++root)
    for (bool inPlace : {false, true}) {
      std::vector<size_t> alias;
      if (inPlace)
        alias = {0, 0};
      Operand in = world.random({5, 3}), out = world.garbage({5, 3}), before = in;
      if (!inPlace) {
        ASSERT_TRUE(world.run(Kind::Broadcast, dtype, {&in, &out}, {root}).ok());
      }
      for (int64_t rank = 0; rank < shape.ranks && !inPlace; ++rank)
        ASSERT_EQ(out.ranks[static_cast<size_t>(rank)], before.ranks[world.peer(rank, root)]);
      ASSERT_TRUE(world.run(Kind::Reduce, dtype, {&in, &out}, {root}, {}, alias).ok());
      for (int64_t rank = 0; rank < shape.ranks; ++rank)
        for (size_t flat = 0; flat < 15; ++flat) {
          double sum = 0;
          for (int64_t member = 0; member < shape.size && world.me(rank) == root; ++member)
            sum += before.ranks[world.peer(rank, member)][flat];
          ASSERT_EQ(out.ranks[static_cast<size_t>(rank)][flat], sum);
        }
    }
}

// There and back with random counts, empty experts and full blocks among them.
TEST_P(CollectivesTest, AllToAllV) {
  const int64_t own = 3, columns = 2, blockRows = 9;
  const int64_t experts = own * shape.size;
  for (int64_t blocks : {1, 2}) {
    int64_t room = shape.size * blocks * blockRows;
    Operand blockCounts = world.garbage({blocks, experts});
    Operand expertCounts = world.garbage({shape.size * blocks, own});
    for (auto &counts : blockCounts.ranks) {
      std::fill(counts.begin(), counts.end(), 0);
      for (int64_t b = 0; b < blocks; ++b)
        for (int64_t row = static_cast<int64_t>(world.generator() % 3); row < blockRows; ++row)
          ++counts[static_cast<size_t>(b * experts + static_cast<int64_t>(world.generator() % 97) % experts)];
    }
    ASSERT_TRUE(world.run(Kind::AllToAll, MOERT_I32, {&blockCounts, &expertCounts}, {1, 0}).ok());

    Operand rows = world.random({blocks * blockRows, columns}), packed = world.garbage({room, columns});
    // What lies behind the used rows of a block never travels, and comes back as zero.
    std::vector<std::vector<double>> expected = rows.ranks;
    std::vector<size_t> integers{1, 2};
    ASSERT_TRUE(world.run(Kind::AllToAllV, dtype, {&rows, &blockCounts, &expertCounts, &packed}, {0}, integers).ok());

    // (rank, block, expert) -> where its rows begin.
    auto begin = [&](int64_t rank, int64_t block, int64_t expert) {
      double row = static_cast<double>(block * blockRows);
      for (int64_t e = 0; e < expert; ++e)
        row += blockCounts.ranks[static_cast<size_t>(rank)][static_cast<size_t>(block * experts + e)];
      return static_cast<int64_t>(row);
    };
    for (int64_t rank = 0; rank < shape.ranks; ++rank) {
      std::vector<double> want;
      for (int64_t e = 0; e < own; ++e)
        for (int64_t i = 0; i < shape.size; ++i)
          for (int64_t b = 0; b < blocks; ++b) {
            auto source = static_cast<int64_t>(world.peer(rank, i));
            int64_t expert = world.me(rank) * own + e;
            for (int64_t k = begin(source, b, expert) * columns; k < begin(source, b, expert + 1) * columns; ++k)
              want.push_back(rows.ranks[static_cast<size_t>(source)][static_cast<size_t>(k)]);
          }
      want.resize(static_cast<size_t>(room * columns), 99);
      ASSERT_EQ(packed.ranks[static_cast<size_t>(rank)], want);
      for (int64_t b = 0; b < blocks; ++b)
        for (int64_t k = begin(rank, b, experts) * columns; k < (b + 1) * blockRows * columns; ++k)
          expected[static_cast<size_t>(rank)][static_cast<size_t>(k)] = 0;
    }
    Operand back = world.garbage({blocks * blockRows, columns});
    ASSERT_TRUE(world.run(Kind::AllToAllV, dtype, {&packed, &blockCounts, &expertCounts, &back}, {1}, integers).ok());
    EXPECT_EQ(back.ranks, expected);
  }
}

// Rounding differs with the order of a sum: all members must use the same.
TEST(Collectives, AllReduceIsBitwiseEqual) {
  World world(8, {"g", 8, 1});
  Operand in = world.random({1000}), out = world.garbage({1000});
  for (auto &values : in.ranks)
    for (double &value : values)
      value = std::sin(value * 1.7 + static_cast<double>(world.generator() % 100));
  ASSERT_TRUE(world.run(Kind::AllReduce, MOERT_F32, {&in, nullptr, &out}, {}).ok());
  for (const auto &values : out.ranks)
    EXPECT_EQ(values, out.ranks[0]);
}

TEST(Collectives, Overflow) {
  World world(2, {"g", 2, 1});
  Operand rows = world.random({4, 1}), blockCounts{{1, 2}, {{4, 0}, {3, 0}}};
  Operand expertCounts{{2, 1}, {{4, 3}, {0, 0}}}, out = world.garbage({6, 1});
  Status status = world.run(Kind::AllToAllV, MOERT_F32, {&rows, &blockCounts, &expertCounts, &out}, {0}, {1, 2});
  EXPECT_EQ(status.code, MOERT_ERROR_OVERFLOW);
  EXPECT_THAT(status.message, HasSubstr("'layer7'"));
  EXPECT_THAT(status.message, HasSubstr("7 rows arrived at member 0, whose buffer has room for 6"));
}

// Counts that would lead outside the buffers are refused.
TEST(Collectives, BadCounts) {
  for (auto [first, second, text] :
       {std::tuple{5.0, 0.0, "adds up to 5 rows, expected at most 4"}, std::tuple{-1.0, 0.0, "block_counts holds -1"},
        std::tuple{1.0, 0.0, "disagree"}}) {
    World world(2, {"g", 2, 1});
    Operand rows = world.random({4, 1}), blockCounts{{1, 2}, {{first, second}, {1, 1}}};
    Operand expertCounts{{2, 1}, {{2, 1}, {0, 1}}}, out = world.garbage({6, 1});
    Status status = world.run(Kind::AllToAllV, MOERT_F32, {&rows, &blockCounts, &expertCounts, &out}, {0}, {1, 2});
    EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(status.message, HasSubstr(text));
  }
}

TEST(Collectives, ShapesAreChecked) {
  World world(4, {"g", 4, 1});
  Operand a = world.random({2, 3}), b = world.garbage({8, 4});
  EXPECT_THAT(world.run(Kind::AllGather, MOERT_F32, {&a, &b}, {0}).message,
              HasSubstr("expected an output [8, 3] f32 but got [8, 4] f32"));
  EXPECT_THAT(world.run(Kind::AllGather, MOERT_F32, {&a, &b}, {2}).message, HasSubstr("expected dim below 2"));
  EXPECT_THAT(world.run(Kind::AllToAll, MOERT_F32, {&a, &b}, {0, 1}).message, HasSubstr("multiple of the group's"));
  EXPECT_THAT(world.run(Kind::Broadcast, MOERT_F32, {&a, &a}, {4}).message, HasSubstr("expected a root below"));
}

TEST(Collectives, AssumeReplicated) {
  for (bool verify : {false, true})
    for (double offset : {0.0, 1e-7, 1e-3}) {
      World world(4, {"tp", 2, 2}, verify);
      Operand in = world.random({6});
      for (auto &values : in.ranks)
        values = {1, 2, 3, 4, 5, 6};
      in.ranks[3][2] += offset;
      Status status = world.run(Kind::AssumeReplicated, MOERT_F32, {&in}, {});
      if (!verify || offset < 1e-5) {
        EXPECT_TRUE(status.ok()) << status.message;
        continue;
      }
      EXPECT_EQ(status.code, MOERT_ERROR_NOT_REPLICATED);
      EXPECT_THAT(status.message, HasSubstr("op 0 assume_replicated 'layer7'"));
      EXPECT_THAT(status.message, HasSubstr("group 'tp' (ranks 1, 3), but ranks 1 and 3 differ"));
    }
}
