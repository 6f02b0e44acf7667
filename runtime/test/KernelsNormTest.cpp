//===- KernelsNormTest.cpp - norms, inverse roots, rotary positions -------===//

#include "KernelsTest.h"

#include "core/Positions.h"
#include "host/Kernels.h"

namespace moert::host {
namespace {

template <class T> class KernelsNormTest : public ::testing::Test {};
TYPED_TEST_SUITE(KernelsNormTest, FloatingTypes);

constexpr int64_t kKinds[] = {MOERT_LAYER_NORM, MOERT_RMS_NORM, MOERT_NO_NORM};

/// n(x) of moert.h, block by block.
template <class T> std::vector<double> slowNormed(const Tensor<T> &x, int64_t d, int64_t kind, double eps) {
  std::vector<double> out(x.data.begin(), x.data.end());
  for (size_t first = 0; kind != MOERT_NO_NORM && first < out.size(); first += d) {
    double mean = 0, square = 0;
    for (int64_t i = 0; kind == MOERT_LAYER_NORM && i < d; ++i)
      mean += out[first + i] / double(d);
    for (int64_t i = 0; i < d; ++i)
      square += (out[first + i] - mean) * (out[first + i] - mean) / double(d);
    for (int64_t i = 0; i < d; ++i)
      out[first + i] = (out[first + i] - mean) / std::sqrt(square + eps);
  }
  return out;
}

// Covers every kind, with and without beta, in place, far from zero, and for blocks from one column to more than are
// summed at once.
TYPED_TEST(KernelsNormTest, NormAgreesWithLoops) {
  using T = TypeParam;
  for (int64_t kind : kKinds)
    for (int64_t d : {1, 3, 64, 1300})
      for (int64_t blocks : {1, 3}) {
        const int64_t s = 4;
        const double eps = 1e-3;
        auto x = randomTensor<T>({s, blocks * d}, 1), gamma = randomTensor<T>({d}, 2), beta = randomTensor<T>({d}, 3);
        for (T &value : x.data)
          value += T(20);
        std::vector<double> scaled = slowNormed(x, d, kind, eps), shifted;
        for (size_t i = 0; i < scaled.size(); ++i) {
          scaled[i] *= double(gamma[i % d]);
          shifted.push_back(scaled[i] + double(beta[i % d]));
        }
        Tensor<T> out({s, blocks * d}, T(NAN));
        EXPECT_OK(norm(x.view(), gamma.view(), {}, out.view(), kind, eps));
        expectNear(out.data, scaled, tolerance<T>());
        EXPECT_OK(norm(x.view(), gamma.view(), beta.view(), x.view(), kind, eps));
        expectNear(x.data, shifted, tolerance<T>());
      }
}

// The gradients by x and gamma are central differences of the forward, and the addend is added once.
TEST(KernelsNorm, Gradients) {
  const int64_t s = 5, d = 6, blocks = 2;
  const double eps = 0.1;
  for (int64_t kind : kKinds) {
    auto x = randomTensor<double>({s, blocks * d}, 1), gamma = randomTensor<double>({d}, 2),
         to = randomTensor<double>({s, blocks * d}, 3), addend = randomTensor<double>({d}, 4);
    Tensor<double> out({s, blocks * d}), grad({s, blocks * d}, NAN), wgrad({d}, NAN), same = to, sum = addend;
    auto loss = [&] {
      EXPECT_OK(norm(x.view(), gamma.view(), {}, out.view(), kind, eps));
      return inner(out.data, to.data);
    };
    EXPECT_OK(normGrad(x.view(), gamma.view(), to.view(), grad.view(), kind, eps));
    EXPECT_OK(normWgrad(x.view(), to.view(), {}, wgrad.view(), kind, eps));
    expectGradient(x, grad.data, loss);
    expectGradient(gamma, wgrad.data, loss);
    EXPECT_OK(normGrad(x.view(), gamma.view(), same.view(), same.view(), kind, eps));
    EXPECT_EQ(same.data, grad.data);
    EXPECT_OK(normWgrad(x.view(), to.view(), sum.view(), sum.view(), kind, eps));
    for (int64_t i = 0; i < d; ++i)
      wgrad[i] += addend[i];
    expectNear(sum.data, wgrad.data, 1e-13);
  }
}

// The f32 gradients agree with the f64 ones, for any remainder of rows modulo four.
TEST(KernelsNorm, GradientsOfF32) {
  const int64_t d = 700;
  for (int64_t kind : kKinds)
    for (int64_t s : {1, 2, 3, 4, 9}) {
      auto x = randomTensor<double>({s, d}, 1), gamma = randomTensor<double>({d}, 2),
           to = randomTensor<double>({s, d}, 3);
      Tensor<float> fx({s, d}, std::vector<float>(x.data.begin(), x.data.end()));
      Tensor<float> fg({d}, std::vector<float>(gamma.data.begin(), gamma.data.end()));
      Tensor<float> ft({s, d}, std::vector<float>(to.data.begin(), to.data.end()));
      Tensor<double> grad({s, d}), wgrad({d});
      Tensor<float> fgrad({s, d}), fwgrad({d});
      EXPECT_OK(normGrad(x.view(), gamma.view(), to.view(), grad.view(), kind, 1e-5));
      EXPECT_OK(normGrad(fx.view(), fg.view(), ft.view(), fgrad.view(), kind, 1e-5));
      EXPECT_OK(normWgrad(x.view(), to.view(), {}, wgrad.view(), kind, 1e-5));
      EXPECT_OK(normWgrad(fx.view(), ft.view(), {}, fwgrad.view(), kind, 1e-5));
      expectNear(fgrad.data, grad.data, 1e-5);
      expectNear(fwgrad.data, wgrad.data, 1e-5);
    }
}

// eps is inside the root: a row of zeros gives zeros. An empty operand is no error.
TYPED_TEST(KernelsNormTest, NormEdges) {
  using T = TypeParam;
  Tensor<T> zeros({2, 4}), gamma({4}, T(1)), out({2, 4}, T(NAN)), none({0, 4}), wgrad({4}, T(NAN)), wrong({3});
  EXPECT_OK(norm(zeros.view(), gamma.view(), {}, out.view(), MOERT_LAYER_NORM, 1e-5));
  EXPECT_EQ(out.data, std::vector<T>(8, T(0)));
  EXPECT_OK(norm(none.view(), gamma.view(), {}, none.view(), MOERT_RMS_NORM, 1e-5));
  EXPECT_OK(normWgrad(none.view(), none.view(), {}, wgrad.view(), MOERT_RMS_NORM, 1e-5));
  EXPECT_EQ(wgrad.data, std::vector<T>(4, T(0)));
  expectError(norm(zeros.view(), wrong.view(), {}, out.view(), MOERT_RMS_NORM, 1e-5), MOERT_ERROR_INVALID_ARGUMENT,
              "'norm': expected the columns of 'x' to be a multiple of those of 'gamma'");
  expectError(norm(zeros.view(), gamma.view(), {}, out.view(), 3, 1e-5), MOERT_ERROR_INVALID_ARGUMENT,
              "moert_norm_kind but got 3");
  expectError(norm(zeros.view(), gamma.view(), {}, out.view(), 0, -1), MOERT_ERROR_INVALID_ARGUMENT, "'eps'");
  expectError(norm(zeros.view(), gamma.view(), wrong.view(), out.view(), 0, 0), MOERT_ERROR_INVALID_ARGUMENT, "'beta'");
  expectError(normGrad(zeros.view(), gamma.view(), none.view(), out.view(), 0, 0), MOERT_ERROR_INVALID_ARGUMENT,
              "'grads'");
  expectError(normWgrad(zeros.view(), zeros.view(), wrong.view(), wgrad.view(), 0, 0), MOERT_ERROR_INVALID_ARGUMENT,
              "'addend'");
}

TYPED_TEST(KernelsNormTest, InverseRoot) {
  using T = TypeParam;
  Tensor<T> in({3}, {T(0), T(1), T(4)}), out({3});
  EXPECT_OK(inverseRoot(in.view(), out.view(), 0.5, 0.25));
  expectNear(out.data, std::vector<double>{2, 1 / std::sqrt(0.75), 1 / 1.5}, tolerance<T>());
  auto x = randomTensor<double>({7}, 1), to = randomTensor<double>({7}, 2);
  for (double &value : x.data)
    value = std::abs(value);
  Tensor<double> root({7}), grad({7});
  auto loss = [&] {
    EXPECT_OK(inverseRoot(x.view(), root.view(), 0.5, 0.25));
    return inner(root.data, to.data);
  };
  loss();
  EXPECT_OK(inverseRootGrad(root.view(), to.view(), grad.view(), 0.5));
  expectGradient(x, grad.data, loss);
}

// --- Clamps ------------------------------------------------------------------

// Bounds are kept and have a gradient. NaNs stay. Also in place.
TYPED_TEST(KernelsNormTest, Clamp) {
  using T = TypeParam;
  Tensor<T> in({6}, {T(-3), T(-2), T(0.5), T(2), T(2.5), T(NAN)}), out({6}), grads({6}, T(7)), grad({6});
  EXPECT_OK(clamp(in.view(), out.view(), 2));
  EXPECT_EQ(std::vector<T>(out.data.begin(), out.data.end() - 1), (std::vector<T>{-2, -2, T(0.5), 2, 2}));
  EXPECT_TRUE(std::isnan(out[5]));
  EXPECT_OK(clampGrad(in.view(), grads.view(), grad.view(), 2));
  EXPECT_EQ(grad.data, (std::vector<T>{0, 7, 7, 7, 0, 0}));
  EXPECT_OK(clampGrad(in.view(), grads.view(), grads.view(), 2));
  EXPECT_EQ(grad.data, grads.data);
  EXPECT_OK(clamp(in.view(), in.view(), 2));
  EXPECT_EQ(in[0], T(-2));
  expectError(clamp(in.view(), out.view(), 0), MOERT_ERROR_INVALID_ARGUMENT,
              "'clamp': expected 'limit' above 0 but got 0");
  auto x = randomTensor<double>({40}, 1), to = randomTensor<double>({40}, 2);
  Tensor<double> y({40}), gradient({40});
  auto loss = [&] {
    EXPECT_OK(clamp(x.view(), y.view(), 0.6));
    return inner(y.data, to.data);
  };
  loss();
  EXPECT_OK(clampGrad(x.view(), to.view(), gradient.view(), 0.6));
  expectGradient(x, gradient.data, loss);
}

// --- Rotary positions --------------------------------------------------------

template <class T> std::vector<double> slowRotary(const Tensor<T> &x, const RotaryOptions &o) {
  std::vector<double> out(x.data.begin(), x.data.end());
  const int64_t columns = x.dims[1], pairs = o.rotaryDim / 2;
  for (int64_t s = 0; s < x.dims[0]; ++s)
    for (int64_t h = 0; h < columns / o.headDim; ++h)
      for (int64_t i = 0; i < pairs; ++i) {
        double frequency = std::pow(o.base, -2.0 * double(i) / double(o.rotaryDim));
        if (o.factor != 1) {
          const double place = o.reach > 0 ? o.reach * frequency / (2 * M_PI) : double(i);
          double r = std::min(1.0, std::max(0.0, (place - o.low) / (o.high - o.low)));
          frequency *= 1 - r + r / o.factor;
        }
        const double t = double(o.direction * (s % o.period)) * frequency;
        const int64_t first = s * columns + h * o.headDim + o.begin;
        const int64_t at = first + (o.interleaved ? 2 * i : i), other = first + (o.interleaved ? 2 * i + 1 : i + pairs);
        const double a = double(x[at]), b = double(x[other]);
        const double scale = o.scale * (1 + o.temperature * std::log(1 + std::floor((s % o.period + 1) / o.span)));
        out[at] = scale * (a * std::cos(t) - b * std::sin(t));
        out[other] = scale * (b * std::cos(t) + a * std::sin(t));
      }
  return out;
}

// Covers both layouts of pairs, parts of a head, several sequences and YaRN's frequencies, also in place.
TYPED_TEST(KernelsNormTest, RotaryAgreesWithLoops) {
  using T = TypeParam;
  for (bool interleaved : {false, true})
    for (double factor : {1.0, 8.0})
      for (auto [begin, width] : {std::pair<int64_t, int64_t>{0, 20}, {4, 6}, {0, 0}}) {
        for (int64_t direction : {1, -1}) {
          RotaryOptions options{7, 20, begin, width, interleaved, direction, 100.0, factor, 1.0, 4.0, 1.25};
          auto x = randomTensor<T>({18, 60}, 1);
          Tensor<T> out({18, 60}, T(NAN));
          EXPECT_OK(rotary(x.view(), out.view(), options));
          expectNear(out.data, slowRotary(x, options), tolerance<T>());
          EXPECT_OK(rotary(x.view(), x.view(), options));
          EXPECT_EQ(x.data, out.data);
        }
      }
}

// Llama 3's frequencies are kept, interpolated or divided, by the turns of each pair.
TYPED_TEST(KernelsNormTest, RotaryOfTurns) {
  using T = TypeParam;
  RotaryOptions options{40, 16, 0, 16, false, 1, 50.0, 8.0, 4.0, 1.0, 1.0, 64.0};
  auto x = randomTensor<T>({40, 32}, 1);
  Tensor<T> out({40, 32}, T(NAN)), plain({40, 32});
  EXPECT_OK(rotary(x.view(), out.view(), options));
  expectNear(out.data, slowRotary(x, options), tolerance<T>());
  EXPECT_DOUBLE_EQ(rotaryFrequency(options, 0), 1.0);
  EXPECT_DOUBLE_EQ(rotaryFrequency(options, 7), std::pow(50.0, -14.0 / 16) / 8);
  const double turns = 64.0 * std::pow(50.0, -6.0 / 16) / (2 * M_PI), smooth = (turns - 1) / (4 - 1);
  EXPECT_GT(smooth, 0);
  EXPECT_LT(smooth, 1);
  EXPECT_NEAR(rotaryFrequency(options, 3), std::pow(50.0, -6.0 / 16) * ((1 - smooth) / 8 + smooth), 1e-15);
}

// Llama 4's temperature is a scale that grows with the position, without angles. It is its own adjoint.
TYPED_TEST(KernelsNormTest, RotaryOfTemperature) {
  using T = TypeParam;
  for (int64_t direction : {0, 1}) {
    RotaryOptions options{7, 6, 0, 6, false, direction, 100.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.1, 2.0};
    auto x = randomTensor<T>({14, 12}, 1);
    Tensor<T> out({14, 12}, T(NAN));
    EXPECT_OK(rotary(x.view(), out.view(), options));
    expectNear(out.data, slowRotary(x, options), tolerance<T>());
  }
  RotaryOptions still{7, 6, 0, 6, false, 0, 100.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.1, 2.0};
  Tensor<T> x({7, 6}, T(1)), out({7, 6});
  EXPECT_OK(rotary(x.view(), out.view(), still));
  EXPECT_NEAR(double(out[6 * 6]), 1 + 0.1 * std::log(4.0), 1e-6);
  EXPECT_EQ(double(out[0]), 1);
}

// <R x, y> = <x, R' y>. With scale 1 the adjoint is the inverse.
TEST(KernelsNorm, RotaryAdjoint) {
  for (bool interleaved : {false, true}) {
    RotaryOptions forward{5, 8, 2, 4, interleaved, 1, 1000.0, 4.0, 0.0, 2.0, 1.5}, back = forward;
    back.direction = -1;
    auto x = randomTensor<double>({11, 16}, 1), y = randomTensor<double>({11, 16}, 2);
    Tensor<double> rx({11, 16}), ry({11, 16});
    EXPECT_OK(rotary(x.view(), rx.view(), forward));
    EXPECT_OK(rotary(y.view(), ry.view(), back));
    EXPECT_NEAR(inner(rx.data, y.data), inner(x.data, ry.data), 1e-12);
    forward.scale = back.scale = 1;
    EXPECT_OK(rotary(x.view(), rx.view(), forward));
    EXPECT_OK(rotary(rx.view(), rx.view(), back));
    expectNear(rx.data, x.data, 1e-14);
  }
}

// Angles of tens of thousands of positions stay exact in f32.
TEST(KernelsNorm, RotaryFarPositions) {
  RotaryOptions options{40000, 4, 0, 4, false, 1, 10000.0};
  Tensor<float> x({40000, 4}, 1.0f), out({40000, 4});
  EXPECT_OK(rotary(x.view(), out.view(), options));
  expectNear(out.data, slowRotary(x, options), 1e-6);
}

TEST(KernelsNorm, RotaryRefuses) {
  Tensor<float> x({4, 12}), other({4, 8});
  auto error = [&](RotaryOptions options, const char *text) {
    expectError(rotary(x.view(), x.view(), options), MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  error({0, 6, 0, 4}, "'rotary': expected 'period' of 1 or more but got 0");
  error({4, 5, 0, 4}, "the columns of 'x' to be a multiple of 5");
  error({4, 6, 0, 3}, "an even number of rotated columns within the 6 of a head but got 3 from 0 on");
  error({4, 6, 4, 4}, "got 4 from 4 on");
  error({4, 6, 0, 4, false, 2}, "'direction' to be 1, 0 or -1 but got 2");
  error({4, 6, 0, 4, false, 1, 10.0, 2.0, 1.0, 3.0, 1.0, 64.0},
        "'low' above 'high' but got 2.000000, 1.000000 and 3.000000");
  error({4, 6, 0, 4, false, 1, 10.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.5, 0.0}, "'span' above 0 but got 0");
  error({4, 6, 0, 4, false, 1, -1.0}, "'base'");
  error({4, 6, 0, 4, false, 1, 10.0, 2.0, 3.0, 3.0}, "'high' above 'low'");
  expectError(rotary(x.view(), other.view(), {4, 6, 0, 4}), MOERT_ERROR_INVALID_ARGUMENT, "expected 'out'");
}

} // namespace
} // namespace moert::host
