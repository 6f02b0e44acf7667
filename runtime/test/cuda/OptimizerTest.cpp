//===- OptimizerTest.cpp - optimizers on CUDA -----------------------------===//

#include "CudaKernelsTest.h"

#include <cmath>

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

const std::vector<std::vector<int64_t>> kShapes = {{0}, {1}, {13, 5}, {3, 70, 64}};

TEST(CudaOptimizerTest, SumsOfSquares) {
  for (int32_t dtype : kFloatingTypes)
    for (int32_t beside : typesBeside(dtype))
      for (const auto &shape : kShapes)
        expectAlike(Kind::SumSquares, {randomOperand(dtype, shape, 1), filledOperand(beside, {}, 9)},
                    [](Kernels &k, const Views &v) { return k.sumSquares(v[0], v[1]); });
}

struct StepTypes {
  int32_t param, grad, state;
};

/// All values of one type, and the types that may stand beside 16-bit types.
std::vector<StepTypes> stepTypes() {
  std::vector<StepTypes> types;
  for (int32_t grad : kFloatingTypes)
    for (int32_t param : typesBeside(grad))
      for (int32_t state : typesBeside(param))
        types.push_back({param, grad, state});
  return types;
}

TEST(CudaOptimizerTest, Sgd) {
  for (StepTypes types : stepTypes())
    for (const auto &shape : kShapes) {
      const std::vector<Operand> operands{randomOperand(types.param, shape, 1), randomOperand(types.grad, shape, 2),
                                          randomOperand(types.state, shape, 3), filledOperand(types.param, {}, 0.1),
                                          filledOperand(types.param, {}, 0.5),  filledOperand(types.param, shape, 9),
                                          filledOperand(types.state, shape, 9)};
      expectAlike(Kind::Sgd, operands, [](Kernels &k, const Views &v) {
        return k.sgd(v[0], v[1], v[2], v[3], v[4], v[5], v[6], 0.9, 0.01);
      });
      expectAlike(Kind::Sgd, operands,
                  [](Kernels &k, const Views &v) { return k.sgd(v[0], v[1], v[2], v[3], {}, v[0], v[2], 0.9, 0); });
    }
}

TEST(CudaOptimizerTest, Adam) {
  for (StepTypes types : stepTypes())
    for (const auto &shape : kShapes)
      for (int step : {0, 99}) {
        std::vector<Operand> operands{randomOperand(types.param, shape, 1),  randomOperand(types.grad, shape, 2),
                                      randomOperand(types.state, shape, 3),  randomOperand(types.state, shape, 4),
                                      filledOperand(types.param, {}, 0.125), indices({}, {step}),
                                      filledOperand(types.param, {}, 0.5),   filledOperand(types.param, shape, 9),
                                      filledOperand(types.state, shape, 9),  filledOperand(types.state, shape, 9)};
        for (double &value : operands[3].values)
          value = std::abs(value);
        expectAlike(Kind::Adam, operands, [](Kernels &k, const Views &v) {
          return k.adam(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], {0.9, 0.999, 1e-8, 0.01});
        });
        expectAlike(Kind::Adam, operands, [](Kernels &k, const Views &v) {
          return k.adam(v[0], v[1], v[2], v[3], v[4], v[5], {}, v[0], v[2], v[3], {0.9, 0.95, 1e-6, 0});
        });
      }
}

TEST(CudaOptimizerTest, AFactorOfZeroLeavesOutWhatIsNotFinite) {
  std::vector<Operand> operands{randomOperand(MOERT_F32, {9}, 1), filledOperand(MOERT_F32, {9}, NAN),
                                randomOperand(MOERT_F32, {9}, 2), filledOperand(MOERT_F32, {}, 0.1),
                                filledOperand(MOERT_F32, {}, 0)};
  expectAlike(Kind::Sgd, operands,
              [](Kernels &k, const Views &v) { return k.sgd(v[0], v[1], v[2], v[3], v[4], v[0], v[2], 0.9, 0.01); });
}

} // namespace
} // namespace moert::cuda
