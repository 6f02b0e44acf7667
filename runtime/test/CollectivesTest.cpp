//===- CollectivesTest.cpp - every collective against a slow oracle -------===//
//
// Each test runs a whole world through the host backend. The oracles compute what moert.h defines, element by element.
//
//===----------------------------------------------------------------------===//

#include "CollectivesTest.h"

using namespace moert;
using namespace moert::test;
using testing::HasSubstr;

namespace {

/// Skips all tests if the backend is missing, as on a machine that lacks its driver.
class NeedsBackend : public testing::Environment {
  void SetUp() override {
    const TestWorld world(1, {"g", 1, 1});
    if (!world.created.ok())
      FAIL() << "backend '" << testBackend() << "': " << world.created.message;
  }
};
[[maybe_unused]] const auto *const needsBackend = testing::AddGlobalTestEnvironment(new NeedsBackend);

/// Oracle of an all_to_all: the elements that `rank` gets by the definition in moert.h.
struct Exchange {
  size_t split, concat;
  int64_t copies = 1, phase = 0, phases = 1;

  std::vector<int64_t> ints() const {
    return {static_cast<int64_t>(split), static_cast<int64_t>(concat), copies, phase, phases};
  }
  Dims part(const TestWorld &world, Dims in) const {
    in[split] = in[split] * copies / world.size();
    return in;
  }
  Dims result(const TestWorld &world, const Dims &in) const {
    Dims dims = part(world, in);
    dims[concat] *= world.size() / phases;
    return dims;
  }
  std::vector<double> of(const TestWorld &world, const Operand &in, int64_t rank) const {
    Dims one = part(world, in.dims), all = result(world, in.dims);
    int64_t width = world.size() / phases, block = world.me(rank) / width;
    std::vector<double> values;
    for (int64_t flat = 0; flat < product(all); ++flat) {
      Dims index = indexOf(all, flat);
      int64_t source = (block + phase) % phases * width + index[concat] / one[concat];
      index[concat] %= one[concat];
      index[split] += world.me(rank) / copies * one[split];
      values.push_back(at(in.ranks[world.peer(rank, source)], in.dims, index));
    }
    return values;
  }
};

std::vector<int64_t> divisors(int64_t of) {
  std::vector<int64_t> result;
  for (int64_t d = 1; d <= of; ++d)
    if (of % d == 0)
      result.push_back(d);
  return result;
}

/// Number of elements that `member` sums for all, of `count`.
int64_t segmentOf(int64_t count, int64_t member, int64_t size) {
  return count * (member + 1) / size - count * member / size;
}

/// Exchanges that only move elements, of which only the size matters.
class MovingCollectivesTest : public CollectivesTest {};

constexpr Shape kShapes[] = {{1, 1, 1}, {2, 2, 1}, {4, 2, 2}, {4, 4, 1}, {8, 2, 4}, {8, 4, 2}, {12, 3, 2}, {32, 8, 2}};
INSTANTIATE_TEST_SUITE_P(Groups, CollectivesTest,
                         testing::Combine(testing::ValuesIn(kShapes),
                                          testing::Values(MOERT_F32, MOERT_F64, MOERT_I32, MOERT_BF16, MOERT_F16)));
INSTANTIATE_TEST_SUITE_P(Groups, MovingCollectivesTest,
                         testing::Combine(testing::ValuesIn(kShapes),
                                          testing::Values(MOERT_F32, MOERT_F64, MOERT_BF16)));

} // namespace

// f16 holds 2048 + 2 but not 2048 + 1: sums are made in f32 and rounded once.
TEST(Sums, F16) {
  const uint16_t a[] = {0x6800, 0xbc00}, one[] = {0x3c00, 0x3c00};
  uint16_t out[2];
  const void *sources[] = {a, one, one};
  ASSERT_TRUE(host::sumInOrder(sources, out, 2, MOERT_F16).ok());
  EXPECT_EQ(elementAt(out, MOERT_F16, 0), 2050);
  EXPECT_EQ(elementAt(out, MOERT_F16, 1), 1);
}

TEST_P(CollectivesTest, AllGather) {
  for (size_t dim = 0; dim < 3; ++dim) {
    Dims small{2, 3, 4}, large = small;
    large[dim] *= shape.size;
    Operand in = world.random(small), out = world.garbage(large);
    ASSERT_TRUE(world.run(Kind::AllGather, dtype, {&in, &out}, {static_cast<int64_t>(dim)}).ok());
    for (int64_t rank = 0; rank < shape.ranks; ++rank)
      ASSERT_EQ(world.received(rank), (shape.size - 1) * product(small) * width);
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

// Even members send to the next one. Only the receiver counts bytes.
TEST_P(CollectivesTest, SendAndReceive) {
  if (testBackend() == "callers")
    GTEST_SKIP() << "a caller's communicator has no messages between two ranks";
  if (shape.size % 2 != 0)
    return;
  Dims dims{2, 3, 4};
  Operand value = world.random(dims), before = value;
  Status status = world.runEach(dtype, value, [&](int64_t rank, Call &call) {
    call.kind = world.me(rank) % 2 ? Kind::Receive : Kind::Send;
    call.ints[0] = world.me(rank) ^ 1;
  });
  ASSERT_TRUE(status.ok()) << status.message;
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    bool receives = world.me(rank) % 2;
    EXPECT_EQ(world.received(rank), receives ? product(dims) * width : 0);
    size_t from = receives ? world.peer(rank, world.me(rank) - 1) : static_cast<size_t>(rank);
    EXPECT_EQ(value.ranks[static_cast<size_t>(rank)], before.ranks[from]);
  }
}

TEST_P(CollectivesTest, ReduceScatter) {
  for (size_t dim = 0; dim < 3; ++dim) {
    Dims small{2, 3, 4}, large = small;
    large[dim] *= shape.size;
    Operand in = world.random(large), out = world.garbage(small);
    ASSERT_TRUE(world.run(Kind::ReduceScatter, dtype, {&in, &out}, {static_cast<int64_t>(dim)}).ok());
    for (int64_t rank = 0; rank < shape.ranks; ++rank)
      ASSERT_EQ(world.received(rank), (shape.size - 1) * product(small) * width);
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

// Covers sums in place and not, over all elements or the used rows.
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
      // A member gets its own segment from each other member, then their segments: 2 (n-1)/n of all if n divides it.
      int64_t count = used < 0 ? 35 : used * 7;
      for (int64_t rank = 0; rank < shape.ranks; ++rank) {
        int64_t own = segmentOf(count, world.me(rank), shape.size);
        ASSERT_EQ(world.received(rank), ((shape.size - 1) * own + count - own) * width);
      }
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
      Exchange exchange{split, concat};
      Operand in = world.random(from), out = world.garbage(exchange.result(world, from));
      ASSERT_TRUE(world.run(Kind::AllToAll, dtype, {&in, &out}, exchange.ints()).ok());
      for (int64_t rank = 0; rank < shape.ranks; ++rank) {
        ASSERT_EQ(out.ranks[static_cast<size_t>(rank)], exchange.of(world, in, rank));
        ASSERT_EQ(world.received(rank), (shape.size - 1) * 24 * width);
      }
    }
}

// Members that hold the same experts are sent the same part of one buffer. Each phase moves its own rows only, and
// counts only bytes from other members.
TEST_P(MovingCollectivesTest, AllToAllCopiesAndPhases) {
  for (auto [split, concat] : {std::pair<size_t, size_t>{0, 0}, {1, 0}, {0, 2}, {2, 1}})
    for (int64_t copies : divisors(shape.size))
      for (int64_t phases : divisors(shape.size)) {
        Dims from{2, 1, 3};
        from[split] *= shape.size / copies;
        Operand in = world.random(from);
        for (int64_t phase = 0; phase < phases; ++phase) {
          Exchange exchange{split, concat, copies, phase, phases};
          Operand out = world.garbage(exchange.result(world, from));
          ASSERT_TRUE(world.run(Kind::AllToAll, dtype, {&in, &out}, exchange.ints()).ok());
          for (int64_t rank = 0; rank < shape.ranks; ++rank) {
            ASSERT_EQ(out.ranks[static_cast<size_t>(rank)], exchange.of(world, in, rank));
            ASSERT_EQ(world.received(rank), (shape.size / phases - (phase == 0)) * 6 * width);
          }
        }
      }
}

// All phases together are the whole exchange: the block that comes in phase p lies at its members' place.
TEST_P(MovingCollectivesTest, PhasesMakeTheWhole) {
  for (int64_t copies : divisors(shape.size))
    for (int64_t phases : divisors(shape.size)) {
      Operand in = world.random({shape.size / copies, 5});
      Operand whole = world.garbage({shape.size, 5}), pieces = whole;
      int64_t block = shape.size / phases, bytes = 0;
      ASSERT_TRUE(world.run(Kind::AllToAll, dtype, {&in, &whole}, {0, 0, copies, 0, 1}).ok());
      for (int64_t phase = 0; phase < phases; ++phase) {
        Operand piece = world.garbage({block, 5});
        ASSERT_TRUE(world.run(Kind::AllToAll, dtype, {&in, &piece}, {0, 0, copies, phase, phases}).ok());
        bytes += world.received(0);
        for (int64_t rank = 0; rank < shape.ranks; ++rank) {
          int64_t from = (world.me(rank) / block + phase) % phases;
          std::copy(piece.ranks[static_cast<size_t>(rank)].begin(), piece.ranks[static_cast<size_t>(rank)].end(),
                    pieces.ranks[static_cast<size_t>(rank)].begin() + from * block * 5);
        }
      }
      EXPECT_EQ(pieces.ranks, whole.ranks);
      EXPECT_EQ(bytes, (shape.size - 1) * 5 * width);
    }
}

// Virtual duplication equals duplication in memory.
TEST_P(MovingCollectivesTest, CopiesAreDuplicates) {
  for (int64_t copies : divisors(shape.size)) {
    Operand in = world.random({2, shape.size / copies, 3}), wide = world.garbage({2, shape.size, 3});
    for (size_t rank = 0; rank < wide.ranks.size(); ++rank)
      for (int64_t flat = 0; flat < product(wide.dims); ++flat) {
        Dims index = indexOf(wide.dims, flat);
        index[1] /= copies;
        wide.ranks[rank][static_cast<size_t>(flat)] = at(in.ranks[rank], in.dims, index);
      }
    Operand out = world.garbage({2 * shape.size, 1, 3}), want = out;
    ASSERT_TRUE(world.run(Kind::AllToAll, dtype, {&in, &out}, {1, 0, copies, 0, 1}).ok());
    ASSERT_TRUE(world.run(Kind::AllToAll, dtype, {&wide, &want}, {1, 0, 1, 0, 1}).ok());
    EXPECT_EQ(out.ranks, want.ranks);
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
        for (int64_t rank = 0; rank < shape.ranks; ++rank)
          ASSERT_EQ(world.received(rank), world.me(rank) == root ? 0 : 15 * width);
      }
      for (int64_t rank = 0; rank < shape.ranks && !inPlace; ++rank)
        ASSERT_EQ(out.ranks[static_cast<size_t>(rank)], before.ranks[world.peer(rank, root)]);
      ASSERT_TRUE(world.run(Kind::Reduce, dtype, {&in, &out}, {root}, {}, alias).ok());
      // A member gets its own segment from each other member. The root also gets the sums of their segments.
      for (int64_t rank = 0; rank < shape.ranks; ++rank) {
        int64_t own = segmentOf(15, world.me(rank), shape.size);
        int64_t sums = world.me(rank) == root ? 15 - own : 0;
        ASSERT_EQ(world.received(rank), ((shape.size - 1) * own + sums) * width);
      }
      for (int64_t rank = 0; rank < shape.ranks; ++rank)
        for (size_t flat = 0; flat < 15; ++flat) {
          double sum = 0;
          for (int64_t member = 0; member < shape.size && world.me(rank) == root; ++member)
            sum += before.ranks[world.peer(rank, member)][flat];
          ASSERT_EQ(out.ranks[static_cast<size_t>(rank)][flat], sum);
        }
    }
}

namespace {

/// A ragged exchange with random counts, including empty experts and full blocks. Its oracles go row by row.
struct RaggedCase {
  static constexpr int64_t own = 3, columns = 2, blockRows = 9;
  TestWorld &world;
  int64_t blocks, copies;
  int64_t experts = own * world.size() / copies, room = world.size() * blocks * blockRows;
  Operand blockCounts = world.garbage({blocks, experts}), expertCounts = world.garbage({world.size() * blocks, own});
  std::vector<size_t> integers{1, 2};

  RaggedCase(TestWorld &world, int64_t blocks, int64_t copies) : world(world), blocks(blocks), copies(copies) {
    for (auto &counts : blockCounts.ranks) {
      std::fill(counts.begin(), counts.end(), 0);
      for (int64_t b = 0; b < blocks; ++b)
        for (int64_t row = static_cast<int64_t>(world.generator() % 3); row < blockRows; ++row)
          ++counts[static_cast<size_t>(b * experts + static_cast<int64_t>(world.generator() % 97) % experts)];
    }
    EXPECT_TRUE(world.run(Kind::AllToAll, MOERT_I32, {&blockCounts, &expertCounts}, {1, 0, copies, 0, 1}).ok());
  }

  int64_t count(int64_t rank, int64_t block, int64_t expert) const {
    return static_cast<int64_t>(
        blockCounts.ranks[static_cast<size_t>(rank)][static_cast<size_t>(block * experts + expert)]);
  }
  /// First row of an expert in copy `copy` of a rank's block.
  int64_t blockRow(int64_t rank, int64_t copy, int64_t block, int64_t expert) const {
    int64_t row = (copy * blocks + block) * blockRows;
    for (int64_t e = 0; e < expert; ++e)
      row += count(rank, block, e);
    return row;
  }
  /// Calls what(expert, source, block, row) for each stretch of rows on the expert side of `rank`, `row` its first.
  template <class What> void forExpertSide(int64_t rank, What what) const {
    int64_t row = 0;
    for (int64_t e = 0; e < own; ++e)
      for (int64_t i = 0; i < world.size(); ++i)
        for (int64_t b = 0; b < blocks; ++b) {
          int64_t expert = world.me(rank) / copies * own + e;
          auto source = static_cast<int64_t>(world.peer(rank, i));
          what(expert, source, b, row);
          row += count(source, b, expert);
        }
  }
  static void copyRows(const std::vector<double> &from, int64_t fromRow, std::vector<double> &to, int64_t toRow,
                       int64_t count) {
    std::copy_n(from.begin() + fromRow * columns, count * columns, to.begin() + toRow * columns);
  }
};

} // namespace

// Sends rows to the experts, from one stored copy or from as many copies as there are holders of an expert.
TEST_P(MovingCollectivesTest, AllToAllVToExperts) {
  for (int64_t blocks : {1, 2})
    for (int64_t copies : divisors(shape.size))
      for (int64_t stored : copies > 1 ? std::vector<int64_t>{1, copies} : std::vector<int64_t>{1}) {
        RaggedCase ragged(world, blocks, copies);
        Operand rows = world.random({stored * blocks * RaggedCase::blockRows, RaggedCase::columns});
        Operand out = world.garbage({ragged.room, RaggedCase::columns}), want = out;
        std::vector<int64_t> bytes(static_cast<size_t>(shape.ranks));
        for (int64_t rank = 0; rank < shape.ranks; ++rank)
          ragged.forExpertSide(rank, [&](int64_t expert, int64_t source, int64_t block, int64_t row) {
            int64_t copy = stored > 1 ? world.me(rank) % copies : 0, count = ragged.count(source, block, expert);
            ragged.copyRows(rows.ranks[static_cast<size_t>(source)], ragged.blockRow(source, copy, block, expert),
                            want.ranks[static_cast<size_t>(rank)], row, count);
            if (source != rank)
              bytes[static_cast<size_t>(rank)] += count * RaggedCase::columns * width;
          });
        Status status =
            world.run(Kind::AllToAllV, dtype, {&rows, &ragged.blockCounts, &ragged.expertCounts, nullptr, &out},
                      {MOERT_TO_EXPERTS, copies, stored, 0, 1}, ragged.integers);
        ASSERT_TRUE(status.ok()) << status.message;
        ASSERT_EQ(out.ranks, want.ranks);
        for (int64_t rank = 0; rank < shape.ranks; ++rank)
          EXPECT_EQ(world.received(rank), bytes[static_cast<size_t>(rank)]);
      }
}

// Returns rows from the experts. Each holder fills its own copy, rows that no member sends become zero, and `stored` is
// not read.
TEST_P(MovingCollectivesTest, AllToAllVFromExperts) {
  for (int64_t blocks : {1, 2})
    for (int64_t copies : divisors(shape.size)) {
      RaggedCase ragged(world, blocks, copies);
      Operand rows = world.random({ragged.room, RaggedCase::columns});
      Operand out = world.garbage({copies * blocks * RaggedCase::blockRows, RaggedCase::columns}), want = out;
      for (auto &values : want.ranks)
        std::fill(values.begin(), values.end(), 0);
      std::vector<int64_t> bytes(static_cast<size_t>(shape.ranks));
      for (int64_t holder = 0; holder < shape.ranks; ++holder)
        ragged.forExpertSide(holder, [&](int64_t expert, int64_t target, int64_t block, int64_t row) {
          int64_t copy = world.me(holder) % copies, count = ragged.count(target, block, expert);
          ragged.copyRows(rows.ranks[static_cast<size_t>(holder)], row, want.ranks[static_cast<size_t>(target)],
                          ragged.blockRow(target, copy, block, expert), count);
          if (target != holder)
            bytes[static_cast<size_t>(target)] += count * RaggedCase::columns * width;
        });
      Status status =
          world.run(Kind::AllToAllV, dtype, {&rows, &ragged.blockCounts, &ragged.expertCounts, nullptr, &out},
                    {MOERT_FROM_EXPERTS, copies, 77, 0, 1}, ragged.integers);
      ASSERT_TRUE(status.ok()) << status.message;
      ASSERT_EQ(out.ranks, want.ranks);
      for (int64_t rank = 0; rank < shape.ranks; ++rank)
        EXPECT_EQ(world.received(rank), bytes[static_cast<size_t>(rank)]);
    }
}

namespace {

/// One phase of a ragged exchange.
struct RaggedPhase {
  RaggedCase &ragged;
  int64_t phase, phases;
  int64_t width = ragged.world.size() / phases;
  Operand expertCounts = ragged.world.garbage({width * ragged.blocks, RaggedCase::own});

  RaggedPhase(RaggedCase &ragged, int64_t phase, int64_t phases) : ragged(ragged), phase(phase), phases(phases) {
    Status status = ragged.world.run(Kind::AllToAll, MOERT_I32, {&ragged.blockCounts, &expertCounts},
                                     {1, 0, ragged.copies, phase, phases});
    EXPECT_TRUE(status.ok()) << status.message;
  }

  /// Rows of the plain exchange's expert side that come in this phase, and the bytes from other members.
  Operand pick(const Operand &plain, std::vector<int64_t> &rowsOfOthers) const {
    Operand picked = ragged.world.garbage(plain.dims);
    rowsOfOthers.assign(plain.ranks.size(), 0);
    for (int64_t rank = 0; rank < ragged.world.ranks; ++rank) {
      int64_t to = 0, block = ragged.world.me(rank) / width;
      ragged.forExpertSide(rank, [&](int64_t expert, int64_t source, int64_t b, int64_t row) {
        if (ragged.world.me(source) / width != (block + phase) % phases)
          return;
        int64_t count = ragged.count(source, b, expert);
        auto r = static_cast<size_t>(rank);
        ragged.copyRows(plain.ranks[r], row, picked.ranks[r], to, count);
        to += count;
        rowsOfOthers[r] += source != rank ? count : 0;
      });
    }
    return picked;
  }
  Status run(int32_t dtype, Operand &rows, Operand *addend, Operand &out, int64_t direction, int64_t stored,
             std::vector<size_t> alias = {}) {
    return ragged.world.run(Kind::AllToAllV, dtype, {&rows, &ragged.blockCounts, &expertCounts, addend, &out},
                            {direction, ragged.copies, stored, phase, phases}, {1, 2}, std::move(alias));
  }
};

} // namespace

// Each phase moves its own stretches of the plain exchange, in their order, and no other rows.
TEST_P(MovingCollectivesTest, AllToAllVPhasesToExperts) {
  for (int64_t blocks : {1, 2})
    for (int64_t copies : divisors(shape.size))
      for (int64_t phases : divisors(shape.size / copies)) {
        RaggedCase ragged(world, blocks, copies);
        Operand rows = world.random({copies * blocks * RaggedCase::blockRows, RaggedCase::columns});
        Operand plain = world.garbage({ragged.room, RaggedCase::columns});
        ASSERT_TRUE(RaggedPhase(ragged, 0, 1).run(dtype, rows, nullptr, plain, MOERT_TO_EXPERTS, copies).ok());
        for (int64_t phase = 0; phase < phases; ++phase) {
          RaggedPhase one(ragged, phase, phases);
          Operand out = world.garbage(plain.dims);
          Status status = one.run(dtype, rows, nullptr, out, MOERT_TO_EXPERTS, copies);
          ASSERT_TRUE(status.ok()) << status.message;
          std::vector<int64_t> others;
          ASSERT_EQ(out.ranks, one.pick(plain, others).ranks);
          for (int64_t rank = 0; rank < shape.ranks; ++rank)
            ASSERT_EQ(world.received(rank), others[static_cast<size_t>(rank)] * RaggedCase::columns * width);
        }
      }
}

// The phases' returns, each added to the earlier result, in place or not, equal the plain return.
TEST_P(CollectivesTest, AllToAllVPhasesFromExperts) {
  for (int64_t blocks : {1, 2})
    for (int64_t copies : divisors(shape.size))
      for (int64_t phases : divisors(shape.size / copies)) {
        RaggedCase ragged(world, blocks, copies);
        Operand rows = world.random({ragged.room, RaggedCase::columns});
        Operand plain = world.garbage({copies * blocks * RaggedCase::blockRows, RaggedCase::columns});
        ASSERT_TRUE(RaggedPhase(ragged, 0, 1).run(dtype, rows, nullptr, plain, MOERT_FROM_EXPERTS, 1).ok());
        Operand before;
        // The order of phases does not matter.
        for (int64_t phase = phases; phase-- > 0;) {
          RaggedPhase one(ragged, phase, phases);
          std::vector<int64_t> others;
          Operand mine = one.pick(rows, others), out = world.garbage(plain.dims);
          std::vector<size_t> inPlace = {0, 1, 2, 3, 3};
          bool first = phase == phases - 1;
          Status status = one.run(dtype, mine, first ? nullptr : &before, out, MOERT_FROM_EXPERTS, 1,
                                  !first && phase % 2 ? inPlace : std::vector<size_t>());
          ASSERT_TRUE(status.ok()) << status.message;
          before = out;
        }
        ASSERT_EQ(before.ranks, plain.ranks);
      }
}

// Rows that the plain return does not write keep the addend.
TEST_P(CollectivesTest, AllToAllVAddend) {
  for (int64_t copies : divisors(shape.size)) {
    RaggedCase ragged(world, 2, copies);
    RaggedPhase all(ragged, 0, 1);
    Operand rows = world.random({ragged.room, RaggedCase::columns});
    Operand plain = world.garbage({copies * 2 * RaggedCase::blockRows, RaggedCase::columns}), out = plain;
    Operand addend = world.random(plain.dims);
    ASSERT_TRUE(all.run(dtype, rows, nullptr, plain, MOERT_FROM_EXPERTS, 1).ok());
    ASSERT_TRUE(all.run(dtype, rows, &addend, out, MOERT_FROM_EXPERTS, 1).ok());
    for (int64_t rank = 0; rank < shape.ranks; ++rank)
      for (int64_t block = 0; block < copies * 2; ++block) {
        int64_t used = ragged.blockRow(rank, 0, block % 2, ragged.experts) - block % 2 * RaggedCase::blockRows;
        for (int64_t i = 0; i < RaggedCase::blockRows * RaggedCase::columns; ++i) {
          auto at = static_cast<size_t>(block * RaggedCase::blockRows * RaggedCase::columns + i);
          const Operand &want = i < used * RaggedCase::columns ? plain : addend;
          ASSERT_EQ(out.ranks[static_cast<size_t>(rank)][at], want.ranks[static_cast<size_t>(rank)][at]);
        }
      }
  }
}

// Rounding depends on the order of a sum, so all members must use the same order.
TEST(Collectives, AllReduceIsBitwiseEqual) {
  TestWorld world(8, {"g", 8, 1});
  Operand in = world.random({1000}), out = world.garbage({1000});
  for (auto &values : in.ranks)
    for (double &value : values)
      value = std::sin(value * 1.7 + static_cast<double>(world.generator() % 100));
  ASSERT_TRUE(world.run(Kind::AllReduce, MOERT_F32, {&in, nullptr, &out}, {}).ok());
  for (const auto &values : out.ranks)
    EXPECT_EQ(values, out.ranks[0]);
}

TEST(Collectives, Overflow) {
  TestWorld world(2, {"g", 2, 1});
  Operand rows = world.random({4, 1}), blockCounts{{1, 2}, {{4, 0}, {3, 0}}};
  Operand expertCounts{{2, 1}, {{4, 3}, {0, 0}}}, out = world.garbage({6, 1});
  Status status = world.run(Kind::AllToAllV, MOERT_F32, {&rows, &blockCounts, &expertCounts, nullptr, &out},
                            {0, 1, 1, 0, 1}, {1, 2});
  EXPECT_EQ(status.code, MOERT_ERROR_OVERFLOW);
  EXPECT_THAT(status.message, HasSubstr("'layer7'"));
  EXPECT_THAT(status.message, HasSubstr("7 rows arrived at member 0, whose buffer has room for 6"));
}

// Counts that lead outside the buffers are refused.
TEST(Collectives, BadCounts) {
  for (auto [first, second, text] :
       {std::tuple{5.0, 0.0, "adds up to 5 rows, expected at most 4"}, std::tuple{-1.0, 0.0, "block_counts holds -1"},
        std::tuple{1.0, 0.0, "disagree"}}) {
    TestWorld world(2, {"g", 2, 1});
    Operand rows = world.random({4, 1}), blockCounts{{1, 2}, {{first, second}, {1, 1}}};
    Operand expertCounts{{2, 1}, {{2, 1}, {0, 1}}}, out = world.garbage({6, 1});
    Status status = world.run(Kind::AllToAllV, MOERT_F32, {&rows, &blockCounts, &expertCounts, nullptr, &out},
                              {0, 1, 1, 0, 1}, {1, 2});
    EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(status.message, HasSubstr(text));
  }
}

TEST(Collectives, ShapesAreChecked) {
  TestWorld world(4, {"g", 4, 1});
  Operand a = world.random({2, 3}), b = world.garbage({8, 4});
  EXPECT_THAT(world.run(Kind::AllGather, MOERT_F32, {&a, &b}, {0}).message,
              HasSubstr("expected an output [8, 3] f32 but got [8, 4] f32"));
  EXPECT_THAT(world.run(Kind::AllGather, MOERT_F32, {&a, &b}, {2}).message, HasSubstr("expected dim below 2"));
  auto exchange = [&](std::vector<int64_t> ints) {
    return world.run(Kind::AllToAll, MOERT_F32, {&a, &b}, std::move(ints)).message;
  };
  EXPECT_THAT(exchange({0, 1, 1, 0, 1}),
              HasSubstr("dimension 0 of the input to be a multiple of the group's size 4 but"));
  EXPECT_THAT(exchange({1, 1, 2, 0, 1}), HasSubstr("multiple of the group's size 4 over 2 copies but got [2, 3] f32"));
  EXPECT_THAT(exchange({0, 1, 2, 1, 2}), HasSubstr("expected an output [1, 6] f32 but got [8, 4] f32"));
  EXPECT_THAT(exchange({0, 1, 3, 0, 1}), HasSubstr("expected copies that divide the group's size 4 but got 3"));
  EXPECT_THAT(exchange({0, 1, 0, 0, 1}), HasSubstr("expected copies that divide the group's size 4 but got 0"));
  EXPECT_THAT(exchange({0, 1, 2, 0, 3}), HasSubstr("expected phases that divide the group's size 4 but got 3"));
  EXPECT_THAT(exchange({0, 1, 2, 2, 2}), HasSubstr("expected a phase below 2 but got 2"));
  EXPECT_THAT(exchange({0, 1, 2, -1, 2}), HasSubstr("expected a phase below 2 but got -1"));
  EXPECT_THAT(world.run(Kind::Broadcast, MOERT_F32, {&a, &a}, {4}).message, HasSubstr("expected a root below"));
}

TEST(Collectives, RaggedShapesAreChecked) {
  TestWorld world(4, {"g", 4, 1});
  auto exchange = [&](std::vector<int64_t> ints, const Dims &rows, const Dims &out, int64_t experts, int64_t own,
                      const Dims &addend = {}) {
    Operand a = world.garbage(rows), b = world.garbage(out), added = world.garbage(addend);
    Operand counts{{2, experts}, std::vector<std::vector<double>>(4, std::vector<double>(2 * experts))};
    int64_t sources = ints.size() > 3 ? 8 / ints[4] : 8;
    Operand ownCounts{{sources, own}, std::vector<std::vector<double>>(4, std::vector<double>(sources * own))};
    if (ints.size() == 3)
      ints.insert(ints.end(), {0, 1});
    return world
        .run(Kind::AllToAllV, MOERT_F32, {&a, &counts, &ownCounts, addend.empty() ? nullptr : &added, &b},
             std::move(ints), {1, 2})
        .message;
  };
  EXPECT_EQ(exchange({0, 2, 2, 1, 2}, {12, 1}, {5, 1}, 2, 1), "");
  EXPECT_EQ(exchange({1, 2, 2, 1, 2}, {5, 1}, {12, 1}, 2, 1, {12, 1}), "");
  EXPECT_THAT(exchange({0, 2, 1, 0, 4}, {6, 1}, {5, 1}, 2, 1),
              HasSubstr("expected phases that divide the group's size 4 over 2 copies but got 4"));
  EXPECT_THAT(exchange({0, 2, 1, 2, 2}, {6, 1}, {5, 1}, 2, 1), HasSubstr("expected a phase below 2 but got 2"));
  EXPECT_THAT(exchange({0, 2, 1, -1, 2}, {6, 1}, {5, 1}, 2, 1), HasSubstr("expected a phase below 2 but got -1"));
  EXPECT_THAT(exchange({0, 2, 1, 0, 2}, {6, 1}, {5, 1}, 2, 2), HasSubstr("expert_counts [4, 1] i32 but got [4, 2]"));
  EXPECT_THAT(exchange({0, 2, 1}, {6, 1}, {5, 1}, 2, 1, {5, 1}),
              HasSubstr("expected no addend to the experts but got [5, 1] f32"));
  EXPECT_THAT(exchange({1, 2, 1}, {5, 1}, {12, 1}, 2, 1, {11, 1}),
              HasSubstr("expected an addend [12, 1] f32 but got [11, 1] f32"));
  EXPECT_EQ(exchange({0, 2, 2}, {12, 1}, {5, 1}, 2, 1), "");
  EXPECT_EQ(exchange({0, 2, 1}, {6, 1}, {5, 1}, 2, 1), "");
  EXPECT_EQ(exchange({1, 2, 1}, {5, 1}, {12, 1}, 2, 1), "");
  EXPECT_THAT(exchange({0, 3, 1}, {6, 1}, {5, 1}, 2, 1), HasSubstr("expected copies that divide the group's size 4"));
  EXPECT_THAT(exchange({0, 4, 2}, {6, 1}, {5, 1}, 2, 2), HasSubstr("1 or all of 4 copies to be stored but got 2"));
  EXPECT_THAT(exchange({2, 2, 1}, {6, 1}, {5, 1}, 2, 1), HasSubstr("expected direction 0 or 1 but got 2"));
  EXPECT_THAT(exchange({0, 2, 1}, {6, 1}, {5, 1}, 3, 1), HasSubstr("block_counts [blocks, a multiple of 2] i32"));
  EXPECT_THAT(exchange({0, 2, 1}, {6, 1}, {5, 1}, 4, 1), HasSubstr("expert_counts [8, 2] i32 but got [8, 1] i32"));
  EXPECT_THAT(exchange({0, 2, 2}, {6, 1}, {5, 1}, 2, 1), HasSubstr("the block side to have a multiple of 4 rows"));
  EXPECT_THAT(exchange({1, 2, 1}, {5, 1}, {6, 1}, 2, 1), HasSubstr("the block side to have a multiple of 4 rows"));
}

TEST(Collectives, AssumeReplicated) {
  for (bool verify : {false, true})
    for (double offset : {0.0, 1e-7, 1e-3}) {
      TestWorld world(4, {"tp", 2, 2}, verify);
      Operand in = world.random({6});
      for (auto &values : in.ranks)
        values = {1, 2, 3, 4, 5, 6};
      in.ranks[3][2] += offset;
      Status status = world.run(Kind::AssumeReplicated, MOERT_F32, {&in}, {});
      if (!verify || offset < 1e-5) {
        EXPECT_TRUE(status.ok()) << status.message;
        if (verify) {
          EXPECT_EQ(world.received(0), 0);
          EXPECT_EQ(world.received(3), 24);
        }
        continue;
      }
      EXPECT_EQ(status.code, MOERT_ERROR_NOT_REPLICATED);
      EXPECT_THAT(status.message, HasSubstr("op 0 assume_replicated 'layer7'"));
      EXPECT_THAT(status.message, HasSubstr("group 'tp' (ranks 1, 3), but ranks 1 and 3 differ"));
    }
}
