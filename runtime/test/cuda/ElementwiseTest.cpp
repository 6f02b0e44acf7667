//===- ElementwiseTest.cpp - sums, scales, casts and scalars on CUDA ------===//

#include "CudaKernelsTest.h"

#include <cmath>
#include <limits>

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

/// Shapes with no element, one, less than a vector, a little more, and so many that threads loop.
const std::vector<std::vector<int64_t>> kShapes = {{0, 4}, {1}, {3, 5}, {17}, {2, 3, 64, 129}};

TEST(CudaElementwiseTest, Sums) {
  for (int32_t dtype : kFloatingTypes)
    for (const auto &shape : kShapes) {
      const std::vector<Operand> operands{randomOperand(dtype, shape, 1), randomOperand(dtype, shape, 2),
                                          filledOperand(dtype, shape, 9)};
      expectAlike(Kind::Add, operands, [](Kernels &k, const Views &v) { return k.add(v[0], v[1], v[2]); });
      expectAlike(Kind::Add, operands, [](Kernels &k, const Views &v) { return k.add(v[0], v[1], v[0]); });
      expectAlike(Kind::Add, operands, [](Kernels &k, const Views &v) { return k.add(v[0], v[1], v[1]); });
      expectAlike(Kind::Scale, operands, [](Kernels &k, const Views &v) { return k.scale(v[0], v[2], -1.7); });
      expectAlike(Kind::Scale, operands, [](Kernels &k, const Views &v) { return k.scale(v[0], v[0], 0.3); });
    }
}

TEST(CudaElementwiseTest, InverseRoots) {
  for (int32_t dtype : kFloatingTypes)
    for (const auto &shape : kShapes) {
      std::vector<Operand> operands{randomOperand(dtype, shape, 1), randomOperand(dtype, shape, 2),
                                    filledOperand(dtype, shape, 9)};
      for (double &value : operands[0].values)
        value = std::abs(value);
      auto root = [](Kernels &k, const Views &v) { return k.inverseRoot(v[0], v[2], 0.5, 0.25); };
      expectAlike(Kind::InverseRoot, operands, root);
      auto grad = [](Kernels &k, const Views &v) { return k.inverseRootGrad(v[0], v[1], v[1], 0.7); };
      expectAlike(Kind::InverseRootGrad, operands, grad, 4);
    }
}

TEST(CudaElementwiseTest, Clamps) {
  for (int32_t dtype : kFloatingTypes)
    for (const auto &shape : kShapes) {
      const std::vector<Operand> operands{randomOperand(dtype, shape, 1), randomOperand(dtype, shape, 2),
                                          filledOperand(dtype, shape, 9)};
      expectAlike(Kind::Clamp, operands, [](Kernels &k, const Views &v) { return k.clamp(v[0], v[2], 0.5); });
      expectAlike(Kind::Clamp, operands, [](Kernels &k, const Views &v) { return k.clamp(v[0], v[0], 0.5); });
      for (size_t out : {0, 1, 2})
        expectAlike(Kind::ClampGrad, operands,
                    [=](Kernels &k, const Views &v) { return k.clampGrad(v[0], v[1], v[out], 0.5); });
    }
}

TEST(CudaElementwiseTest, Scalars) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (int32_t dtype : kFloatingTypes)
    for (double a : {0.0, 2.5, 1e4, infinity, double(NAN)})
      for (double b : {0.0, 3.0}) {
        const std::vector<Operand> operands{filledOperand(dtype, {}, a), filledOperand(dtype, {}, b),
                                            filledOperand(dtype, {}, 9)};
        expectAlike(Kind::Divide, operands, [](Kernels &k, const Views &v) { return k.divide(v[0], v[1], v[2]); });
        expectAlike(Kind::SquareRoot, operands, [](Kernels &k, const Views &v) { return k.squareRoot(v[0], v[0]); });
        expectAlike(Kind::ClipFactor, operands,
                    [](Kernels &k, const Views &v) { return k.clipFactor(v[0], v[2], 1.5); });
      }
}

TEST(CudaElementwiseTest, CastsRoundOnce) {
  for (int32_t from : kFloatingTypes)
    for (int32_t to : kFloatingTypes)
      for (const auto &shape : kShapes) {
        auto cast = [](Kernels &k, const Views &v) { return k.cast(v[0], v[1]); };
        expectAlike(Kind::Cast, {randomOperand(from, shape, 5, 100), filledOperand(to, shape, 9)}, cast, 0);
      }
}

TEST(CudaElementwiseTest, Constants) {
  for (int32_t dtype : {MOERT_F32, MOERT_F64, MOERT_BF16, MOERT_F16, MOERT_I32})
    for (const auto &shape : kShapes)
      expectAlike(
          Kind::Fill, {filledOperand(dtype, shape, 9)}, [](Kernels &k, const Views &v) { return k.fill(v[0], -3); }, 0);
}

TEST(CudaElementwiseTest, Indices) {
  for (int64_t count : {0, 1, 1000}) {
    const std::vector<Operand> operands{randomOperand(MOERT_I32, {count}, 1, 1000),
                                        filledOperand(MOERT_I32, {count}, 9)};
    expectAlike(Kind::Positions, operands, [](Kernels &k, const Views &v) { return k.positions(v[1], 7, {}); });
    expectAlike(Kind::IndexAffine, operands,
                [](Kernels &k, const Views &v) { return k.indexAffine(v[0], v[1], -5, 1 << 30); });
    expectAlike(Kind::IndexAffine, operands,
                [](Kernels &k, const Views &v) { return k.indexAffine(v[0], v[0], 3, 1); });
  }
}

} // namespace
} // namespace moert::cuda
