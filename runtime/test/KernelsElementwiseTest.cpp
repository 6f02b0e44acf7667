//===- KernelsElementwiseTest.cpp - activations, biases, sums, copies ------===//

#include "KernelsTest.h"

#include <limits>

namespace moert::host {
namespace {

template <class T> class KernelsElementwiseTest : public ::testing::Test {};
TYPED_TEST_SUITE(KernelsElementwiseTest, FloatingTypes);

using Real = long double;

Real sigmoidOf(Real x) { return 1 / (1 + std::exp(-x)); }
Real phi(Real x) { return std::erfc(-x / std::sqrt(Real(2))) / 2; }

bool gated(int64_t kind) { return kind == MOERT_SWIGLU || kind == MOERT_SWIGLU_CLAMPED; }

/// Exact activation of x, or of the pair (x, u).
Real exact(int64_t kind, Real x, Real u) {
  switch (kind) {
  case MOERT_RELU:
    return x > 0 ? x : 0;
  case MOERT_GELU:
    return x * phi(x);
  case MOERT_SILU:
    return x * sigmoidOf(x);
  case MOERT_SWIGLU:
    return x * sigmoidOf(x) * u;
  case MOERT_SWIGLU_CLAMPED: {
    Real g = std::min(x, Real(7)), c = std::max(std::min(u, Real(7)), Real(-7));
    return g * sigmoidOf(Real(1.702) * g) * (c + 1);
  }
  case MOERT_GELU_TANH:
    return x * sigmoidOf(Real(1.595769121605730711759542L) * (x + Real(0.044715L) * x * x * x));
  case MOERT_SOFTPLUS:
    return std::log1p(std::exp(x));
  default:
    return sigmoidOf(x);
  }
}

const int64_t allKinds[] = {MOERT_RELU,           MOERT_GELU,    MOERT_SILU,      MOERT_SWIGLU,
                            MOERT_SWIGLU_CLAMPED, MOERT_SIGMOID, MOERT_GELU_TANH, MOERT_SOFTPLUS};

// Relative errors are at most 1e-6 (f32) and 1e-14 (f64). In the tails, where the exponent is rounded, they are at most
// x^2 / 8 times that.
TYPED_TEST(KernelsElementwiseTest, ActivationIsAccurate) {
  using T = TypeParam;
  const double bound = std::is_same_v<T, double> ? 1e-14 : 1e-6;
  for (int64_t kind : allKinds) {
    auto in = randomTensor<T>({250, 16}, 3, 3.0);
    Tensor<T> out({250, gated(kind) ? 8 : 16}, T(NAN));
    EXPECT_OK(activation(in.view(), {}, out.view(), kind));
    const int64_t step = gated(kind) ? 2 : 1;
    for (int64_t i = 0; i < out.size(); ++i) {
      Real x = in[i * step], expected = exact(kind, x, in[i * step + step - 1]);
      Real exponent = kind == MOERT_GELU_TANH ? x * x * std::abs(x) : x * x;
      Real scale = std::abs(expected) * std::max(Real(1), exponent / 8);
      ASSERT_LE(std::abs(Real(out[i]) - expected), bound * scale) << "kind " << kind << " of " << in[i * step];
    }
  }
}

// In-place calls give the same bits as others, if the shapes agree.
TYPED_TEST(KernelsElementwiseTest, ActivationInPlace) {
  using T = TypeParam;
  for (int64_t kind : allKinds) {
    auto in = randomTensor<T>({37, 6}, 3), grad = randomTensor<T>({37, gated(kind) ? 3 : 6}, 4);
    Tensor<T> out({37, gated(kind) ? 3 : 6}), back({37, 6});
    EXPECT_OK(activation(in.view(), {}, out.view(), kind));
    EXPECT_OK(activationGrad(in.view(), grad.view(), {}, back.view(), kind));
    auto copyOfIn = in;
    EXPECT_OK(activationGrad(copyOfIn.view(), grad.view(), {}, copyOfIn.view(), kind));
    EXPECT_EQ(copyOfIn.data, back.data) << kind;
    if (gated(kind))
      continue;
    EXPECT_OK(activation(in.view(), {}, in.view(), kind));
    EXPECT_EQ(in.data, out.data) << kind;
  }
}

// NaN stays NaN in every lane, forward and backward. Infinities give the limits.
TYPED_TEST(KernelsElementwiseTest, NotANumberAndInfinity) {
  using T = TypeParam;
  const T infinity = std::numeric_limits<T>::infinity();
  for (int64_t kind : allKinds)
    for (int64_t at = 0; at < 40; ++at) {
      Tensor<T> in({1, 40}, T(1)), out({1, gated(kind) ? 20 : 40}), grad({1, gated(kind) ? 20 : 40}, T(1)),
          back({1, 40});
      in[at] = T(NAN);
      EXPECT_OK(activation(in.view(), {}, out.view(), kind));
      EXPECT_OK(activationGrad(in.view(), grad.view(), {}, back.view(), kind));
      for (int64_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(std::isnan(out[i]), i == (gated(kind) ? at / 2 : at)) << kind;
      // The gradient of `up` does not depend on `up`. The gradient of its gate does.
      ASSERT_TRUE(std::isnan(back[gated(kind) ? at / 2 * 2 : at])) << kind;
    }
  Tensor<T> in({1, 4}, {infinity, -infinity, T(1e30), T(-1e30)}), grad({1, 4}, T(1)), out({1, 4});
  for (int64_t kind : {MOERT_RELU, MOERT_GELU, MOERT_SILU}) {
    EXPECT_OK(activation(in.view(), {}, out.view(), kind));
    EXPECT_EQ(out[0], infinity);
    EXPECT_NEAR(out[1], 0, 1e-30);
    EXPECT_EQ(out[2], T(1e30));
    EXPECT_NEAR(out[3], 0, 1e-30);
    EXPECT_OK(activationGrad(in.view(), grad.view(), {}, out.view(), kind));
    expectNear(out.data, std::vector<double>{1, 0, 1, 0}, 1e-30);
  }
}

// f32 gradients agree with the f64 ones, which a test below compares with finite differences.
TEST(KernelsActivationGradientTest, SingleAgreesWithDouble) {
  for (int64_t kind : allKinds) {
    auto in = randomTensor<float>({100, 18}, 5, 3.0), grad = randomTensor<float>({100, gated(kind) ? 9 : 18}, 6);
    Tensor<double> in64(in.dims, {in.data.begin(), in.data.end()}),
        grad64(grad.dims, {grad.data.begin(), grad.data.end()});
    Tensor<float> out(in.dims);
    Tensor<double> out64(in.dims);
    EXPECT_OK(activationGrad(in.view(), grad.view(), {}, out.view(), kind));
    EXPECT_OK(activationGrad(in64.view(), grad64.view(), {}, out64.view(), kind));
    expectNear(out.data, out64.data, 2e-6);
  }
}

// Every activation's gradient is its finite difference, away from the kinks of relu and of the clamps.
TEST(KernelsActivationGradientTest, AgreesWithFiniteDifferences) {
  for (int64_t kind : allKinds) {
    auto in = randomTensor<double>({13, 8}, 5, 4.0), grad = randomTensor<double>({13, gated(kind) ? 4 : 8}, 6);
    for (double &x : in.data)
      for (double kink : {-7.0, 0.0, 7.0})
        if (std::abs(x - kink) < 1e-3)
          x += 0.01;
    Tensor<double> out(grad.dims), back(in.dims);
    EXPECT_OK(activationGrad(in.view(), grad.view(), {}, back.view(), kind));
    expectGradient(in, back.data, [&] {
      EXPECT_OK(activation(in.view(), {}, out.view(), kind));
      return inner(out.data, grad.data);
    });
  }
}

// The clamped kind takes other slopes and bounds than those of gpt-oss, also in the gradient.
TEST(KernelsActivationGradientTest, SlopeAndBoundOfTheClampedKind) {
  const ActivationForm form(MOERT_SWIGLU_CLAMPED, 0.7, 1.5);
  auto in = randomTensor<double>({13, 8}, 5, 2.0), grad = randomTensor<double>({13, 4}, 6);
  for (double &x : in.data)
    for (double kink : {-1.5, 1.5})
      if (std::abs(x - kink) < 1e-3)
        x += 0.01;
  Tensor<double> out(grad.dims), back(in.dims), published(grad.dims);
  EXPECT_OK(activation(in.view(), {}, out.view(), form));
  EXPECT_OK(activation(in.view(), {}, published.view(), MOERT_SWIGLU_CLAMPED));
  EXPECT_NE(out.data, published.data);
  for (int64_t i = 0; i < out.size(); ++i) {
    const double gate = std::min(in[2 * i], 1.5), up = std::clamp(in[2 * i + 1], -1.5, 1.5);
    EXPECT_NEAR(out[i], gate / (1 + std::exp(-0.7 * gate)) * (up + 1), 1e-14);
  }
  EXPECT_OK(activationGrad(in.view(), grad.view(), {}, back.view(), form));
  expectGradient(in, back.data, [&] {
    EXPECT_OK(activation(in.view(), {}, out.view(), form));
    return inner(out.data, grad.data);
  });
  expectError(activation(in.view(), {}, out.view(), {MOERT_SWIGLU_CLAMPED, 0.0, 7.0}), MOERT_ERROR_INVALID_ARGUMENT,
              "expected 'alpha' and 'limit' above 0 but got 0.000000 and 7.000000");
}

// With counts only the used rows are read and written.
TYPED_TEST(KernelsElementwiseTest, ActivationOfUsedRows) {
  using T = TypeParam;
  Tensor<int32_t> counts({2, 2}, {1, 2, 0, 1});
  auto in = randomTensor<T>({6, 4}, 1);
  Tensor<T> out({6, 2}, T(5)), all({6, 2}), grad({6, 2}, T(1)), back({6, 4}, T(5));
  EXPECT_OK(activation(in.view(), {}, all.view(), MOERT_SWIGLU));
  EXPECT_OK(activation(in.view(), counts.view(), out.view(), MOERT_SWIGLU));
  EXPECT_OK(activationGrad(in.view(), grad.view(), counts.view(), back.view(), MOERT_SWIGLU));
  for (int64_t i = 0; i < 12; ++i)
    EXPECT_NEAR(out[i], i < 8 ? all[i] : T(5), 1e-6);
  for (int64_t i = 16; i < 24; ++i)
    EXPECT_EQ(back[i], T(5));
  Tensor<int32_t> many({1, 2}, {3, 4});
  expectError(activation(in.view(), many.view(), out.view(), MOERT_SWIGLU), MOERT_ERROR_OVERFLOW, "got 7");
}

// Bad kinds, odd swiglu widths and shapes that do not fit are refused.
TYPED_TEST(KernelsElementwiseTest, BadActivations) {
  using T = TypeParam;
  Tensor<T> in({2, 3}), out({2, 3}), half({2, 1});
  expectError(activation(in.view(), {}, out.view(), 9), MOERT_ERROR_INVALID_ARGUMENT, "but got 9");
  expectError(activation(in.view(), {}, half.view(), MOERT_SWIGLU), MOERT_ERROR_INVALID_ARGUMENT, "even number");
  expectError(activation(in.view(), {}, half.view(), MOERT_RELU), MOERT_ERROR_INVALID_ARGUMENT, "[2,3] but got");
  expectError(activationGrad(in.view(), out.view(), {}, half.view(), MOERT_RELU), MOERT_ERROR_INVALID_ARGUMENT,
              "'out'");
}

/// Expert of each row in the three bias forms, or -1 for an unused row.
struct BiasForm {
  std::vector<int64_t> rows, bias;
  std::vector<int32_t> counts;
  std::vector<int64_t> expertOfRow;
};

std::vector<BiasForm> biasForms() {
  return {{{9, 5}, {5}, {}, std::vector<int64_t>(9, 0)},
          {{3, 2, 5}, {3, 5}, {}, {0, 0, 1, 1, 2, 2}},
          {{14, 5}, {3, 5}, {2, 0, 1, 5, 0, 3}, {0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, -1, -1, -1}},
          {{0, 5}, {5}, {}, {}}};
}

// The bias of a row's expert, scaled, is added to each used row, also in place.
TYPED_TEST(KernelsElementwiseTest, BiasAddAgreesWithLoops) {
  using T = TypeParam;
  for (const BiasForm &form : biasForms()) {
    auto rows = randomTensor<T>(form.rows, 1), bias = randomTensor<T>(form.bias, 2);
    Tensor<int32_t> counts({2, 3}, form.counts);
    Tensor<T> out(form.rows, T(4));
    View ragged = form.counts.empty() ? View() : counts.view();
    EXPECT_OK(biasAdd(rows.view(), bias.view(), ragged, out.view(), 0.5));
    std::vector<double> expected(rows.size(), 4.0);
    for (int64_t i = 0; i < rows.size(); ++i)
      if (form.expertOfRow[i / 5] >= 0)
        expected[i] = double(rows[i]) + 0.5 * double(bias[form.expertOfRow[i / 5] * 5 + i % 5]);
    expectNear(out.data, expected, tolerance<T>());
    EXPECT_OK(biasAdd(rows.view(), bias.view(), ragged, rows.view(), 0.5));
    for (int64_t i = 0; i < rows.size(); ++i)
      EXPECT_TRUE(form.expertOfRow[i / 5] < 0 || rows[i] == out[i]);
  }
}

// The gradient of a bias is the scaled sum of its expert's rows; an expert without rows gets zeros.
TYPED_TEST(KernelsElementwiseTest, BiasGradAgreesWithLoops) {
  using T = TypeParam;
  for (const BiasForm &form : biasForms()) {
    auto grads = randomTensor<T>(form.rows, 1);
    Tensor<int32_t> counts({2, 3}, form.counts);
    Tensor<T> out(form.bias, T(NAN));
    EXPECT_OK(biasGrad(grads.view(), form.counts.empty() ? View() : counts.view(), {}, out.view(), 2.0));
    std::vector<double> expected(out.size());
    for (int64_t i = 0; i < grads.size(); ++i)
      if (form.expertOfRow[i / 5] >= 0)
        expected[form.expertOfRow[i / 5] * 5 + i % 5] += 2.0 * double(grads[i]);
    expectNear(out.data, expected, tolerance<T>());

    auto addend = randomTensor<T>(form.bias, 2);
    for (int64_t i = 0; i < addend.size(); ++i)
      expected[i] += double(addend[i]);
    View ragged = form.counts.empty() ? View() : counts.view();
    EXPECT_OK(biasGrad(grads.view(), ragged, addend.view(), out.view(), 2.0));
    expectNear(out.data, expected, tolerance<T>());
    EXPECT_OK(biasGrad(grads.view(), ragged, addend.view(), addend.view(), 2.0));
    EXPECT_EQ(addend.data, out.data);
    expectError(biasGrad(grads.view(), ragged, grads.view(), out.view(), 2.0), MOERT_ERROR_INVALID_ARGUMENT,
                "expected 'addend' to be");
  }
}

// bias_grad is the derivative of bias_add by the bias.
TEST(KernelsBiasGradientTest, AgreesWithFiniteDifferences) {
  for (const BiasForm &form : biasForms()) {
    auto rows = randomTensor<double>(form.rows, 1), bias = randomTensor<double>(form.bias, 2),
         grads = randomTensor<double>(form.rows, 3);
    Tensor<int32_t> counts({2, 3}, form.counts);
    View ragged = form.counts.empty() ? View() : counts.view();
    Tensor<double> out(form.rows), back(form.bias);
    EXPECT_OK(biasGrad(grads.view(), ragged, {}, back.view(), 0.25));
    expectGradient(bias, back.data, [&] {
      EXPECT_OK(biasAdd(rows.view(), bias.view(), ragged, out.view(), 0.25));
      return inner(out.data, grads.data);
    });
  }
}

// A sum over many f32 rows keeps the precision of a double.
TEST(KernelsBiasGradientTest, ManyRowsStayAccurate) {
  Tensor<float> grads({100000, 3}, 0.1f), out({3});
  EXPECT_OK(biasGrad(grads.view(), {}, {}, out.view(), 1.0));
  for (float sum : out.data)
    EXPECT_NEAR(sum, 100000 * double(0.1f), 1e-3);
}

// Biases of the wrong shape and counts that do not fit are refused.
TYPED_TEST(KernelsElementwiseTest, BadBiases) {
  using T = TypeParam;
  Tensor<T> rows({4, 3}), capacity({2, 2, 3}), flat({3}), stacked({2, 3});
  Tensor<int32_t> many({1, 2}, {3, 2});
  expectError(biasAdd(rows.view(), stacked.view(), {}, rows.view(), 1), MOERT_ERROR_INVALID_ARGUMENT, "[3] but got");
  expectError(biasAdd(capacity.view(), flat.view(), {}, capacity.view(), 1), MOERT_ERROR_INVALID_ARGUMENT,
              "[2,3] but got");
  expectError(biasGrad(rows.view(), many.view(), {}, stacked.view(), 1), MOERT_ERROR_OVERFLOW, "got 5");
}

// add and scale, also in place.
TYPED_TEST(KernelsElementwiseTest, AddAndScale) {
  using T = TypeParam;
  auto a = randomTensor<T>({3, 7, 5}, 1), b = randomTensor<T>({3, 7, 5}, 2);
  Tensor<T> out({3, 7, 5});
  std::vector<double> sum, scaled;
  for (int64_t i = 0; i < a.size(); ++i) {
    sum.push_back(double(a[i]) + double(b[i]));
    scaled.push_back(-0.5 * double(a[i]));
  }
  EXPECT_OK(scale(a.view(), out.view(), -0.5));
  expectNear(out.data, scaled, tolerance<T>());
  EXPECT_OK(add(a.view(), b.view(), out.view()));
  expectNear(out.data, sum, tolerance<T>());
  EXPECT_OK(add(a.view(), b.view(), b.view()));
  EXPECT_EQ(b.data, out.data);
  Tensor<T> scalar({}, T(3)), other({2});
  EXPECT_OK(scale(scalar.view(), scalar.view(), 2));
  EXPECT_EQ(scalar[0], T(6));
  expectError(add(a.view(), other.view(), out.view()), MOERT_ERROR_INVALID_ARGUMENT, "'b' to be");
}

template <class T> class KernelsMoveTest : public ::testing::Test {};
using MovedTypes = ::testing::Types<float, double, int32_t>;
TYPED_TEST_SUITE(KernelsMoveTest, MovedTypes);

// The parts of a slice, put side by side, are the input, for any rank, dimension and type.
TYPED_TEST(KernelsMoveTest, SliceAgreesWithLoops) {
  using T = TypeParam;
  const std::vector<std::vector<int64_t>> shapes = {{6}, {6, 4}, {2, 6, 3}, {2, 4, 6, 3}, {0, 4}};
  for (const auto &shape : shapes)
    for (size_t dim = 0; dim < shape.size(); ++dim)
      for (int64_t size : {1, 2, 3}) {
        if (shape[dim] % size)
          continue;
        auto in = randomTensor<T>(shape, 1, 100.0);
        auto part = shape;
        part[dim] /= size;
        int64_t inside = 1;
        for (size_t d = dim + 1; d < shape.size(); ++d)
          inside *= shape[d];
        for (int64_t index = 0; index < size; ++index) {
          Tensor<T> out(part, T(-1));
          EXPECT_OK(slice(in.view(), out.view(), int64_t(dim), index, size));
          for (int64_t i = 0; i < out.size(); ++i) {
            int64_t rest = i % inside, along = i / inside % part[dim], outside = i / inside / part[dim];
            ASSERT_EQ(out[i], in[(outside * shape[dim] + index * part[dim] + along) * inside + rest]);
          }
        }
      }
}

/// Shapes that are repeated along each dimension, in blocks that divide it.
const std::vector<std::vector<int64_t>> kRepeated = {{6}, {6, 4}, {2, 6, 5}, {2, 3, 4, 6}, {2, 0, 4}, {1, 2, 5000}};

/// Source of element `i` of a repeated `shape`, by the definition of moert_dump.
int64_t dumpedFrom(int64_t i, const std::vector<int64_t> &shape, size_t dim, int64_t blocks, int64_t copies) {
  int64_t inside = 1, length = shape[dim], n = length / blocks;
  for (size_t d = dim + 1; d < shape.size(); ++d)
    inside *= shape[d];
  int64_t outside = i / inside / (length * copies), along = i / inside % (length * copies);
  int64_t block = along / n / copies;
  return (outside * length + block * n + along % n) * inside + i % inside;
}

// dump repeats blocks along any dimension of any rank and type; copy copies.
TYPED_TEST(KernelsMoveTest, DumpAndCopy) {
  using T = TypeParam;
  for (const auto &shape : kRepeated)
    for (size_t dim = 0; dim < shape.size(); ++dim)
      for (int64_t blocks : {1, 2, 3, 6})
        for (int64_t copies : {0, 1, 3}) {
          if (shape[dim] % blocks)
            continue;
          auto in = randomTensor<T>(shape, 1, 100.0);
          auto wide = shape;
          wide[dim] *= copies;
          Tensor<T> out(wide, T(-1)), copied(shape);
          EXPECT_OK(dump(in.view(), out.view(), int64_t(dim), blocks));
          for (int64_t i = 0; i < out.size(); ++i)
            ASSERT_EQ(out[i], in[dumpedFrom(i, shape, dim, blocks, copies)]);
          EXPECT_OK(copy(in.view(), copied.view()));
          EXPECT_EQ(copied.data, in.data);
        }
}

// local_reduce sums the copies that dump makes, bit by bit in the order of the copies. Without copies the sum is zero.
TYPED_TEST(KernelsElementwiseTest, LocalReduceAgreesWithLoops) {
  using T = TypeParam;
  for (const auto &shape : kRepeated)
    for (size_t dim = 0; dim < shape.size(); ++dim)
      for (int64_t blocks : {1, 2, 3, 6})
        for (int64_t copies : {0, 1, 2, 5}) {
          if (shape[dim] % blocks)
            continue;
          auto wide = shape;
          wide[dim] *= copies;
          auto in = randomTensor<T>(wide, 1);
          Tensor<T> out(shape, T(NAN)), expected(shape);
          EXPECT_OK(localReduce(in.view(), out.view(), int64_t(dim), blocks));
          // Copies of an element come in their order.
          for (int64_t i = 0; i < in.size(); ++i)
            expected[dumpedFrom(i, shape, dim, blocks, copies)] += in[i];
          ASSERT_EQ(out.data, expected.data);
        }
}

// Dimensions and parts out of range, wrong shapes and types, and bf16 are refused.
TYPED_TEST(KernelsElementwiseTest, BadMoves) {
  using T = TypeParam;
  Tensor<T> in({4, 6}), out({4, 3}), wide({4, 11}), flat({24});
  expectError(slice(in.view(), out.view(), 2, 0, 2), MOERT_ERROR_INVALID_ARGUMENT, "'dim' from 0 to 1 but got 2");
  expectError(slice(in.view(), out.view(), 1, 2, 2), MOERT_ERROR_INVALID_ARGUMENT, "got 2 of 2");
  expectError(slice(in.view(), out.view(), 1, 0, 4), MOERT_ERROR_INVALID_ARGUMENT, "multiple of 4");
  const char *name = sizeof(T) == 4 ? "'out' to be f32[4,6] but got" : "'out' to be f64[4,6] but got";
  expectError(dump(in.view(), wide.view(), 1, 1), MOERT_ERROR_INVALID_ARGUMENT, name);
  expectError(dump(in.view(), wide.view(), 2, 1), MOERT_ERROR_INVALID_ARGUMENT, "'dim' from 0 to 1 but got 2");
  expectError(dump(in.view(), flat.view(), 0, 1), MOERT_ERROR_INVALID_ARGUMENT, name);
  expectError(dump(in.view(), in.view(), 1, 0), MOERT_ERROR_INVALID_ARGUMENT, "'blocks' of 1 or more but got 0");
  expectError(dump(in.view(), in.view(), 1, 4), MOERT_ERROR_INVALID_ARGUMENT, "of 'in' to be a multiple of 4");
  expectError(localReduce(wide.view(), in.view(), 1, 1), MOERT_ERROR_INVALID_ARGUMENT, "'in' to be f");
  expectError(localReduce(in.view(), in.view(), 1, 4), MOERT_ERROR_INVALID_ARGUMENT, "of 'out' to be a multiple of 4");
  expectError(copy(in.view(), out.view()), MOERT_ERROR_INVALID_ARGUMENT, "'copy': expected");
  View half = in.view();
  half.dtype = MOERT_BF16;
  expectError(copy(half, half), MOERT_ERROR_UNSUPPORTED, "'copy': bf16 runs on no host kernel");
}

} // namespace
} // namespace moert::host
