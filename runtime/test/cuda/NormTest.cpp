//===- NormTest.cpp - norms on CUDA ---------------------------------------===//

#include "CudaKernelsTest.h"

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

/// Operands: x, gamma, beta, grads, a result like x, one like gamma.
std::vector<Operand> normOperands(int32_t dtype, int64_t rows, int64_t blocks, int64_t columns) {
  Operand x = randomOperand(dtype, {rows, blocks * columns}, 1);
  return {x,
          randomOperand(dtype, {columns}, 2),
          randomOperand(dtype, {columns}, 3),
          randomOperand(dtype, x.dims, 4),
          filledOperand(dtype, x.dims, 9),
          filledOperand(dtype, {columns}, 9)};
}

void expectNorms(const std::vector<Operand> &operands, double slack) {
  for (int64_t kind : {MOERT_LAYER_NORM, MOERT_RMS_NORM, MOERT_NO_NORM}) {
    expectAlike(
        Kind::Norm, operands, [=](Kernels &k, const Views &v) { return k.norm(v[0], v[1], v[2], v[4], kind, 1e-5); },
        slack);
    expectAlike(
        Kind::Norm, operands, [=](Kernels &k, const Views &v) { return k.norm(v[0], v[1], {}, v[0], kind, 1e-5); },
        slack);
    expectAlike(
        Kind::NormGrad, operands,
        [=](Kernels &k, const Views &v) { return k.normGrad(v[0], v[1], v[3], v[4], kind, 1e-5); }, slack);
    expectAlike(
        Kind::NormGrad, operands,
        [=](Kernels &k, const Views &v) { return k.normGrad(v[0], v[1], v[3], v[3], kind, 1e-5); }, slack);
    expectAlike(
        Kind::NormWgrad, operands,
        [=](Kernels &k, const Views &v) { return k.normWgrad(v[0], v[3], {}, v[5], kind, 1e-5); }, slack);
    expectAlike(
        Kind::NormWgrad, operands,
        [=](Kernels &k, const Views &v) { return k.normWgrad(v[0], v[3], v[1], v[1], kind, 1e-5); }, slack);
    for (int32_t sum : typesBeside(operands[0].dtype)) {
      std::vector<Operand> wide = operands;
      wide[1] = randomOperand(sum, operands[1].dims, 5);
      expectAlike(
          Kind::NormWgrad, wide,
          [=](Kernels &k, const Views &v) { return k.normWgrad(v[0], v[3], v[1], v[1], kind, 1e-5); }, slack);
    }
    if (::testing::Test::HasFatalFailure())
      return;
  }
}

TEST(CudaNormTest, AllTypes) {
  for (int32_t dtype : kFloatingTypes)
    for (int64_t columns : {1, 7, 64, 136})
      for (int64_t rows : {0, 1, 21})
        expectNorms(normOperands(dtype, rows, 1, columns), 10);
}

TEST(CudaNormTest, SeveralBlocksInARow) {
  for (int64_t columns : {5, 32})
    expectNorms(normOperands(MOERT_F32, 9, 3, columns), 10);
}

/// Rows fill the registers of a warp, or are too long for them, for half of those of a block, or for all. Those of 1030
/// columns are not loaded as vectors.
TEST(CudaNormTest, LongRows) {
  for (int64_t columns : {512, 520, 1030, 4100, 8196})
    expectNorms(normOperands(MOERT_F32, 2, 1, columns), 10);
  for (int64_t columns : {1032, 8200})
    expectNorms(normOperands(MOERT_BF16, 2, 1, columns), 10);
}

TEST(CudaNormTest, ManyRows) { expectNorms(normOperands(MOERT_F32, 700, 1, 8), 30); }

/// The variance must not cancel against a large mean.
TEST(CudaNormTest, LargeMeans) {
  std::vector<Operand> operands = normOperands(MOERT_F32, 5, 1, 64);
  for (double &value : operands[0].values)
    value = 1024 + value > 1024 ? 1025 : 1023;
  expectNorms(operands, 10);
}

} // namespace
} // namespace moert::cuda
