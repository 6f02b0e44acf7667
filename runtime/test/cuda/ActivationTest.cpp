//===- ActivationTest.cpp - activations on CUDA ---------------------------===//

#include "CudaKernelsTest.h"

#include "core/Convert.h"

#include <cmath>
#include <limits>

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

bool isGated(int64_t kind) { return kind == MOERT_SWIGLU || kind == MOERT_SWIGLU_CLAMPED; }

/// Operands: in, grad, counts, a result like grad, a result like in.
std::vector<Operand> operandsOf(int32_t dtype, int64_t kind, std::vector<int64_t> shape, Operand counts) {
  std::vector<int64_t> narrow = shape;
  narrow.back() /= isGated(kind) ? 2 : 1;
  return {randomOperand(dtype, shape, 3, 3), randomOperand(dtype, narrow, 4), std::move(counts),
          filledOperand(dtype, narrow, 9), filledOperand(dtype, shape, 9)};
}

void expectActivation(int64_t kind, const std::vector<Operand> &operands, double slack = 1) {
  expectAlike(
      Kind::Activation, operands, [=](Kernels &k, const Views &v) { return k.activation(v[0], v[2], v[3], kind); },
      slack);
  auto grad = [=](Kernels &k, const Views &v) { return k.activationGrad(v[0], v[1], v[2], v[4], kind); };
  expectAlike(Kind::ActivationGrad, operands, grad, slack);
  auto inPlace = [=](Kernels &k, const Views &v) { return k.activationGrad(v[0], v[1], v[2], v[0], kind); };
  expectAlike(Kind::ActivationGrad, operands, inPlace, slack);
  if (!isGated(kind))
    expectAlike(
        Kind::Activation, operands, [=](Kernels &k, const Views &v) { return k.activation(v[0], v[2], v[0], kind); },
        slack);
}

class CudaActivationTest : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CudaActivationTest,
                         ::testing::Values(MOERT_RELU, MOERT_GELU, MOERT_SILU, MOERT_SWIGLU, MOERT_SWIGLU_CLAMPED,
                                           MOERT_SIGMOID, MOERT_GELU_TANH, MOERT_SOFTPLUS));

TEST_P(CudaActivationTest, OfAnyShape) {
  const std::vector<std::vector<int64_t>> shapes{{0, 6}, {1, 2}, {37, 6}, {3, 5, 7, 130}};
  for (int32_t dtype : kFloatingTypes)
    for (const auto &shape : shapes)
      expectActivation(GetParam(), operandsOf(dtype, GetParam(), shape, absent()));
}

TEST_P(CudaActivationTest, OfUsedRowsAlone) {
  for (int32_t dtype : kFloatingTypes)
    for (int width : {2, 48}) {
      expectActivation(GetParam(), operandsOf(dtype, GetParam(), {20, width}, indices({2, 3}, {4, 0, 5, 2, 0, 3})));
      expectActivation(GetParam(), operandsOf(dtype, GetParam(), {20, width}, indices({1, 2}, {0, 0})));
    }
}

TEST_P(CudaActivationTest, OfInfinitiesAndNotANumber) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (int32_t dtype : kFloatingTypes) {
    std::vector<Operand> operands = operandsOf(dtype, GetParam(), {1, 40}, absent());
    for (size_t i = 0; i < 40; ++i)
      operands[0].values[i] = i % 6 < 2 ? infinity : i % 6 < 4 ? -infinity : i % 6 == 4 ? double(NAN) : 1.0;
    expectActivation(GetParam(), operands);
  }
}

TEST(CudaActivationFormTest, SlopeAndBoundOfTheClampedKind) {
  const ActivationForm form(MOERT_SWIGLU_CLAMPED, 0.7, 1.5);
  for (int32_t dtype : kFloatingTypes) {
    const std::vector<Operand> operands = operandsOf(dtype, form.kind, {37, 6}, absent());
    expectAlike(Kind::Activation, operands,
                [=](Kernels &k, const Views &v) { return k.activation(v[0], v[2], v[3], form); });
    expectAlike(Kind::ActivationGrad, operands,
                [=](Kernels &k, const Views &v) { return k.activationGrad(v[0], v[1], v[2], v[4], form); });
  }
}

/// Distance of a number of a 16-bit type from its neighbours.
double unitOf(double value, int32_t dtype) {
  const int least = dtype == MOERT_BF16 ? -126 : -14, digits = dtype == MOERT_BF16 ? 7 : 10;
  return std::ldexp(1, (value == 0 ? least : std::max(std::ilogb(value), least)) - digits);
}

/// Every finite number of the type is a gate. Ups and gradients are 1.
std::vector<Operand> allGates(int32_t dtype) {
  std::vector<double> pairs;
  for (int bits = 0; bits <= 0xffff; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    if (const double gate = elementAt(&pattern, dtype, 0); std::isfinite(gate)) {
      pairs.push_back(gate);
      pairs.push_back(1);
    }
  }
  const auto count = static_cast<int64_t>(pairs.size() / 2);
  Operand in = filledOperand(dtype, {1, 2 * count}, 0);
  in.values = std::move(pairs);
  return {in, filledOperand(dtype, {1, count}, 1), absent(), filledOperand(dtype, {1, count}, 9),
          filledOperand(dtype, {1, 2 * count}, 9)};
}

/// Expects results within one unit. `cancelled` is the f32 rounding error of terms that cancel.
void expectNeighbours(Kind kind, int32_t dtype, size_t result, double cancelled, const KernelCall &call) {
  std::vector<Operand> expected = allGates(dtype), got = expected;
  onHost(kind, expected, call);
  onDevice(kind, got, call);
  for (size_t i = 0; i < got[result].values.size(); ++i) {
    const double value = expected[result].values[i];
    ASSERT_NEAR(got[result].values[i], value, unitOf(value, dtype) + cancelled) << "element " << i;
  }
}

// Fast exponentials and quotients change results by at most one unit in the last place.
TEST(CudaActivationFormTest, FastFunctionsStayWithinTheRoundingOf16Bits) {
  for (int32_t dtype : {MOERT_BF16, MOERT_F16})
    for (int64_t kind : {MOERT_SWIGLU, MOERT_SWIGLU_CLAMPED}) {
      expectNeighbours(Kind::Activation, dtype, 3, 0,
                       [=](Kernels &k, const Views &v) { return k.activation(v[0], v[2], v[3], kind); });
      // A slope is 0 near -1.28.
      expectNeighbours(Kind::ActivationGrad, dtype, 4, 2e-7,
                       [=](Kernels &k, const Views &v) { return k.activationGrad(v[0], v[1], v[2], v[4], kind); });
    }
}

} // namespace
} // namespace moert::cuda
