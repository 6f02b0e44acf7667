//===- KernelsEmbeddingTest.cpp - ids, casts, embeddings, losses ----------===//

#include "KernelsTest.h"

#include "core/Convert.h"
#include "host/Kernels.h"

#include <numeric>

namespace moert::host {
namespace {

template <class T> class KernelsEmbeddingTest : public ::testing::Test {};
TYPED_TEST_SUITE(KernelsEmbeddingTest, FloatingTypes);

Tensor<int32_t> randomIds(int64_t count, int64_t lowest, int64_t end, int seed) {
  Tensor<int32_t> ids({count});
  std::mt19937_64 engine(seed);
  for (int32_t &id : ids.data)
    id = static_cast<int32_t>(lowest + int64_t(engine() % uint64_t(end - lowest)));
  return ids;
}

// Positions count from 0 in each sequence, also if the last sequence is incomplete or there is none.
TEST(KernelsEmbedding, Positions) {
  Tensor<int32_t> out({7}), none({0});
  EXPECT_OK(positions(out.view(), 3, {}));
  EXPECT_EQ(out.data, (std::vector<int32_t>{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_OK(positions(none.view(), 3, {}));
  expectError(positions(out.view(), 0, {}), MOERT_ERROR_INVALID_ARGUMENT,
              "'positions': expected 'period' of 1 or more");
  Tensor<float> wrong({7});
  expectError(positions(wrong.view(), 3, {}), MOERT_ERROR_INVALID_ARGUMENT, "to be i32[7] but got f32[7]");
}

// An affine index is also computed in place. A result that does not fit in i32 is an error.
TEST(KernelsEmbedding, IndexAffine) {
  Tensor<int32_t> in({2, 2}, {0, 1, -3, 7}), out({2, 2});
  EXPECT_OK(indexAffine(in.view(), out.view(), -2, 5));
  EXPECT_EQ(out.data, (std::vector<int32_t>{5, 3, 11, -9}));
  EXPECT_OK(indexAffine(in.view(), in.view(), 1, 1));
  EXPECT_EQ(in.data, (std::vector<int32_t>{1, 2, -2, 8}));
  expectError(indexAffine(in.view(), out.view(), int64_t(1) << 30, 0), MOERT_ERROR_INVALID_ARGUMENT,
              "the result of 2 at 1 does not fit in i32");
  expectError(indexAffine(in.view(), out.view(), INT64_MAX, 1), MOERT_ERROR_INVALID_ARGUMENT, "does not fit");
}

TYPED_TEST(KernelsEmbeddingTest, Fill) {
  using T = TypeParam;
  Tensor<T> out({3, 5}), scalar({});
  EXPECT_OK(fill(out.view(), 0.1));
  EXPECT_EQ(out.data, std::vector<T>(15, T(0.1)));
  EXPECT_OK(fill(scalar.view(), -2));
  EXPECT_EQ(scalar[0], T(-2));
  Tensor<int32_t> integers({2});
  EXPECT_OK(fill(integers.view(), 3));
  EXPECT_EQ(integers.data, (std::vector<int32_t>{3, 3}));
  expectError(fill(integers.view(), 0.5), MOERT_ERROR_INVALID_ARGUMENT, "expected an i32 value");
}

View narrowView(std::vector<uint16_t> &bits, int32_t dtype = MOERT_BF16) {
  View view;
  view.data = bits.data();
  view.dtype = dtype;
  view.rank = 1;
  view.dims[0] = static_cast<int64_t>(bits.size());
  return view;
}

// bf16 is rounded once, ties to even, also from f64, where rounding to f32 first would create ties.
TEST(KernelsEmbedding, CastToBf16) {
  const double ulp = std::ldexp(1.0, -7), inf = INFINITY;
  Tensor<double> in({11}, {1, 1 + ulp / 2, 1 + 1.5 * ulp, 1 + ulp / 2 + 1e-12, -1 - ulp / 2 - 1e-12,
                           1 + ulp / 2 - 1e-12, 1e300, -inf, NAN, 3.4e38, 0});
  std::vector<uint16_t> bits(11);
  EXPECT_OK(cast(in.view(), narrowView(bits)));
  EXPECT_EQ(bits[8] & 0x7fc0, 0x7fc0);
  bits[8] = 0;
  EXPECT_EQ(bits,
            (std::vector<uint16_t>{0x3f80, 0x3f80, 0x3f82, 0x3f81, 0xbf81, 0x3f80, 0x7f80, 0xff80, 0, 0x7f80, 0}));
  Tensor<float> narrow({3}, {1.00390625f, 1.01171875f, -2.5f}), back({3});
  std::vector<uint16_t> some(3), copied(3);
  EXPECT_OK(cast(narrow.view(), narrowView(some)));
  EXPECT_EQ(some, (std::vector<uint16_t>{0x3f80, 0x3f82, 0xc020}));
  EXPECT_OK(cast(narrowView(some), back.view()));
  EXPECT_EQ(back.data, (std::vector<float>{1.0f, 1.015625f, -2.5f}));
  EXPECT_OK(cast(narrowView(some), narrowView(copied)));
  EXPECT_EQ(copied, some);
}

// f16, too, is rounded once, also between the two 16-bit types.
TEST(KernelsEmbedding, CastToF16) {
  const double ulp = std::ldexp(1.0, -10);
  Tensor<double> in({7}, {1 + ulp / 2, 1 + 1.5 * ulp, 1 + ulp / 2 + 1e-12, -0x1p-24, 65520, 65519, 0x1p-26}), back({7});
  std::vector<uint16_t> bits(7), brain(7);
  EXPECT_OK(cast(in.view(), narrowView(bits, MOERT_F16)));
  EXPECT_EQ(bits, (std::vector<uint16_t>{0x3c00, 0x3c02, 0x3c01, 0x8001, 0x7c00, 0x7bff, 0}));
  EXPECT_OK(cast(narrowView(bits, MOERT_F16), back.view()));
  EXPECT_EQ(back.data, (std::vector<double>{1, 1 + 2 * ulp, 1 + ulp, -0x1p-24, INFINITY, 65504, 0}));
  EXPECT_OK(cast(narrowView(bits, MOERT_F16), narrowView(brain)));
  EXPECT_EQ(brain, (std::vector<uint16_t>{0x3f80, 0x3f80, 0x3f80, 0xb380, 0x7f80, 0x4780, 0}));
}

// The vectorised loop gives the results of single conversions.
TEST(KernelsEmbedding, CastAllF16) {
  std::vector<uint16_t> bits(0x10000), again(0x10000);
  std::iota(bits.begin(), bits.end(), uint16_t(0));
  for (int32_t dtype : {MOERT_F16, MOERT_BF16}) {
    Tensor<float> wide({0x10000});
    EXPECT_OK(cast(narrowView(bits, dtype), wide.view()));
    for (int64_t i = 0; i < wide.size(); ++i)
      ASSERT_TRUE(static_cast<double>(wide[i]) == elementAt(bits.data(), dtype, i) || std::isnan(wide[i])) << i;
    EXPECT_OK(cast(wide.view(), narrowView(again, dtype)));
    EXPECT_EQ(again, bits);
  }
}

TEST(KernelsEmbedding, Cast) {
  Tensor<double> wide({2, 2}, {0.1, 1e40, -3, NAN}), back({2, 2});
  Tensor<float> narrow({2, 2}), other({4});
  EXPECT_OK(cast(wide.view(), narrow.view()));
  EXPECT_EQ(narrow[0], 0.1f);
  EXPECT_EQ(narrow[1], INFINITY);
  EXPECT_OK(cast(narrow.view(), back.view()));
  EXPECT_EQ(back[0], double(0.1f));
  EXPECT_TRUE(std::isnan(back[3]));
  expectError(cast(wide.view(), other.view()), MOERT_ERROR_INVALID_ARGUMENT,
              "'cast': expected 'out' to be f32[2,2] but got f32[4]");
  Tensor<int32_t> integers({2, 2});
  expectError(cast(wide.view(), integers.view()), MOERT_ERROR_INVALID_ARGUMENT, "'out' to be f32 or f64");
}

// The parts of a table give their own rows and zeros, so that their sum is the whole table's result.
TYPED_TEST(KernelsEmbeddingTest, EmbeddingInParts) {
  using T = TypeParam;
  const int64_t s = 40, v = 6, m = 19, parts = 3;
  auto ids = randomIds(s, 0, v * parts, 1);
  auto table = randomTensor<T>({v * parts, m}, 2);
  Tensor<T> whole({s, m}, T(NAN)), sum({s, m});
  EXPECT_OK(embedding(ids.view(), table.view(), whole.view(), {}));
  for (int64_t i = 0; i < s; ++i)
    for (int64_t j = 0; j < m; ++j)
      ASSERT_EQ(whole[i * m + j], table[ids[i] * m + j]);
  for (int64_t rank = 2; rank < 8; rank += 2) {
    const Part part{parts, 2, rank};
    Tensor<T> mine({v, m}, std::vector<T>(table.data.begin() + part.index() * v * m,
                                          table.data.begin() + (part.index() + 1) * v * m));
    Tensor<T> out({s, m}, T(NAN));
    EXPECT_OK(embedding(ids.view(), mine.view(), out.view(), part));
    for (int64_t i = 0; i < s * m; ++i)
      sum[i] += out[i];
  }
  EXPECT_EQ(sum.data, whole.data);
}

// The gradient adds the rows of each id to the addend, in its own memory or another's.
TYPED_TEST(KernelsEmbeddingTest, EmbeddingGrad) {
  using T = TypeParam;
  const int64_t s = 50, v = 7, m = 5, parts = 2;
  auto ids = randomIds(s, 0, v * parts, 1);
  for (int32_t &id : ids.data)
    id = id == 9 ? 8 : id;
  auto grads = randomTensor<T>({s, m}, 2), addend = randomTensor<T>({v, m}, 3);
  for (int64_t rank : {0, 1}) {
    std::vector<double> plain(v * m);
    for (int64_t i = 0; i < s; ++i)
      for (int64_t j = 0; j < m; ++j)
        if (ids[i] / v == rank)
          plain[(ids[i] - rank * v) * m + j] += double(grads[i * m + j]);
    Tensor<T> out({v, m}, T(NAN)), same = addend;
    EXPECT_OK(embeddingGrad(ids.view(), grads.view(), {}, out.view(), {parts, 1, rank}, -1));
    expectNear(out.data, plain, tolerance<T>());
    EXPECT_OK(embeddingGrad(ids.view(), grads.view(), addend.view(), out.view(), {parts, 1, rank}, -1));
    EXPECT_OK(embeddingGrad(ids.view(), grads.view(), same.view(), same.view(), {parts, 1, rank}, -1));
    for (int64_t i = 0; i < v * m; ++i)
      plain[i] += double(addend[i]);
    expectNear(out.data, plain, tolerance<T>());
    EXPECT_EQ(same.data, out.data);
  }
}

// Tokens of the padding id, which counts over all parts, add nothing to their row.
TYPED_TEST(KernelsEmbeddingTest, GradOfPadding) {
  using T = TypeParam;
  Tensor<int32_t> ids({4}, {1, 3, 2, 3});
  Tensor<T> grads({4, 1}, {T(1), T(2), T(4), T(8)}), addend({2, 1}, {T(16), T(32)}), out({2, 1});
  const Part second{2, 1, 1};
  EXPECT_OK(embeddingGrad(ids.view(), grads.view(), addend.view(), out.view(), second, 3));
  EXPECT_EQ(out.data, (std::vector<T>{20, 32}));
  EXPECT_OK(embeddingGrad(ids.view(), grads.view(), {}, out.view(), second, 3));
  EXPECT_EQ(out.data, (std::vector<T>{4, 0}));
  EXPECT_OK(embeddingGrad(ids.view(), grads.view(), {}, out.view(), second, 1));
  EXPECT_EQ(out.data, (std::vector<T>{4, 10}));
  expectError(embeddingGrad(ids.view(), grads.view(), {}, out.view(), second, 4), MOERT_ERROR_INVALID_ARGUMENT,
              "expected 'padding' below 4 but got 4");
}

// A sum of a thousand rows of one id stays exact in f32.
TEST(KernelsEmbedding, GradOfFrequentId) {
  const int64_t s = 100000;
  Tensor<int32_t> ids({s});
  Tensor<float> grads({s, 1}, 0.1f), out({2, 1});
  EXPECT_OK(embeddingGrad(ids.view(), grads.view(), {}, out.view(), {}, -1));
  EXPECT_EQ(out[0], static_cast<float>(double(0.1f) * s));
  EXPECT_EQ(out[1], 0.0f);
}

// Ids out of range are named with their place. Without tokens the gradient is zero.
TYPED_TEST(KernelsEmbeddingTest, EmbeddingEdges) {
  using T = TypeParam;
  Tensor<T> table({32, 2}), out({3, 2}), noRows({0, 2}), grad({32, 2}, T(NAN)), wrong({3, 3});
  Tensor<int32_t> high({3}, {0, 63, 64}), low({3}, {0, -1, 0}), good({3}), none({0});
  expectError(embedding(high.view(), table.view(), out.view(), {2, 1, 0}), MOERT_ERROR_INVALID_ARGUMENT,
              "'embedding': expected 'ids' from 0 to 63 but got 64 at 2");
  expectError(embedding(low.view(), table.view(), out.view(), {}), MOERT_ERROR_INVALID_ARGUMENT,
              "expected 'ids' from 0 to 31 but got -1 at 1");
  expectError(embeddingGrad(low.view(), out.view(), {}, grad.view(), {}, -1), MOERT_ERROR_INVALID_ARGUMENT, "-1 at 1");
  expectError(embedding(good.view(), table.view(), wrong.view(), {}), MOERT_ERROR_INVALID_ARGUMENT,
              "expected 'out' to be");
  expectError(embedding(good.view(), table.view(), out.view(), {0, 1, 0}), MOERT_ERROR_INVALID_ARGUMENT,
              "expected 'parts' and 'stride' of 1 or more but got 0 and 1");
  expectError(embedding(good.view(), table.view(), out.view(), {2, 0, 0}), MOERT_ERROR_INVALID_ARGUMENT, "2 and 0");
  View half = table.view();
  half.dtype = MOERT_BF16;
  expectError(embedding(good.view(), half, out.view(), {}), MOERT_ERROR_UNSUPPORTED, "bf16 runs on no host kernel");
  EXPECT_OK(embedding(none.view(), table.view(), noRows.view(), {}));
  EXPECT_OK(embeddingGrad(none.view(), noRows.view(), {}, grad.view(), {}, -1));
  EXPECT_EQ(grad.data, std::vector<T>(64, T(0)));
}

// --- Losses ------------------------------------------------------------------

double slowLogsumexp(const double *x, int64_t count) {
  double largest = -INFINITY, sum = 0;
  for (int64_t j = 0; j < count; ++j)
    largest = std::max(largest, x[j]);
  for (int64_t j = 0; j < count; ++j)
    sum += std::exp(x[j] - largest);
  return largest + std::log(sum);
}

// Rows have any length, with values far apart, in blocks whose maxima rise and fall.
TYPED_TEST(KernelsEmbeddingTest, Logsumexp) {
  using T = TypeParam;
  for (int64_t columns : {1, 7, 1024, 1025, 5000})
    for (double deviation : {1.0, 100.0}) {
      const int64_t s = 3;
      auto x = randomTensor<T>({s, columns}, int(columns), deviation);
      Tensor<T> out({s, 1}, T(NAN)), grad({s, columns}), factors({s, 1}, {T(1), T(-2), T(0.5)});
      EXPECT_OK(rowLogsumexp(x.view(), out.view()));
      EXPECT_OK(rowLogsumexpGrad(x.view(), out.view(), factors.view(), grad.view()));
      std::vector<double> wide = doubles(x), expected, softmax;
      for (int64_t i = 0; i < s; ++i) {
        expected.push_back(slowLogsumexp(&wide[i * columns], columns));
        for (int64_t j = 0; j < columns; ++j)
          softmax.push_back(double(factors[i]) * std::exp(wide[i * columns + j] - expected[i]));
      }
      expectNear(out.data, expected, 0.1 * tolerance<T>());
      expectNear(grad.data, softmax, tolerance<T>());
      EXPECT_OK(rowLogsumexpGrad(x.view(), out.view(), factors.view(), x.view()));
      EXPECT_EQ(x.data, grad.data);
    }
}

// Infinities give the limits, NaN gives NaN, and a row without columns gives the logarithm of zero.
TYPED_TEST(KernelsEmbeddingTest, LogsumexpEdges) {
  using T = TypeParam;
  const T inf = INFINITY;
  Tensor<T> x({5, 2}, {-inf, -inf, -inf, 3, inf, 0, T(NAN), 1, T(NAN), -inf}), out({5, 1}), none({2, 0}), empty({2, 1});
  EXPECT_OK(rowLogsumexp(x.view(), out.view()));
  EXPECT_EQ(out[0], -inf);
  EXPECT_EQ(out[1], T(3));
  EXPECT_EQ(out[2], inf);
  EXPECT_TRUE(std::isnan(out[3]));
  EXPECT_TRUE(std::isnan(out[4]));
  EXPECT_OK(rowLogsumexp(none.view(), empty.view()));
  EXPECT_EQ(empty[0], -inf);
}

TEST(KernelsEmbedding, LogsumexpGradIsTheGradient) {
  auto x = randomTensor<double>({3, 9}, 1), to = randomTensor<double>({3, 1}, 2);
  Tensor<double> out({3, 1}), grad({3, 9});
  auto loss = [&] {
    EXPECT_OK(rowLogsumexp(x.view(), out.view()));
    return inner(out.data, to.data);
  };
  loss();
  EXPECT_OK(rowLogsumexpGrad(x.view(), out.view(), to.view(), grad.view()));
  expectGradient(x, grad.data, loss);
}

// Labels below 0 are ignored. Labels of other parts belong to those parts.
TYPED_TEST(KernelsEmbeddingTest, Pick) {
  using T = TypeParam;
  const int64_t s = 30, v = 5, parts = 2;
  auto labels = randomIds(s, -3, v * parts, 1);
  auto x = randomTensor<T>({s, v}, 2), grads = randomTensor<T>({s, 1}, 3);
  for (int64_t rank : {0, 1}) {
    Tensor<T> out({s, 1}, T(NAN)), grad({s, v}, T(NAN)), same = x;
    EXPECT_OK(pick(x.view(), labels.view(), out.view(), {parts, 1, rank}));
    EXPECT_OK(pickGrad(labels.view(), grads.view(), {}, grad.view(), {parts, 1, rank}));
    EXPECT_OK(pickGrad(labels.view(), grads.view(), same.view(), same.view(), {parts, 1, rank}));
    for (int64_t i = 0; i < s; ++i)
      for (int64_t j = 0; j < v; ++j) {
        const bool isIt = labels[i] == rank * v + j;
        ASSERT_TRUE(!isIt || out[i] == x[i * v + j]);
        ASSERT_EQ(grad[i * v + j], isIt ? grads[i] : T(0));
        ASSERT_EQ(same[i * v + j], x[i * v + j] + grad[i * v + j]);
      }
    for (int64_t i = 0; i < s; ++i)
      ASSERT_TRUE((labels[i] >= 0 && labels[i] / v == rank) || out[i] == T(0));
  }
  labels[17] = 10;
  Tensor<T> out({s, 1});
  expectError(pick(x.view(), labels.view(), out.view(), {parts, 1, 0}), MOERT_ERROR_INVALID_ARGUMENT,
              "'pick': expected 'labels' below 10 but got 10 at 17");
  expectError(pickGrad(labels.view(), grads.view(), {}, x.view(), {parts, 1, 0}), MOERT_ERROR_INVALID_ARGUMENT,
              "10 at 17");
}

// Sums and counts ignore labels below 0. Without rows both are zero, and so is any quotient by the count.
TYPED_TEST(KernelsEmbeddingTest, LabelSumAndDivide) {
  using T = TypeParam;
  Tensor<T> rows({4, 1}, {T(1), T(NAN), T(2), T(4)}), sum({}), count({}), mean({}), grad({}, {T(0.5)}), out({4, 1});
  Tensor<int32_t> labels({4}, {3, -1, 0, 99}), none({0});
  EXPECT_OK(labelSum(rows.view(), labels.view(), sum.view()));
  EXPECT_OK(labelCount(labels.view(), count.view()));
  EXPECT_EQ(sum[0], T(7));
  EXPECT_EQ(count[0], T(3));
  EXPECT_OK(divide(sum.view(), count.view(), mean.view()));
  EXPECT_EQ(mean[0], T(7) / T(3));
  EXPECT_OK(labelSumGrad(labels.view(), grad.view(), out.view()));
  EXPECT_EQ(out.data, (std::vector<T>{T(0.5), 0, T(0.5), T(0.5)}));
  Tensor<T> noRows({0, 1});
  Tensor<int32_t> batches({2, 3}, {-1, 5, 0, -100, -1, 2});
  EXPECT_OK(labelCount(batches.view(), count.view()));
  EXPECT_EQ(count[0], T(3));
  EXPECT_OK(labelSum(noRows.view(), none.view(), sum.view()));
  EXPECT_OK(labelCount(none.view(), count.view()));
  EXPECT_EQ(sum[0], T(0));
  EXPECT_OK(divide(grad.view(), count.view(), count.view()));
  EXPECT_EQ(count[0], T(0));
  expectError(divide(rows.view(), count.view(), count.view()), MOERT_ERROR_INVALID_ARGUMENT, "expected 'a' to be");
  expectError(labelSum(rows.view(), none.view(), sum.view()), MOERT_ERROR_INVALID_ARGUMENT, "'labels'");
  expectError(labelCount(rows.view(), count.view()), MOERT_ERROR_INVALID_ARGUMENT, "expected 'labels' to be i32");
}

} // namespace
} // namespace moert::host
