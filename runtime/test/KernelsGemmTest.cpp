//===- KernelsGemmTest.cpp - matrix products against loops -----------------===//

#include "KernelsTest.h"

#include <thread>

namespace moert::host {
namespace {

template <class T> class KernelsGemmTest : public ::testing::Test {};
TYPED_TEST_SUITE(KernelsGemmTest, FloatingTypes);

/// c [m,n] = op(a) op(b) from the given offsets on, in double.
template <class T>
std::vector<double> slowProduct(const T *a, const T *b, int64_t m, int64_t n, int64_t k, bool transposeA,
                                bool transposeB) {
  std::vector<double> c(m * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; ++p)
        c[i * n + j] += double(a[transposeA ? p * m + i : i * k + p]) * double(b[transposeB ? j * k + p : p * n + j]);
  return c;
}

// Every combination of transposes and of odd, single and empty sizes gives the sum of products.
TYPED_TEST(KernelsGemmTest, MatmulAgreesWithLoops) {
  using T = TypeParam;
  for (int64_t m : {0, 1, 5, 33})
    for (int64_t n : {0, 1, 7, 18})
      for (int64_t k : {0, 1, 6, 65})
        for (int flags = 0; flags < 4; ++flags) {
          bool ta = flags & 1, tb = flags & 2;
          auto a = randomTensor<T>(ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k}, 1);
          auto b = randomTensor<T>(tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n}, 2);
          Tensor<T> c({m, n}, T(NAN));
          EXPECT_OK(matmul(a.view(), b.view(), c.view(), ta, tb));
          expectNear(c.data, slowProduct(a.data.data(), b.data.data(), m, n, k, ta, tb), tolerance<T>());
        }
}

// In the capacity form each expert multiplies its own C rows.
TYPED_TEST(KernelsGemmTest, GroupedCapacityAgreesWithLoops) {
  using T = TypeParam;
  const int64_t e = 3, c = 5, k = 9, n = 4;
  auto rows = randomTensor<T>({e, c, k}, 1);
  for (bool transpose : {false, true}) {
    auto weights = randomTensor<T>(transpose ? std::vector<int64_t>{e, n, k} : std::vector<int64_t>{e, k, n}, 2);
    Tensor<T> out({e, c, n}, T(NAN));
    EXPECT_OK(groupedMatmul(rows.view(), weights.view(), {}, out.view(), transpose));
    for (int64_t x = 0; x < e; ++x)
      expectNear(std::vector<T>(&out[x * c * n], &out[x * c * n] + c * n),
                 slowProduct(&rows[x * c * k], &weights[x * k * n], c, n, k, false, transpose), tolerance<T>());
  }
}

// In the ragged form rows follow the counts summed over sources. Unused rows keep their values.
TYPED_TEST(KernelsGemmTest, GroupedRaggedAgreesWithLoops) {
  using T = TypeParam;
  const int64_t e = 4, r = 20, k = 6, n = 5;
  Tensor<int32_t> counts({2, e}, {1, 0, 3, 2, 4, 0, 0, 5});
  const int64_t first[] = {0, 5, 5, 8, 15};
  auto rows = randomTensor<T>({r, k}, 1), weights = randomTensor<T>({e, k, n}, 2), grads = randomTensor<T>({r, n}, 3);
  for (int64_t i = 15 * k; i < r * k; ++i)
    rows[i] = T(NAN);
  Tensor<T> out({r, n}, T(-7)), wgrad({e, k, n}, T(NAN));
  EXPECT_OK(groupedMatmul(rows.view(), weights.view(), counts.view(), out.view(), false));
  EXPECT_OK(groupedMatmulWgrad(rows.view(), grads.view(), counts.view(), {}, wgrad.view()));
  for (int64_t x = 0; x < e; ++x) {
    const int64_t count = first[x + 1] - first[x];
    const T *mine = rows.data.data() + first[x] * k;
    expectNear(std::vector<T>(out.data.begin() + first[x] * n, out.data.begin() + first[x + 1] * n),
               slowProduct(mine, &weights[x * k * n], count, n, k, false, false), tolerance<T>());
    expectNear(std::vector<T>(wgrad.data.begin() + x * k * n, wgrad.data.begin() + (x + 1) * k * n),
               slowProduct(mine, grads.data.data() + first[x] * n, k, n, count, true, false), tolerance<T>());
  }
  for (int64_t i = 15 * n; i < r * n; ++i)
    EXPECT_EQ(out[i], T(-7));
}

// The weight gradient of the capacity form sums over the C rows of the expert.
TYPED_TEST(KernelsGemmTest, WgradCapacityAgreesWithLoops) {
  using T = TypeParam;
  const int64_t e = 2, c = 6, k = 3, n = 4;
  auto rows = randomTensor<T>({e, c, k}, 1), grads = randomTensor<T>({e, c, n}, 2);
  Tensor<T> out({e, k, n}, T(NAN));
  EXPECT_OK(groupedMatmulWgrad(rows.view(), grads.view(), {}, {}, out.view()));
  for (int64_t x = 0; x < e; ++x)
    expectNear(std::vector<T>(&out[x * k * n], &out[x * k * n] + k * n),
               slowProduct(&rows[x * c * k], &grads[x * c * n], k, n, c, true, false), tolerance<T>());
}

// The gradient of a matrix is that of a single expert.
TYPED_TEST(KernelsGemmTest, MatmulWgradAddsToAddend) {
  using T = TypeParam;
  for (int64_t s : {0, 1, 6}) {
    auto rows = randomTensor<T>({s, 3}, 1), grads = randomTensor<T>({s, 4}, 2), addend = randomTensor<T>({3, 4}, 3);
    Tensor<T> alone({3, 4}, T(NAN)), apart({3, 4}, T(NAN)), same = addend;
    EXPECT_OK(matmulWgrad(rows.view(), grads.view(), {}, alone.view()));
    EXPECT_OK(matmulWgrad(rows.view(), grads.view(), addend.view(), apart.view()));
    EXPECT_OK(matmulWgrad(rows.view(), grads.view(), same.view(), same.view()));
    std::vector<double> expected = slowProduct(rows.data.data(), grads.data.data(), 3, 4, s, true, false);
    expectNear(alone.data, expected, tolerance<T>());
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] += double(addend[static_cast<int64_t>(i)]);
    expectNear(apart.data, expected, tolerance<T>());
    EXPECT_EQ(same.data, apart.data);
  }
}

// An addend is added once, in place or not, also for experts without rows.
TYPED_TEST(KernelsGemmTest, WgradAddsToAddend) {
  using T = TypeParam;
  const int64_t e = 3, k = 4, n = 5;
  auto ragged = randomTensor<T>({9, k}, 1), raggedGrads = randomTensor<T>({9, n}, 2);
  auto rows = randomTensor<T>({e, 3, k}, 3), grads = randomTensor<T>({e, 3, n}, 4),
       addend = randomTensor<T>({e, k, n}, 5);
  Tensor<T> noRows({e, 0, k}), noGrads({e, 0, n});
  Tensor<int32_t> counts({1, e}, {5, 0, 2});
  struct Form {
    View rows, grads, counts;
  };
  for (Form form : {Form{ragged.view(), raggedGrads.view(), counts.view()}, Form{rows.view(), grads.view(), {}},
                    Form{noRows.view(), noGrads.view(), {}}}) {
    Tensor<T> alone({e, k, n}), apart({e, k, n}, T(NAN)), same = addend;
    EXPECT_OK(groupedMatmulWgrad(form.rows, form.grads, form.counts, {}, alone.view()));
    EXPECT_OK(groupedMatmulWgrad(form.rows, form.grads, form.counts, addend.view(), apart.view()));
    EXPECT_OK(groupedMatmulWgrad(form.rows, form.grads, form.counts, same.view(), same.view()));
    std::vector<double> expected;
    for (int64_t i = 0; i < e * k * n; ++i)
      expected.push_back(double(alone[i]) + double(addend[i]));
    expectNear(apart.data, expected, tolerance<T>());
    EXPECT_EQ(same.data, apart.data);
  }
  Tensor<T> wrong({e, n, k}), out({e, k, n});
  expectError(groupedMatmulWgrad(rows.view(), grads.view(), {}, wrong.view(), out.view()), MOERT_ERROR_INVALID_ARGUMENT,
              "expected 'addend' to be");
}

// Without rows the product is empty and the weight gradient zero, in both forms.
TYPED_TEST(KernelsGemmTest, NoRows) {
  using T = TypeParam;
  Tensor<T> capacityRows({2, 0, 3}), weights({2, 3, 4}, T(1)), capacityOut({2, 0, 4}), wgrad({2, 3, 4}, T(NAN));
  EXPECT_OK(groupedMatmul(capacityRows.view(), weights.view(), {}, capacityOut.view(), false));
  EXPECT_OK(groupedMatmulWgrad(capacityRows.view(), capacityOut.view(), {}, {}, wgrad.view()));
  EXPECT_EQ(wgrad.data, std::vector<T>(24, T(0)));
  Tensor<int32_t> counts({1, 2});
  Tensor<T> rows({5, 3}, T(NAN)), grads({5, 4}, T(NAN)), ragged({2, 3, 4}, T(NAN));
  EXPECT_OK(groupedMatmulWgrad(rows.view(), grads.view(), counts.view(), {}, ragged.view()));
  EXPECT_EQ(ragged.data, std::vector<T>(24, T(0)));
}

// Counts that are negative, or exceed the rows of the buffer, are refused before any access.
TYPED_TEST(KernelsGemmTest, BadCounts) {
  using T = TypeParam;
  Tensor<T> rows({4, 2}), weights({2, 2, 2}), out({4, 2}, T(3));
  Tensor<int32_t> many({1, 2}, {2, 3}), negative({1, 2}, {-1, 3});
  expectError(groupedMatmul(rows.view(), weights.view(), many.view(), out.view(), false), MOERT_ERROR_OVERFLOW,
              "'counts' of 4 rows in all at most but got 5");
  expectError(groupedMatmul(rows.view(), weights.view(), negative.view(), out.view(), false),
              MOERT_ERROR_INVALID_ARGUMENT, "'counts' of 0 or more");
  EXPECT_EQ(out.data, std::vector<T>(8, T(3)));
}

// Errors of shapes name the expected shape.
TYPED_TEST(KernelsGemmTest, BadShapes) {
  using T = TypeParam;
  Tensor<T> a({2, 3}), b({4, 5}), c({2, 5}), rows({2, 4, 3}), weights({2, 5, 6}), out({2, 4, 6});
  expectError(matmul(a.view(), b.view(), c.view(), false, false), MOERT_ERROR_INVALID_ARGUMENT, "[3,5] but got");
  expectError(groupedMatmul(rows.view(), weights.view(), {}, out.view(), false), MOERT_ERROR_INVALID_ARGUMENT,
              "[2,3,6] but got");
  expectError(matmul({}, b.view(), c.view(), false, false), MOERT_ERROR_INVALID_ARGUMENT, "'a' is absent");
  Tensor<int32_t> integers({2, 3});
  expectError(matmul(integers.view(), b.view(), c.view(), false, false), MOERT_ERROR_INVALID_ARGUMENT, "f32 or f64");
  View half = a.view();
  for (int32_t dtype : {MOERT_BF16, MOERT_F16}) {
    half.dtype = dtype;
    expectError(matmul(half, b.view(), c.view(), false, false), MOERT_ERROR_UNSUPPORTED,
                "'matmul': " + std::string(dtypeName(dtype)) +
                    " runs on no host kernel; compile with --dtype=f32 or f64");
  }
}

// The libraries give the same bits to several threads calling at once as to one.
TYPED_TEST(KernelsGemmTest, ConcurrentCalls) {
  using T = TypeParam;
  const int64_t n = 96;
  auto a = randomTensor<T>({n, n}, 1), b = randomTensor<T>({n, n}, 2);
  initialiseThread();
  Tensor<T> expected({n, n});
  EXPECT_OK(matmul(a.view(), b.view(), expected.view(), false, false));
  std::vector<std::thread> threads;
  std::vector<int> wrong(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      initialiseThread();
      Tensor<T> c({n, n});
      for (int i = 0; i < 100; ++i) {
        std::fill(c.data.begin(), c.data.end(), T(0));
        bool ok = matmul(a.view(), b.view(), c.view(), false, false).ok();
        wrong[t] += !ok || c.data != expected.data;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8));
}

} // namespace
} // namespace moert::host
