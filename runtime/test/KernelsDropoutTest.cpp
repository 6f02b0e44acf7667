//===- KernelsDropoutTest.cpp - dropout and its random bits ---------------===//

#include "KernelsTest.h"

#include "core/Philox.h"
#include "host/Kernels.h"

namespace moert::host {
namespace {

template <class T> class KernelsDropoutTest : public ::testing::Test {};
TYPED_TEST_SUITE(KernelsDropoutTest, FloatingTypes);

std::vector<uint32_t> wordsOf(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (uint32_t round = 0; round < kPhiloxRounds; ++round)
    philoxRound(PhiloxKey{key[0], key[1]}.ofRound(round), counter[0], counter[1], counter[2], counter[3]);
  return {counter.begin(), counter.end()};
}

// Known answers that the paper's authors publish with their library.
TEST(KernelsDropout, PhiloxKnownAnswers) {
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(wordsOf({0, 0, 0, 0}, {0, 0}), (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(wordsOf({ones, ones, ones, ones}, {ones, ones}),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(wordsOf({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// keep / (1 - p) of moert.h, with one block of Philox for each element.
double slowFactor(int64_t seed, int32_t step, int64_t row, int64_t column, double p) {
  auto low = [](int64_t x) { return static_cast<uint32_t>(x); };
  auto high = [](int64_t x) { return static_cast<uint32_t>(static_cast<uint64_t>(x) >> 32); };
  std::vector<uint32_t> words = wordsOf({low(column / 4), low(row), high(row), low(step)}, {low(seed), high(seed)});
  return double(words[column % 4]) < p * 4294967296.0 ? 0 : 1 / (1 - p);
}

// Covers any size, seed and step, also in place.
TYPED_TEST(KernelsDropoutTest, AgreesWithLoops) {
  using T = TypeParam;
  for (int64_t columns : {1, 5, 64, 256, 700})
    for (int64_t seed : {int64_t(0), int64_t(-7), int64_t(1) << 40}) {
      const int64_t s = 3;
      const double p = 0.3;
      auto x = randomTensor<T>({s, columns}, 1);
      Tensor<int32_t> step({}, {12});
      Tensor<T> out({s, columns}, T(NAN));
      EXPECT_OK(dropout(x.view(), step.view(), out.view(), seed, {}, {}, p, {}));
      std::vector<double> expected;
      for (int64_t i = 0; i < s * columns; ++i)
        expected.push_back(double(x[i]) * slowFactor(seed, 12, i / columns, i % columns, p));
      expectNear(out.data, expected, tolerance<T>());
      EXPECT_OK(dropout(x.view(), step.view(), x.view(), seed, {}, {}, p, {}));
      EXPECT_EQ(x.data, out.data);
    }
}

// Each part of a divided value gets the bits of its place in the whole.
TEST(KernelsDropout, PartsOfTheWhole) {
  const int64_t rows = 6, columns = 30;
  Tensor<double> x({rows, columns}, 1.0), whole({rows, columns});
  Tensor<int32_t> step({}, {3});
  EXPECT_OK(dropout(x.view(), step.view(), whole.view(), 5, {}, {}, 0.5, {}));
  for (auto [rowParts, columnParts] : {std::pair<int64_t, int64_t>{1, 2}, {3, 1}, {2, 6}, {6, 10}})
    for (int64_t rank = 0; rank < rowParts * columnParts; ++rank) {
      const int64_t r = rows / rowParts, c = columns / columnParts;
      const Part ofRows{rowParts, columnParts, rank}, ofColumns{columnParts, 1, rank};
      Tensor<double> mine({r, c}, 1.0), out({r, c});
      EXPECT_OK(dropout(mine.view(), step.view(), out.view(), 5, ofRows, ofColumns, 0.5, {}));
      for (int64_t i = 0; i < r * c; ++i)
        ASSERT_EQ(out[i], whole[(ofRows.index() * r + i / c) * columns + ofColumns.index() * c + i % c]);
    }
}

// The share of dropped elements is the requested one. Another seed or step drops others.
TEST(KernelsDropout, Rates) {
  const int64_t n = 400;
  Tensor<double> x({n, n}, 1.0), first({n, n}), second({n, n});
  Tensor<int32_t> step({}, {0}), next({}, {1});
  for (double p : {0.0, 0.1, 0.5, 0.9}) {
    EXPECT_OK(dropout(x.view(), step.view(), first.view(), 1, {}, {}, p, {}));
    double dropped = double(std::count(first.data.begin(), first.data.end(), 0.0)) / double(n * n);
    EXPECT_NEAR(dropped, p, 5 * std::sqrt(p * (1 - p) / double(n * n)));
    for (auto [seed, at] : {std::pair{1, &next}, {2, &step}}) {
      EXPECT_OK(dropout(x.view(), at->view(), second.view(), seed, {}, {}, p, {}));
      double both = 0;
      for (int64_t i = 0; i < n * n; ++i)
        both += (first[i] == 0 && second[i] == 0) / double(n * n);
      EXPECT_NEAR(both, p * p, 5 * std::sqrt(p * p / double(n * n)) + 1e-12);
    }
  }
}

// Jitter turns the words of dropout into factors from 1 - p to 1 + p, with mean 1, independent of how a value is
// divided.
TEST(KernelsDropout, Jitter) {
  const int64_t n = 400;
  const double p = 0.25;
  Tensor<double> x({n, n}, 2.0), out({n, n}), part({n / 2, n}, 2.0);
  Tensor<int32_t> step({}, {3});
  EXPECT_OK(dropout(x.view(), step.view(), out.view(), 5, {}, {}, {p, true}, {}));
  double sum = 0, squares = 0;
  for (double value : out.data) {
    const double factor = value / 2;
    ASSERT_GT(factor, 1 - p);
    ASSERT_LT(factor, 1 + p);
    sum += factor - 1;
    squares += (factor - 1) * (factor - 1);
  }
  EXPECT_NEAR(sum / double(n * n), 0, 5 * p / std::sqrt(3.0) / double(n));
  EXPECT_NEAR(squares / double(n * n), p * p / 3, 1e-3);
  const uint32_t word = wordsOf({1, 7, 0, 3}, {5, 0})[2];
  EXPECT_DOUBLE_EQ(out[7 * n + 6], 2 * (1 - p + 2 * p * (double(word) + 0.5) * 0x1p-32));
  EXPECT_OK(dropout(part.view(), step.view(), part.view(), 5, {2, 1, 1}, {}, {p, true}, {}));
  EXPECT_TRUE(std::equal(part.data.begin(), part.data.end(), out.data.begin() + n * n / 2));
}

TEST(KernelsDropout, Refuses) {
  Tensor<float> x({2, 3}), wrong({3, 2}), none({0, 3});
  Tensor<int32_t> step({}), steps({1});
  EXPECT_OK(dropout(none.view(), step.view(), none.view(), 0, {}, {}, 0.5, {}));
  auto error = [&](View at, View out, Part rows, Part columns, double p, const char *text) {
    expectError(dropout(x.view(), at, out, 0, rows, columns, p, {}), MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  error(step.view(), x.view(), {}, {}, 1.0, "'dropout': expected 'p' from 0 to below 1 but got 1");
  error(step.view(), x.view(), {}, {}, NAN, "'p'");
  error(steps.view(), x.view(), {}, {}, 0.5, "expected 'step' to be i32[] but got i32[1]");
  error({}, x.view(), {}, {}, 0.5, "'step'");
  error(step.view(), wrong.view(), {}, {}, 0.5, "expected 'out'");
  error(step.view(), x.view(), {0, 1, 0}, {}, 0.5, "expected 'row_parts' and 'row_stride' of 1 or more");
  error(step.view(), x.view(), {}, {1, 0, 0}, 0.5, "expected 'column_parts' and 'column_stride' of 1 or more");
}

} // namespace
} // namespace moert::host
