//===- HeadsTest.cpp - heads with shared columns on CUDA ------------------===//

#include "CudaKernelsTest.h"

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

TEST(CudaHeadsTest, AppendAndItsGradient) {
  const std::vector<std::vector<int64_t>> shapes{
      {5, 3, 4, 2}, {1, 1, 128, 64}, {33, 16, 16, 8}, {0, 2, 8, 8}, {7, 2, 1, 3}};
  for (int32_t dtype : kFloatingTypes)
    for (const auto &shape : shapes) {
      const int64_t tokens = shape[0], heads = shape[1], own = shape[2], shared = shape[3];
      const std::vector<Operand> operands{randomOperand(dtype, {tokens, heads * own}, 1),
                                          randomOperand(dtype, {tokens, shared}, 2),
                                          randomOperand(dtype, {tokens, heads * (own + shared)}, 3)};
      expectAlike(Kind::AppendToHeads, operands,
                  [](Kernels &k, const Views &v) { return k.appendToHeads(v[0], v[1], v[2]); });
      expectAlike(Kind::AppendToHeadsGrad, operands,
                  [](Kernels &k, const Views &v) { return k.appendToHeadsGrad(v[2], v[0], v[1]); });
    }
}

} // namespace
} // namespace moert::cuda
