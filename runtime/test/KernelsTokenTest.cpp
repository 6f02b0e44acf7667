//===- KernelsTokenTest.cpp - dispatch, combine and their adjoints ---------===//

#include "KernelsTest.h"

#include <algorithm>
#include <numeric>

namespace moert::host {
namespace {

template <class T> class KernelsTokenTest : public ::testing::Test {};
TYPED_TEST_SUITE(KernelsTokenTest, FloatingTypes);

/// `tokens` x `choices` different rows out of `rows`, with about one choice in four dropped.
Tensor<int32_t> randomSlots(int64_t tokens, int64_t choices, int64_t rows, int seed) {
  std::vector<int32_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 engine(seed);
  std::shuffle(order.begin(), order.end(), engine);
  Tensor<int32_t> slots({tokens, choices}, -1);
  for (int64_t i = 0; i < slots.size() && i < rows; ++i)
    slots[i] = engine() % 4 ? order[i] : -1;
  return slots;
}

template <class T>
std::vector<double> slowDispatch(const Tensor<T> &tokens, const Tensor<int32_t> &slots, const Tensor<T> *weights,
                                 int64_t rows) {
  const int64_t k = slots.dims[1], m = tokens.dims[1];
  std::vector<double> out(rows * m);
  for (int64_t i = 0; i < slots.size(); ++i)
    for (int64_t c = 0; c < m && slots[i] >= 0; ++c)
      out[slots[i] * m + c] = (weights ? double((*weights)[i]) : 1.0) * double(tokens[i / k * m + c]);
  return out;
}

template <class T>
std::vector<double> slowCombine(const Tensor<T> &rows, const Tensor<int32_t> &slots, const Tensor<T> *weights) {
  const int64_t s = slots.dims[0], k = slots.dims[1], m = rows.dims.back();
  std::vector<double> out(s * m);
  for (int64_t i = 0; i < slots.size(); ++i)
    for (int64_t c = 0; c < m && slots[i] >= 0; ++c)
      out[i / k * m + c] += (weights ? double((*weights)[i]) : 1.0) * double(rows[slots[i] * m + c]);
  return out;
}

// For one to nine choices, odd widths, with and without weights, rows arrive at their slots. The rest is zero.
TYPED_TEST(KernelsTokenTest, DispatchAgreesWithLoops) {
  using T = TypeParam;
  for (int64_t k = 1; k <= 9; ++k)
    for (int64_t m : {1, 13, 64}) {
      auto tokens = randomTensor<T>({11, m}, 1), weights = randomTensor<T>({11, k}, 2);
      auto slots = randomSlots(11, k, 6 * 20, int(k));
      Tensor<T> out({6, 20, m}, T(NAN)), flat({120, m}, T(NAN));
      EXPECT_OK(dispatch(tokens.view(), slots.view(), {}, {}, out.view()));
      expectNear(out.data, slowDispatch<T>(tokens, slots, nullptr, 120), 0);
      EXPECT_OK(dispatch(tokens.view(), slots.view(), weights.view(), {}, flat.view()));
      expectNear(flat.data, slowDispatch<T>(tokens, slots, &weights, 120), tolerance<T>());
    }
}

// Combine sums the rows that were not dropped. A token without rows gets zeros.
TYPED_TEST(KernelsTokenTest, CombineAgreesWithLoops) {
  using T = TypeParam;
  for (int64_t k = 1; k <= 9; ++k)
    for (int64_t m : {1, 13, 64}) {
      auto rows = randomTensor<T>({6, 20, m}, 1), weights = randomTensor<T>({11, k}, 2);
      auto slots = randomSlots(11, k, 120, int(k));
      std::fill_n(slots.data.begin() + 3 * k, k, -1);
      Tensor<T> out({11, m}, T(NAN));
      EXPECT_OK(combine(rows.view(), slots.view(), weights.view(), {}, out.view()));
      expectNear(out.data, slowCombine<T>(rows, slots, &weights), tolerance<T>());
      EXPECT_OK(combine(rows.view(), slots.view(), {}, {}, out.view()));
      expectNear(out.data, slowCombine<T>(rows, slots, nullptr), tolerance<T>());
    }
}

// slot_dot is the product of a token with each of its rows, and exactly zero for dropped choices.
TYPED_TEST(KernelsTokenTest, SlotDotAgreesWithLoops) {
  using T = TypeParam;
  for (int64_t m : {1, 13, 200}) {
    auto tokens = randomTensor<T>({9, m}, 1), rows = randomTensor<T>({40, m}, 2);
    auto slots = randomSlots(9, 3, 40, 7);
    Tensor<T> out({9, 3}, T(NAN));
    EXPECT_OK(slotDot(tokens.view(), rows.view(), slots.view(), {}, out.view()));
    for (int64_t i = 0; i < 27; ++i) {
      double sum = 0;
      for (int64_t c = 0; c < m && slots[i] >= 0; ++c)
        sum += double(tokens[i / 3 * m + c]) * double(rows[slots[i] * m + c]);
      EXPECT_NEAR(double(out[i]), sum, tolerance<T>() * 20);
    }
  }
}

// row_scale may work in place. row_dot is the product of equal rows.
TYPED_TEST(KernelsTokenTest, RowScaleAndRowDot) {
  using T = TypeParam;
  auto rows = randomTensor<T>({7, 37}, 1), factors = randomTensor<T>({7, 1}, 2), other = randomTensor<T>({7, 37}, 3);
  std::vector<double> scaled, dots;
  for (int64_t s = 0; s < 7; ++s) {
    dots.push_back(0);
    for (int64_t m = 0; m < 37; ++m) {
      scaled.push_back(double(factors[s]) * double(rows[s * 37 + m]));
      dots.back() += double(rows[s * 37 + m]) * double(other[s * 37 + m]);
    }
  }
  Tensor<T> dot({7, 1}, T(NAN));
  EXPECT_OK(rowDot(rows.view(), other.view(), dot.view()));
  expectNear(dot.data, dots, tolerance<T>());
  EXPECT_OK(rowScale(rows.view(), factors.view(), rows.view()));
  expectNear(rows.data, scaled, tolerance<T>());
}

// Each group of columns has its factor, and its inner product.
TYPED_TEST(KernelsTokenTest, RowScaleAndRowDotOfGroups) {
  using T = TypeParam;
  for (int64_t groups : {2, 4, 12}) {
    auto rows = randomTensor<T>({5, 12}, 1), factors = randomTensor<T>({5, groups}, 2),
         other = randomTensor<T>({5, 12}, 3);
    std::vector<double> scaled, dots(static_cast<size_t>(5 * groups));
    for (int64_t i = 0; i < 60; ++i) {
      const int64_t group = i / 12 * groups + i % 12 / (12 / groups);
      scaled.push_back(double(factors[group]) * double(rows[i]));
      dots[static_cast<size_t>(group)] += double(rows[i]) * double(other[i]);
    }
    Tensor<T> dot({5, groups}, T(NAN));
    EXPECT_OK(rowDot(rows.view(), other.view(), dot.view()));
    expectNear(dot.data, dots, tolerance<T>());
    EXPECT_OK(rowScale(rows.view(), factors.view(), rows.view()));
    expectNear(rows.data, scaled, tolerance<T>());
  }
}

// No tokens, no rows and no columns are all legal.
TYPED_TEST(KernelsTokenTest, Empty) {
  using T = TypeParam;
  Tensor<T> none({0, 5}), out({2, 2, 5}, T(NAN)), noRows({0, 5}), some({3, 5}, T(1)), result({3, 5}, T(NAN));
  Tensor<int32_t> noSlots({0, 2}), dropped({3, 2}, -1);
  EXPECT_OK(dispatch(none.view(), noSlots.view(), {}, {}, out.view()));
  EXPECT_EQ(out.data, std::vector<T>(20, T(0)));
  EXPECT_OK(dispatch(some.view(), dropped.view(), {}, {}, noRows.view()));
  EXPECT_OK(combine(noRows.view(), dropped.view(), {}, {}, result.view()));
  EXPECT_EQ(result.data, std::vector<T>(15, T(0)));
  Tensor<T> narrow({3, 0}), narrowRows({4, 0}), dots({3, 2}, T(NAN));
  EXPECT_OK(dispatch(narrow.view(), dropped.view(), {}, {}, narrowRows.view()));
  EXPECT_OK(slotDot(narrow.view(), narrowRows.view(), dropped.view(), {}, dots.view()));
  EXPECT_EQ(dots.data, std::vector<T>(6, T(0)));
}

// With counts of used rows, the other rows are not written.
TYPED_TEST(KernelsTokenTest, UsedRows) {
  using T = TypeParam;
  Tensor<T> tokens({2, 3}, {1, 2, 3, 4, 5, 6}), rows({4, 3}, T(7)), sums({2, 3}, T(NAN)), dots({2, 2}, T(NAN));
  Tensor<int32_t> slots({2, 2}, {1, -1, 0, -1}), used({1, 2}, {1, 1});
  EXPECT_OK(dispatch(tokens.view(), slots.view(), {}, used.view(), rows.view()));
  EXPECT_EQ(rows.data, (std::vector<T>{4, 5, 6, 1, 2, 3, 7, 7, 7, 7, 7, 7}));
  EXPECT_OK(combine(rows.view(), slots.view(), {}, used.view(), sums.view()));
  EXPECT_EQ(sums.data, tokens.data);
  EXPECT_OK(slotDot(tokens.view(), rows.view(), slots.view(), used.view(), dots.view()));
  EXPECT_EQ(dots.data, (std::vector<T>{14, 0, 77, 0}));
}

// Slots outside the rows, below -1 or given twice are refused, and nothing is written.
TYPED_TEST(KernelsTokenTest, BadSlots) {
  using T = TypeParam;
  Tensor<T> tokens({2, 3}, T(1)), rows({4, 3}, T(9)), out({2, 3}, T(9)), dots({2, 1}, T(9));
  Tensor<int32_t> high({2, 1}, {0, 4}), low({2, 1}, {-2, 0}), twice({2, 1}, {1, 1});
  expectError(dispatch(tokens.view(), high.view(), {}, {}, rows.view()), MOERT_ERROR_INVALID_ARGUMENT,
              "'slots' from -1 to 3 but got 4");
  expectError(dispatch(tokens.view(), low.view(), {}, {}, rows.view()), MOERT_ERROR_INVALID_ARGUMENT, "but got -2");
  expectError(dispatch(tokens.view(), twice.view(), {}, {}, rows.view()), MOERT_ERROR_INVALID_ARGUMENT, "row 1 again");
  expectError(combine(rows.view(), high.view(), {}, {}, out.view()), MOERT_ERROR_INVALID_ARGUMENT, "but got 4");
  expectError(slotDot(tokens.view(), rows.view(), low.view(), {}, dots.view()), MOERT_ERROR_INVALID_ARGUMENT,
              "but got -2");
  EXPECT_EQ(rows.data, std::vector<T>(12, T(9)));
  EXPECT_EQ(out.data, std::vector<T>(6, T(9)));
}

// Operands whose shapes do not fit the others are named.
TYPED_TEST(KernelsTokenTest, BadShapes) {
  using T = TypeParam;
  Tensor<T> tokens({2, 3}), wide({4, 5}), weights({2, 2}), out({4, 3});
  Tensor<int32_t> slots({2, 1}, {0, 1});
  expectError(dispatch(tokens.view(), slots.view(), {}, {}, wide.view()), MOERT_ERROR_INVALID_ARGUMENT, "'out' to be");
  expectError(dispatch(tokens.view(), slots.view(), weights.view(), {}, out.view()), MOERT_ERROR_INVALID_ARGUMENT,
              "'weights' to be");
  expectError(combine(wide.view(), slots.view(), {}, {}, tokens.view()), MOERT_ERROR_INVALID_ARGUMENT, "[2,5] but got");
  expectError(dispatch(tokens.view(), {}, {}, {}, out.view()), MOERT_ERROR_INVALID_ARGUMENT, "'slots'");
}

// Checks row by row: each row belongs to the expert whose counts reach it. Covers empty experts, unused rows, and parts
// within one expert.
TEST(KernelsSliceCountsTest, AgreesWithLoops) {
  for (auto counts : std::vector<std::vector<int32_t>>{
           {3, 0, 5, 4}, {0, 0, 0, 0}, {12, 0, 0, 0}, {0, 0, 0, 12}, {1, 1, 1, 1}, {0, 7, 0, 2}, {}})
    for (int64_t size : {1, 2, 3, 12}) {
      const int64_t rows = 12, experts = static_cast<int64_t>(counts.size());
      Tensor<int32_t> in({1, experts}, counts);
      std::vector<int32_t> sum(counts.size());
      for (int64_t index = 0; index < size; ++index) {
        Tensor<int32_t> out({1, experts}, -1);
        EXPECT_OK(sliceCounts(in.view(), out.view(), rows, index, size));
        std::vector<int32_t> expected(counts.size());
        int64_t row = 0;
        for (int64_t e = 0; e < experts; ++e)
          for (int32_t i = 0; i < counts[e]; ++i, ++row)
            expected[e] += row / (rows / size) == index;
        EXPECT_EQ(out.data, expected);
        for (size_t e = 0; e < sum.size(); ++e)
          sum[e] += out.data[e];
      }
      EXPECT_EQ(sum, counts);
    }
}

TEST(KernelsSliceCountsTest, BadOperands) {
  Tensor<int32_t> counts({1, 2}, {3, 4}), out({1, 2}), narrow({1, 1}), two({2, 2}), negative({1, 2}, {-1, 2});
  Tensor<float> floating({1, 2});
  auto expectBad = [&](View in, View to, int64_t rows, int64_t index, const char *text) {
    expectError(sliceCounts(in, to, rows, index, 2), MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  expectBad(counts.view(), narrow.view(), 8, 0, "'out' to be i32[1,2] but got i32[1,1]");
  expectBad(two.view(), two.view(), 8, 0, "'counts' to be i32[1,2] but got i32[2,2]");
  expectBad(floating.view(), out.view(), 8, 0, "'counts' to be i32[1,2]");
  expectBad(counts.view(), out.view(), 7, 0, "'rows' to be a multiple of 2 but got 7");
  expectBad(counts.view(), out.view(), -2, 0, "'rows' to be a multiple of 2 but got -2");
  expectBad(counts.view(), out.view(), 8, 2, "'index' below 'size' but got 2 of 2");
  expectBad(negative.view(), out.view(), 8, 0, "'counts' of 0 or more");
  expectError(sliceCounts(counts.view(), out.view(), 6, 0, 2), MOERT_ERROR_OVERFLOW, "6 rows in all at most but got 7");
}

/// Tokens in each row of `slots` of one choice, or -1, for rows 0 to `rows` - 1.
std::vector<int64_t> tokensInRows(const Tensor<int32_t> &slots, int64_t rows) {
  std::vector<int64_t> tokens(rows, -1);
  for (int64_t s = 0; s < slots.size(); ++s)
    if (slots[s] >= 0)
      tokens[slots[s]] = s;
  return tokens;
}

// PPMoE's example (section 3.3.3): order 2,3,1,2,0,3,2,0 gives X0 = [4,7], X1 = [2], X2 = [0,3,6] and X3 = [1,5]. The
// first of two ranks has E0 and E1. Packed, and with a capacity of 3 rows.
TEST(KernelsLocalSlotsTest, ExampleOfThePaper) {
  Tensor<int32_t> counts({1, 4}, {2, 1, 3, 2}), packed({8, 1}, {3, 6, 2, 4, 0, 7, 5, 1}),
      capacity({8, 1}, {6, 9, 3, 7, 0, 10, 8, 1});
  auto run = [&](Tensor<int32_t> &slots, int64_t rows, int64_t index, int64_t used) {
    Tensor<int32_t> out({8, 1}, -2), own({1, 2}, -2);
    EXPECT_OK(localSlots(slots.view(), counts.view(), out.view(), own.view(), {rows, rows ? 0 : used, 1, index, 2}));
    EXPECT_EQ(own.data, std::vector<int32_t>(counts.data.begin() + 2 * index, counts.data.begin() + 2 * index + 2));
    return tokensInRows(out, rows ? 2 * rows : used);
  };
  EXPECT_EQ(run(packed, 0, 0, 3), (std::vector<int64_t>{4, 7, 2}));
  EXPECT_EQ(run(packed, 0, 1, 5), (std::vector<int64_t>{0, 3, 6, 1, 5}));
  EXPECT_EQ(run(capacity, 3, 0, 3), (std::vector<int64_t>{4, 7, -1, 2, -1, -1}));
  EXPECT_EQ(run(capacity, 3, 1, 5), (std::vector<int64_t>{0, 3, 6, 1, 5, -1}));
}

// The choices of all members together are all that were not dropped, each as often as its expert has copies.
TEST(KernelsLocalSlotsTest, MembersShareTheChoices) {
  for (int64_t copies : {1, 2, 3})
    for (int64_t parts : {1, 2, 6}) {
      auto slots = randomSlots(11, 2, 30, static_cast<int>(copies * 10 + parts));
      Tensor<int32_t> counts({1, 6}, {1, 0, 2, 3, 0, 1});
      std::vector<int64_t> times(30);
      for (int64_t index = 0; index < parts * copies; ++index) {
        Tensor<int32_t> out({11, 2}, -2), own({1, 6 / parts}, -2);
        EXPECT_OK(
            localSlots(slots.view(), counts.view(), out.view(), own.view(), {5, 0, copies, index, parts * copies}));
        for (int64_t i = 0; i < 22; ++i) {
          if (out[i] < 0)
            continue;
          EXPECT_EQ(out[i] + index / copies * (30 / parts), slots[i]);
          ++times[slots[i]];
        }
      }
      for (int64_t i = 0; i < 22; ++i)
        if (slots[i] >= 0) {
          EXPECT_EQ(times[slots[i]], copies);
        }
    }
}

// Each choice is served once. A pass has at most `rows` rows of a worker, and serves a member's choices in their order.
TEST(KernelsWindowTest, PassesServeAllChoices) {
  // Three members have 12 choices each. The first worker has two of four experts, with 5 + 20 rows in total.
  Tensor<int32_t> gathered({3, 4}, {2, 8, 1, 1, 3, 0, 0, 9, 0, 12, 0, 0}), slots({6, 2});
  std::iota(slots.data.begin(), slots.data.end(), 0);
  for (int64_t rows : {1, 7, 24, 25, 100}) {
    const int64_t passes = (25 + rows - 1) / rows;
    std::vector<std::vector<int64_t>> ofWorkers(passes, std::vector<int64_t>(2));
    for (int64_t member = 0; member < 3; ++member) {
      std::vector<int64_t> times(12);
      Tensor<int32_t> left({1}, -1), out({6, 2}, -2), counts({1, 4}, -2);
      for (int64_t pass = 0; pass < passes; ++pass) {
        // `left` may be `before`.
        EXPECT_OK(window(slots.view(), gathered.view(), pass ? left.view() : View(), left.view(), out.view(),
                         counts.view(), {2, rows, 0, 1, member, 3}));
        EXPECT_EQ(left[0], passes - 1 - pass);
        int64_t next = 0;
        for (int64_t i = 0; i < 12; ++i)
          if (out[i] >= 0) {
            EXPECT_EQ(out[i], next++);
            ++times[i];
          }
        EXPECT_EQ(next, std::accumulate(counts.data.begin(), counts.data.end(), 0));
        for (int64_t e = 0; e < 4; ++e)
          ofWorkers[pass][e / 2] += counts[e];
      }
      EXPECT_EQ(times, std::vector<int64_t>(12, 1));
    }
    for (int64_t pass = 0; pass < passes; ++pass)
      EXPECT_EQ(ofWorkers[pass][0], std::min(rows, 25 - pass * rows));
  }
}

// Each chunk of a phase has its own passes, and a chunk's rows stay in its part of the buffer.
TEST(KernelsWindowTest, ChunksAndPhases) {
  // Two members, each exchanged in its own phase, have two chunks of 4 choices. Each worker has one of two experts.
  Tensor<int32_t> gathered({4, 2}, {4, 0, 1, 3, 2, 2, 0, 4}), slots({8, 1});
  for (int64_t member = 0; member < 2; ++member) {
    // A chunk has room for 5 rows.
    for (int64_t i = 0; i < 8; ++i)
      slots[i] = static_cast<int32_t>(i < 4 ? i : i + 1);
    std::vector<int64_t> times(8);
    Tensor<int32_t> left({1}, -1), out({8, 1}, -2), counts({2, 2}, -2);
    // The fullest kind has 4 rows, which take two passes of 3.
    for (int64_t pass = 0; pass < 2; ++pass) {
      EXPECT_OK(window(slots.view(), gathered.view(), pass ? left.view() : View(), left.view(), out.view(),
                       counts.view(), {2, 3, 5, 2, member, 2}));
      EXPECT_EQ(left[0], 1 - pass);
      for (int64_t chunk = 0; chunk < 2; ++chunk) {
        int32_t next = static_cast<int32_t>(5 * chunk);
        for (int64_t i = 4 * chunk; i < 4 * chunk + 4; ++i)
          if (out[i] >= 0) {
            EXPECT_EQ(out[i], next++);
            ++times[i];
          }
        int32_t served = 0;
        for (int64_t expert = 0; expert < 2; ++expert) {
          const int32_t all = gathered[(member * 2 + chunk) * 2 + expert];
          EXPECT_EQ(counts[chunk * 2 + expert], pass == 0 ? std::min(all, 3) : std::max(all - 3, 0));
          served += counts[chunk * 2 + expert];
        }
        EXPECT_EQ(next - 5 * chunk, served);
      }
    }
    EXPECT_EQ(times, std::vector<int64_t>(8, 1));
  }
}

TEST(KernelsWindowTest, BadOperands) {
  Tensor<int32_t> slots({2, 1}, {0, 1}), gathered({1, 2}, {2, 0}), one({1}, 1), out({2, 1}), counts({1, 2});
  Tensor<int32_t> gatheredChunks({2, 2}, {1, 0, 1, 0}), countsOfChunks({2, 2});
  auto expectBad = [&](View sent, View served, const WindowOptions &options, int32_t before, const char *text) {
    one[0] = before;
    expectError(window(slots.view(), sent, one.view(), one.view(), out.view(), served, options),
                MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  expectBad(gathered.view(), counts.view(), {3, 1, 0, 1, 0, 1}, 1, "'workers' to divide 2 experts but got 3");
  expectBad(gathered.view(), counts.view(), {2, 0, 0, 1, 0, 1}, 1, "'rows' of 1 or more but got 0");
  expectBad(gathered.view(), counts.view(), {2, 1, 0, 2, 0, 1}, 1, "'phases' to divide 1 members but got 2");
  expectBad(gathered.view(), counts.view(), {2, 1, 0, 1, 0, 1}, 3, "'before' of 1 to 2 passes but got 3");
  expectBad(gathered.view(), countsOfChunks.view(), {2, 1, 1, 1, 0, 1}, 1, "'gathered' to be i32[2,2]");
  expectBad(gatheredChunks.view(), countsOfChunks.view(), {2, 1, 0, 1, 0, 1}, 1, "'chunk_rows'");
}

// Two holders have two experts each, of eight on two members. Member 1 has the last four.
TEST(KernelsMergeTest, RowsOfHolders) {
  Tensor<int32_t> experts({4, 3}, {4, 5, 7, 7, 0, 6, -1, 5, 4, 5, 6, 7});
  Tensor<int32_t> dropped({4, 3}, {0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0});
  Tensor<int32_t> used({1, 2}, {1, 2}), slots({4, 3}, 9), counts({1, 2}, 9), sent({5, 3}, 9);
  EXPECT_OK(mergeChoices(experts.view(), dropped.view(), used.view(), slots.view(), counts.view(), sent.view(),
                         {8, 1, 1, 2}));
  EXPECT_EQ(counts.data, (std::vector<int32_t>{2, 2}));
  EXPECT_EQ(slots.data, (std::vector<int32_t>{0, -1, 2, 3, -1, -1, -1, 1, -1, -1, -1, -1}));
  EXPECT_EQ(sent.data, (std::vector<int32_t>{4, 5, -1, -1, 5, 4, -1, -1, 7, 7, -1, -1, -1, -1, -1}));
  // Without `used` all tokens count, and without `dropped` all choices.
  expectError(mergeChoices(experts.view(), View(), View(), slots.view(), counts.view(), sent.view(), {8, 1, 1, 2}),
              MOERT_ERROR_OVERFLOW, "6 rows of tokens are sent, with room for 5");
  Tensor<int32_t> large({8, 3});
  EXPECT_OK(mergeChoices(experts.view(), View(), View(), slots.view(), counts.view(), large.view(), {8, 1, 1, 2}));
  EXPECT_EQ(counts.data, (std::vector<int32_t>{3, 3}));
}

// For holders of one expert, the rows are sorted by expert, as those of a routing.
TEST(KernelsMergeTest, RowsOfExperts) {
  Tensor<int32_t> experts({3, 2}, {3, 2, 2, 0, 3, 2}), slots({3, 2}), counts({1, 2}), sent({5, 2});
  EXPECT_OK(mergeChoices(experts.view(), View(), View(), slots.view(), counts.view(), sent.view(), {4, 2, 3, 4}));
  EXPECT_EQ(counts.data, (std::vector<int32_t>{3, 2}));
  EXPECT_EQ(slots.data, (std::vector<int32_t>{3, 0, 1, -1, 4, 2}));
}

TEST(KernelsMergeTest, BadOperands) {
  Tensor<int32_t> experts({2, 1}, {0, 1}), slots({2, 1}), counts({1, 2}), sent({2, 1}), used({1, 1}, 3);
  auto expectBad = [&](View of, MergeOptions options, int32_t code, const char *text) {
    expectError(mergeChoices(experts.view(), View(), of, slots.view(), counts.view(), sent.view(), options), code,
                text);
  };
  expectBad(View(), {2, 3, 0, 4}, MOERT_ERROR_INVALID_ARGUMENT, "'copies' to divide 4 members but got 3");
  expectBad(View(), {3, 1, 0, 1}, MOERT_ERROR_INVALID_ARGUMENT, "a multiple of 1 times 2 holders but got 3");
  expectBad(used.view(), {2, 1, 0, 1}, MOERT_ERROR_OVERFLOW, "");
}

TEST(KernelsLocalSlotsTest, BadOperands) {
  Tensor<int32_t> slots({3, 1}, {0, 2, 1}), out({3, 1}, 9), counts({1, 2}, {2, 1}), own({1, 1}, 9), two({2, 2});
  auto expectBad = [&](View countsOf, View to, View ownOf, LocalOptions options, const char *text) {
    expectError(localSlots(slots.view(), countsOf, to, ownOf, options), MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  expectBad(two.view(), out.view(), own.view(), {0, 3, 1, 0, 2}, "'counts' to be i32[1,2] but got i32[2,2]");
  expectBad(counts.view(), own.view(), own.view(), {0, 3, 1, 0, 2}, "'local_slots' to be i32[3,1] but got i32[1,1]");
  expectBad(counts.view(), out.view(), counts.view(), {0, 3, 1, 0, 2},
            "'local_counts' to be i32[1,1] but got i32[1,2]");
  expectBad(counts.view(), out.view(), own.view(), {0, 3, 1, 2, 2}, "'index' below 'size' but got 2 of 2");
  expectBad(counts.view(), out.view(), own.view(), {0, 3, 3, 0, 2},
            "'copies' with which 2 members hold 2 experts but got 3");
  expectBad(counts.view(), out.view(), own.view(), {0, 3, 1, 0, 3},
            "'copies' with which 3 members hold 2 experts but got 1");
  expectBad(counts.view(), out.view(), own.view(), {-1, 3, 1, 0, 2},
            "'capacity' and 'room' of 0 or more but got -1 and 3");
  expectError(localSlots(slots.view(), counts.view(), out.view(), own.view(), {0, 1, 1, 0, 2}), MOERT_ERROR_OVERFLOW,
              "2 rows are for the experts of member 0, whose buffer has room for 1; compile with a larger --max-load, "
              "or with --max-load=none for the worst "
              "case");
  EXPECT_EQ(out.data, std::vector<int32_t>(3, 9));
  EXPECT_EQ(own[0], 9);
}

// Dispatch, combine and slot_dot are each other's adjoints, as finite differences show.
TEST(KernelsTokenGradientTest, AgreesWithFiniteDifferences) {
  const int64_t s = 5, k = 3, m = 4, r = 24;
  auto tokens = randomTensor<double>({s, m}, 1), rows = randomTensor<double>({r, m}, 2);
  auto weights = randomTensor<double>({s, k}, 3), toRows = randomTensor<double>({r, m}, 4),
       toTokens = randomTensor<double>({s, m}, 5);
  auto slots = randomSlots(s, k, r, 6);
  Tensor<double> out({r, m}), combined({s, m}), gradTokens({s, m}), gradRows({r, m}), gradWeights({s, k});
  auto dispatchLoss = [&] {
    EXPECT_OK(dispatch(tokens.view(), slots.view(), weights.view(), {}, out.view()));
    return inner(out.data, toRows.data);
  };
  EXPECT_OK(combine(toRows.view(), slots.view(), weights.view(), {}, gradTokens.view()));
  EXPECT_OK(slotDot(tokens.view(), toRows.view(), slots.view(), {}, gradWeights.view()));
  expectGradient(tokens, gradTokens.data, dispatchLoss);
  expectGradient(weights, gradWeights.data, dispatchLoss);
  auto combineLoss = [&] {
    EXPECT_OK(combine(rows.view(), slots.view(), weights.view(), {}, combined.view()));
    return inner(combined.data, toTokens.data);
  };
  EXPECT_OK(dispatch(toTokens.view(), slots.view(), weights.view(), {}, gradRows.view()));
  EXPECT_OK(slotDot(toTokens.view(), rows.view(), slots.view(), {}, gradWeights.view()));
  expectGradient(rows, gradRows.data, combineLoss);
  expectGradient(weights, gradWeights.data, combineLoss);
}

} // namespace
} // namespace moert::host
