//===- CollectivesShadowTest.cpp - exchanges of experts' shadows ----------===//
#include "CollectivesTest.h"

using namespace moert;
using namespace moert::test;
using testing::HasSubstr;

namespace {

/// Shadows that all ranks of a world know: experts in the order of their places.
struct ShadowCase {
  int64_t own, places;
  Operand shadows;
  std::vector<int64_t> experts;

  ShadowCase(TestWorld &world, int64_t own, int64_t share, int64_t spare)
      : own(own), shadows(world.garbage({1, own * world.size()})) {
    std::vector<double> flags;
    for (int64_t e = 0; e < own * world.size(); ++e) {
      flags.push_back(static_cast<int64_t>(world.generator() % 4) < share);
      if (flags.back() > 0)
        experts.push_back(e);
    }
    for (auto &values : shadows.ranks)
      values = flags;
    places = static_cast<int64_t>(experts.size()) + spare;
  }
};

} // namespace

// Covers no, some and all experts as shadows, several of one member, and more places than shadows. Those places are not
// touched.
TEST_P(CollectivesTest, BroadcastExperts) {
  for (int64_t own : {1, 3})
    for (int64_t share : {0, 2, 4})
      for (int64_t spare : {0, 2}) {
        ShadowCase shadow(world, own, share, spare);
        Operand in = world.random({own, 2, 3}), out = world.garbage({shadow.places, 2, 3}), want = out;
        std::vector<int64_t> received(static_cast<size_t>(shape.ranks));
        for (int64_t rank = 0; rank < shape.ranks; ++rank)
          for (size_t r = 0; r < shadow.experts.size(); ++r) {
            int64_t owner = shadow.experts[r] / own;
            std::copy_n(in.ranks[world.peer(rank, owner)].begin() + shadow.experts[r] % own * 6, 6,
                        want.ranks[static_cast<size_t>(rank)].begin() + static_cast<int64_t>(r) * 6);
            received[static_cast<size_t>(rank)] += owner == world.me(rank) ? 0 : 6 * width;
          }
        Status status = world.run(Kind::BroadcastExperts, dtype, {&in, &shadow.shadows, &out}, {}, {1});
        ASSERT_TRUE(status.ok()) << status.message;
        ASSERT_EQ(out.ranks, want.ranks);
        for (int64_t rank = 0; rank < shape.ranks; ++rank)
          ASSERT_EQ(world.received(rank), received[static_cast<size_t>(rank)]);
      }
}

// Covers sums with an addend, in place or not, and without. Places beyond the last shadow are not read.
TEST_P(CollectivesTest, ReduceExperts) {
  for (int64_t own : {1, 3})
    for (int64_t share : {0, 2, 4})
      for (int64_t adds : {0, 1, 2}) {
        ShadowCase shadow(world, own, share, 2);
        Operand in = world.random({shadow.places, 2, 3}), addend = world.random({own, 2, 3});
        Operand out = world.garbage({own, 2, 3}), want = out;
        std::vector<int64_t> received(static_cast<size_t>(shape.ranks));
        for (int64_t rank = 0; rank < shape.ranks; ++rank) {
          auto &values = want.ranks[static_cast<size_t>(rank)];
          values = adds ? addend.ranks[static_cast<size_t>(rank)] : std::vector<double>(values.size());
          for (size_t r = 0; r < shadow.experts.size(); ++r) {
            if (shadow.experts[r] / own != world.me(rank))
              continue;
            received[static_cast<size_t>(rank)] += (shape.size - 1) * 6 * width;
            for (int64_t member = 0; member < shape.size; ++member)
              for (size_t i = 0; i < 6; ++i)
                values[static_cast<size_t>(shadow.experts[r] % own) * 6 + i] +=
                    in.ranks[world.peer(rank, member)][r * 6 + i];
          }
        }
        std::vector<size_t> alias;
        if (adds == 2)
          alias = {0, 1, 2, 2};
        Status status = world.run(Kind::ReduceExperts, dtype, {&in, &shadow.shadows, adds ? &addend : nullptr, &out},
                                  {}, {1}, alias);
        ASSERT_TRUE(status.ok()) << status.message;
        ASSERT_EQ(out.ranks, want.ranks);
        for (int64_t rank = 0; rank < shape.ranks; ++rank)
          ASSERT_EQ(world.received(rank), received[static_cast<size_t>(rank)]);
      }
}

// <B x, y> = <x, B^T y> over all members, with numbers that round.
TEST(Collectives, ExpertsAreAdjoint) {
  TestWorld world(8, {"g", 4, 2});
  ShadowCase shadow(world, 3, 2, 2);
  auto wave = [&](const Dims &dims) {
    Operand operand = world.random(dims);
    for (auto &values : operand.ranks)
      for (double &value : values)
        value = std::sin(value + static_cast<double>(world.generator() % 1000));
    return operand;
  };
  auto inner = [](const Operand &a, const Operand &b) {
    double sum = 0;
    for (size_t rank = 0; rank < a.ranks.size(); ++rank)
      for (size_t i = 0; i < a.ranks[rank].size(); ++i)
        sum += a.ranks[rank][i] * b.ranks[rank][i];
    return sum;
  };
  Operand x = wave({3, 5}), y = wave({shadow.places, 5}), forth = world.garbage(y.dims), back = world.garbage(x.dims);
  // Places without a shadow belong to no member.
  for (auto &values : forth.ranks)
    std::fill(values.begin(), values.end(), 0);
  ASSERT_TRUE(world.run(Kind::BroadcastExperts, MOERT_F64, {&x, &shadow.shadows, &forth}, {}, {1}).ok());
  ASSERT_TRUE(world.run(Kind::ReduceExperts, MOERT_F64, {&y, &shadow.shadows, nullptr, &back}, {}, {1}).ok());
  EXPECT_GT(std::abs(inner(x, back)), 1e-3);
  EXPECT_NEAR(inner(forth, y), inner(x, back), 1e-12);
}

// Shadows outside the places, or on which members disagree, are refused.
TEST(Collectives, BadShadows) {
  auto error = [](std::vector<double> first, std::vector<double> second, bool sum) {
    TestWorld world(2, {"g", 2, 1});
    Operand shadows{{1, 4}, {std::move(first), std::move(second)}};
    Operand experts = world.random({2, 3}), places = world.random({2, 3});
    Status status = sum ? world.run(Kind::ReduceExperts, MOERT_F32, {&places, &shadows, nullptr, &experts}, {}, {1})
                        : world.run(Kind::BroadcastExperts, MOERT_F32, {&experts, &shadows, &places}, {}, {1});
    EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT);
    return status.message;
  };
  for (bool sum : {false, true}) {
    EXPECT_THAT(error({1, 1, 1, 0}, {1, 1, 1, 0}, sum),
                HasSubstr("expected at most 2 shadows, one for each place, but got 3"));
    EXPECT_THAT(error({0, 0, 2, 0}, {0, 0, 2, 0}, sum), HasSubstr("expected shadows of 0 or 1 but expert 2 has 2"));
    EXPECT_THAT(error({1, 0, 0, 0}, {0, 0, 0, 1}, sum),
                HasSubstr("expected all members' shadows to be equal, but for expert 0 member 0 has 1 and member 1 has "
                          "0"));
  }
}

TEST(Collectives, ShadowShapesAreChecked) {
  TestWorld world(2, {"g", 2, 1});
  auto error = [&](bool sum, const Dims &experts, const Dims &shadows, const Dims &places, const Dims &addend = {}) {
    Operand values = world.garbage(experts), rows = world.garbage(places), added = world.garbage(addend);
    Operand flags = world.garbage(shadows);
    for (auto &flag : flags.ranks)
      std::fill(flag.begin(), flag.end(), 0);
    Operand *addends = addend.empty() ? nullptr : &added;
    return (sum ? world.run(Kind::ReduceExperts, MOERT_F32, {&rows, &flags, addends, &values}, {}, {1})
                : world.run(Kind::BroadcastExperts, MOERT_F32, {&values, &flags, &rows}, {}, {1}))
        .message;
  };
  for (bool sum : {false, true}) {
    EXPECT_EQ(error(sum, {3, 4}, {1, 6}, {2, 4}), "");
    EXPECT_EQ(error(sum, {3}, {1, 6}, {0}), "");
    EXPECT_THAT(error(sum, {3, 4}, {1, 3}, {2, 4}),
                HasSubstr("expected shadows [1, 6] i32 for 3 experts on each of 2 members but got [1, 3] i32"));
    EXPECT_THAT(error(sum, {3, 4}, {6}, {2, 4}), HasSubstr("expected shadows [1, 6] i32"));
    EXPECT_THAT(error(sum, {3, 4}, {1, 6}, {2, 5}),
                HasSubstr("expected places of shadows that are like the experts [3, 4] f32 but got [2, 5] f32"));
    EXPECT_THAT(error(sum, {3, 4}, {1, 6}, {2}), HasSubstr("expected places of shadows"));
    EXPECT_THAT(error(sum, {}, {1, 6}, {2, 4}), HasSubstr("expected values of experts of at least one dimension"));
  }
  EXPECT_THAT(error(true, {3, 4}, {1, 6}, {2, 4}, {2, 4}),
              HasSubstr("expected 'addend' to be f32[3,4] but got f32[2,4]"));
}
