//===- KernelsOptimizerTest.cpp - clipping, SGD and Adam ------------------===//

#include "KernelsTest.h"

#include "host/Kernels.h"

namespace moert::host {
namespace {

template <class T> class KernelsOptimizerTest : public ::testing::Test {};
TYPED_TEST_SUITE(KernelsOptimizerTest, FloatingTypes);

// Sums of any number of squares, including none, stay exact in f32.
TYPED_TEST(KernelsOptimizerTest, SumSquares) {
  using T = TypeParam;
  for (int64_t count : {0, 1, 2, 7, 64, 1001}) {
    auto x = randomTensor<T>({count}, 1);
    Tensor<T> out({}, T(NAN));
    EXPECT_OK(sumSquares(x.view(), out.view()));
    double expected = 0;
    for (T value : x.data)
      expected += double(value) * double(value);
    expectNear(out.data, std::vector<double>{expected}, 1e-7);
  }
  Tensor<float> many({1000, 1000}, 0.1f), sum({});
  EXPECT_OK(sumSquares(many.view(), sum.view()));
  EXPECT_NEAR(sum[0], double(0.1f) * 0.1f * 1e6, 1e-2);
  expectError(sumSquares(many.view(), many.view()), MOERT_ERROR_INVALID_ARGUMENT, "'sum_squares': expected 'out'");
}

TYPED_TEST(KernelsOptimizerTest, ClipFactor) {
  using T = TypeParam;
  auto factor = [](double sum, double most) {
    Tensor<T> in({}, {T(sum)}), out({});
    EXPECT_OK(clipFactor(in.view(), out.view(), most));
    return double(out[0]);
  };
  EXPECT_NEAR(factor(16, 1), 1 / 4.000001, 1e-7);
  EXPECT_EQ(factor(0.25, 1), 1);
  EXPECT_EQ(factor(0, 1), 1);
  EXPECT_EQ(factor(INFINITY, 1), 0);
  EXPECT_EQ(factor(NAN, 1), 0);
  Tensor<T> in({}, {T(9)}), wrong({1});
  EXPECT_OK(squareRoot(in.view(), in.view()));
  EXPECT_EQ(in[0], T(3));
  expectError(squareRoot(wrong.view(), wrong.view()), MOERT_ERROR_INVALID_ARGUMENT, "expected 'in' to be");
  expectError(clipFactor(in.view(), in.view(), -1), MOERT_ERROR_INVALID_ARGUMENT, "'most'");
}

// Several steps in place, with and without a factor, follow the formula in double precision.
TYPED_TEST(KernelsOptimizerTest, Sgd) {
  using T = TypeParam;
  const int64_t n = 37;
  const double momentum = 0.9, decay = 0.01;
  auto param = randomTensor<T>({n}, 1), velocity = randomTensor<T>({n}, 2);
  std::vector<double> p = doubles(param), v = doubles(velocity);
  for (int step = 0; step < 4; ++step) {
    auto grad = randomTensor<T>({n}, 10 + step);
    Tensor<T> rate({}, {T(0.125 / (step + 1))}), factor({}, {T(0.5)});
    EXPECT_OK(sgd(param.view(), grad.view(), velocity.view(), rate.view(), step % 2 ? factor.view() : View(),
                  param.view(), velocity.view(), momentum, decay));
    for (int64_t i = 0; i < n; ++i) {
      double g = (step % 2 ? 0.5 : 1) * double(grad[i]) + decay * p[i];
      v[i] = momentum * v[i] + g;
      p[i] -= double(rate[0]) * v[i];
    }
    expectNear(param.data, p, 1e-1 * tolerance<T>());
    expectNear(velocity.data, v, 1e-1 * tolerance<T>());
  }
}

TYPED_TEST(KernelsOptimizerTest, Adam) {
  using T = TypeParam;
  const int64_t n = 37;
  const AdamOptions options{0.9, 0.98, 1e-6, 0.1};
  auto param = randomTensor<T>({n}, 1);
  Tensor<T> first({n}), second({n});
  Tensor<int32_t> step({});
  std::vector<double> p = doubles(param), m(n), v(n);
  for (int t = 1; t <= 6; ++t, ++step[0]) {
    auto grad = randomTensor<T>({n}, 10 + t);
    Tensor<T> rate({}, {T(0.01 * t)}), factor({}, {T(0.25)});
    EXPECT_OK(adam(param.view(), grad.view(), first.view(), second.view(), rate.view(), step.view(),
                   t % 2 ? factor.view() : View(), param.view(), first.view(), second.view(), options));
    for (int64_t i = 0; i < n; ++i) {
      const double g = (t % 2 ? 0.25 : 1) * double(grad[i]), learning = double(rate[0]);
      p[i] *= 1 - learning * options.decay;
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
      p[i] -= learning / (1 - std::pow(options.beta1, t)) * m[i] /
              (std::sqrt(v[i] / (1 - std::pow(options.beta2, t))) + options.eps);
    }
    expectNear(param.data, p, 1e-1 * tolerance<T>());
    expectNear(first.data, m, 1e-1 * tolerance<T>());
    expectNear(second.data, v, 1e-1 * tolerance<T>());
  }
}

// A factor of 0 leaves out gradients that are not finite. Results in other memory leave the inputs unchanged.
TYPED_TEST(KernelsOptimizerTest, FactorOfZero) {
  using T = TypeParam;
  Tensor<T> param({2}, T(1)), grad({2}, {T(NAN), T(INFINITY)}), state({2}), rate({}, {T(1)}), factor({}), out({2}),
      a({2}), b({2});
  Tensor<int32_t> step({});
  EXPECT_OK(adam(param.view(), grad.view(), state.view(), state.view(), rate.view(), step.view(), factor.view(),
                 out.view(), a.view(), b.view(), {0.9, 0.99, 1e-8, 0.0}));
  EXPECT_EQ(out.data, param.data);
  EXPECT_EQ(a.data, state.data);
  EXPECT_OK(sgd(param.view(), grad.view(), state.view(), rate.view(), factor.view(), out.view(), a.view(), 0.9, 0.5));
  EXPECT_EQ(out.data, (std::vector<T>{T(0.5), T(0.5)}));
  EXPECT_EQ(param.data, (std::vector<T>{1, 1}));
}

TYPED_TEST(KernelsOptimizerTest, Refuses) {
  using T = TypeParam;
  Tensor<T> x({4}), wrong({3}), rate({}), rates({1});
  Tensor<int32_t> step({}, {-1});
  auto error = [&](View grad, View at, View factor, View out, const char *text) {
    expectError(adam(x.view(), grad, x.view(), x.view(), at, step.view(), factor, x.view(), x.view(), out, {}),
                MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  error(x.view(), rate.view(), {}, x.view(), "'adam': expected 'step' of 0 or more but got -1");
  error(wrong.view(), rate.view(), {}, x.view(), "expected 'grad'");
  error(x.view(), rates.view(), {}, x.view(), "expected 'rate'");
  error(x.view(), rate.view(), wrong.view(), x.view(), "expected 'factor'");
  error(x.view(), rate.view(), {}, wrong.view(), "expected 'second_out'");
  expectError(sgd(x.view(), x.view(), wrong.view(), rate.view(), {}, x.view(), x.view(), 0, 0),
              MOERT_ERROR_INVALID_ARGUMENT, "'sgd': expected 'velocity'");
}

} // namespace
} // namespace moert::host
