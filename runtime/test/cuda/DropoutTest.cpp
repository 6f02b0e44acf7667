//===- DropoutTest.cpp - dropout on CUDA ----------------------------------===//

#include "CudaKernelsTest.h"

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

TEST(CudaDropoutTest, SameBitsAsTheHost) {
  for (int32_t dtype : kFloatingTypes)
    for (int rows : {0, 1, 37})
      for (int columns : {1, 6, 64, 520})
        for (int64_t seed : {int64_t(0), int64_t(-7), int64_t(1) << 40}) {
          const std::vector<Operand> operands{randomOperand(dtype, {rows, columns}, 1), indices({}, {12}),
                                              filledOperand(dtype, {rows, columns}, 9)};
          expectAlike(Kind::Dropout, operands,
                      [=](Kernels &k, const Views &v) { return k.dropout(v[0], v[1], v[2], seed, {}, {}, 0.3, {}); });
          expectAlike(Kind::Dropout, operands,
                      [=](Kernels &k, const Views &v) { return k.dropout(v[0], v[1], v[0], seed, {}, {}, 0.3, {}); });
        }
}

// Parts of 4 or 6 columns begin at the border of blocks of random words, or inside of them.
TEST(CudaDropoutTest, PartsOfTheWhole) {
  for (int32_t dtype : kFloatingTypes)
    for (int columns : {4, 6, 24})
      for (int64_t rank = 0; rank < 6; ++rank)
        expectAlike(Kind::Dropout,
                    {randomOperand(dtype, {5, columns}, 1), indices({}, {3}), filledOperand(dtype, {5, columns}, 9)},
                    [=](Kernels &k, const Views &v) {
                      return k.dropout(v[0], v[1], v[2], 11, {2, 3, rank}, {3, 1, rank}, 0.5,
                                       {rank % 2 ? 3 : 1, 2, 4, true});
                    });
}

TEST(CudaDropoutTest, Jitter) {
  for (int32_t dtype : kFloatingTypes)
    for (int columns : {6, 64})
      expectAlike(Kind::Dropout,
                  {randomOperand(dtype, {37, columns}, 1), indices({}, {12}), filledOperand(dtype, {37, columns}, 9)},
                  [](Kernels &k, const Views &v) { return k.dropout(v[0], v[1], v[2], 7, {}, {}, {0.3, true}, {}); });
}

TEST(CudaDropoutTest, OfNothing) {
  expectAlike(Kind::Dropout,
              {randomOperand(MOERT_F32, {9, 16}, 1), indices({}, {3}), filledOperand(MOERT_F32, {9, 16}, 9)},
              [](Kernels &k, const Views &v) { return k.dropout(v[0], v[1], v[2], 11, {}, {}, 0.0, {}); });
}

} // namespace
} // namespace moert::cuda
