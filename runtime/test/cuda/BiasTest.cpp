//===- BiasTest.cpp - biases on CUDA --------------------------------------===//

#include "CudaKernelsTest.h"

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

/// Operands: rows, bias, counts, addend.
void expectBiases(std::vector<int64_t> rows, std::vector<int64_t> bias, const Operand &counts) {
  for (int32_t dtype : kFloatingTypes)
    for (int32_t beside : typesBeside(dtype)) {
      const std::vector<Operand> operands{randomOperand(dtype, rows, 1), randomOperand(beside, bias, 2), counts,
                                          filledOperand(dtype, rows, 9), randomOperand(beside, bias, 3)};
      expectAlike(Kind::BiasAdd, operands,
                  [](Kernels &k, const Views &v) { return k.biasAdd(v[0], v[1], v[2], v[3], 0.5); });
      expectAlike(Kind::BiasAdd, operands,
                  [](Kernels &k, const Views &v) { return k.biasAdd(v[0], v[1], v[2], v[0], -1); });
      expectAlike(Kind::BiasGrad, operands,
                  [](Kernels &k, const Views &v) { return k.biasGrad(v[0], v[2], v[4], v[1], 0.5); });
      expectAlike(Kind::BiasGrad, operands,
                  [](Kernels &k, const Views &v) { return k.biasGrad(v[0], v[2], v[1], v[1], 2); });
      expectAlike(Kind::BiasGrad, operands,
                  [](Kernels &k, const Views &v) { return k.biasGrad(v[0], v[2], {}, v[1], 1); });
    }
}

TEST(CudaBiasTest, OfAllRows) {
  for (int columns : {1, 7, 64, 300})
    for (int rows : {0, 1, 150})
      expectBiases({rows, columns}, {columns}, absent());
}

TEST(CudaBiasTest, OfExperts) {
  for (int columns : {3, 64})
    for (int capacity : {0, 1, 67})
      expectBiases({3, capacity, columns}, {3, columns}, absent());
}

TEST(CudaBiasTest, OfRaggedExperts) {
  for (int columns : {3, 64}) {
    expectBiases({90, columns}, {4, columns}, indices({2, 4}, {3, 0, 30, 0, 4, 0, 41, 0}));
    expectBiases({9, columns}, {2, columns}, indices({1, 2}, {0, 0}));
    expectBiases({5, columns}, {3, columns}, indices({1, 3}, {0, 5, 0}));
  }
}

} // namespace
} // namespace moert::cuda
