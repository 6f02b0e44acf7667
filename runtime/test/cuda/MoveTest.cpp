//===- MoveTest.cpp - copies of values and parts on CUDA ------------------===//

#include "CudaKernelsTest.h"

namespace moert::cuda {
namespace {

using Views = std::vector<View>;
const int32_t kTypes[] = {MOERT_F32, MOERT_F64, MOERT_BF16, MOERT_F16, MOERT_I32};

TEST(CudaMoveTest, Copies) {
  for (int32_t dtype : kTypes)
    for (int count : {0, 1, 1001})
      expectAlike(
          Kind::Copy, {randomOperand(dtype, {count, 2}, 1, 9), filledOperand(dtype, {2, count}, 9)},
          [](Kernels &k, const Views &v) { return k.copy(v[0], v[1]); }, 0);
}

TEST(CudaMoveTest, SlicesAndDumps) {
  for (int32_t dtype : kTypes)
    for (int width : {1, 3, 8})
      for (int dim : {0, 1, 2})
        for (int index : {0, 2}) {
          std::vector<int64_t> part{2, 4, width}, whole = part;
          whole[static_cast<size_t>(dim)] *= 3;
          const std::vector<Operand> operands{randomOperand(dtype, whole, 1, 9), randomOperand(dtype, part, 2, 9)};
          expectAlike(
              Kind::Slice, operands, [=](Kernels &k, const Views &v) { return k.slice(v[0], v[1], dim, index, 3); }, 0);
          const int blocks = dim == 2 ? 1 : 2;
          expectAlike(
              Kind::Dump, operands, [=](Kernels &k, const Views &v) { return k.dump(v[1], v[0], dim, blocks); }, 0);
        }
}

TEST(CudaMoveTest, LocalSums) {
  for (int32_t dtype : kFloatingTypes)
    for (int width : {1, 3, 8, 400})
      for (int dim : {0, 1, 2})
        for (int copies : {0, 1, 5}) {
          std::vector<int64_t> one{2, 4, width}, many = one;
          many[static_cast<size_t>(dim)] *= copies;
          const int blocks = dim == 2 ? 1 : 2;
          expectAlike(
              Kind::LocalReduce, {randomOperand(dtype, many, 1), filledOperand(dtype, one, 9)},
              [=](Kernels &k, const Views &v) { return k.localReduce(v[0], v[1], dim, blocks); }, 4);
        }
}

TEST(CudaMoveTest, EmptyParts) {
  const std::vector<Operand> operands{randomOperand(MOERT_F32, {0, 6}, 1), randomOperand(MOERT_F32, {0, 2}, 2)};
  expectAlike(Kind::Slice, operands, [](Kernels &k, const Views &v) { return k.slice(v[0], v[1], 1, 0, 3); });
  expectAlike(Kind::Dump, operands, [](Kernels &k, const Views &v) { return k.dump(v[1], v[0], 1, 1); });
}

} // namespace
} // namespace moert::cuda
