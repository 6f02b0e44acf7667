//===- PositionsTest.cpp - rotary positions and relative biases on CUDA ---===//

#include "CudaKernelsTest.h"

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

void expectRotary(int32_t dtype, int64_t tokens, int64_t heads, const RotaryOptions &options) {
  const std::vector<Operand> operands{randomOperand(dtype, {tokens, heads * options.headDim}, 1),
                                      filledOperand(dtype, {tokens, heads * options.headDim}, 9)};
  expectAlike(Kind::Rotary, operands, [=](Kernels &k, const Views &v) { return k.rotary(v[0], v[1], options); });
  expectAlike(Kind::Rotary, operands, [=](Kernels &k, const Views &v) { return k.rotary(v[0], v[0], options); });
}

TEST(CudaPositionsTest, PartsOfSequences) {
  for (bool zigzag : {false, true}) {
    RotaryOptions options;
    options.period = 6;
    options.headDim = options.rotaryDim = 8;
    options.cut = {3, 2, zigzag, 5};
    for (int32_t dtype : kFloatingTypes) {
      expectRotary(dtype, 12, 2, options);
      const std::vector<Operand> operands{randomOperand(dtype, {24, 9}, 1), filledOperand(dtype, {24, 9}, 9)};
      for (bool inverse : {false, true})
        expectAlike(Kind::JoinSequences, operands, [=](Kernels &k, const std::vector<View> &v) {
          return k.joinSequences(v[0], v[1], {2, 2, 6, zigzag}, inverse);
        });
    }
    expectAlike(Kind::Positions, {filledOperand(MOERT_I32, {12}, 9)},
                [=](Kernels &k, const std::vector<View> &v) { return k.positions(v[0], 6, {3, 2, zigzag, 5}); });
  }
}

TEST(CudaPositionsTest, RotaryOfAnyColumns) {
  // Columns of a head, the first rotated one, and their number.
  const std::vector<std::vector<int64_t>> heads{{64, 0, 64}, {192, 128, 64}, {24, 8, 16},
                                                {10, 2, 6},  {7, 1, 4},      {8, 0, 0}};
  for (int32_t dtype : kFloatingTypes)
    for (const auto &head : heads)
      for (bool interleaved : {false, true})
        for (int64_t direction : {1, -1}) {
          RotaryOptions options;
          options.period = 9;
          options.headDim = head[0];
          options.begin = head[1];
          options.rotaryDim = head[2];
          options.interleaved = interleaved;
          options.direction = direction;
          options.scale = 1.25;
          for (int64_t tokens : {0, 1, 18})
            expectRotary(dtype, tokens, 3, options);
        }
}

TEST(CudaPositionsTest, RotaryOfStretchedPositions) {
  RotaryOptions options;
  options.period = 5000;
  options.headDim = options.rotaryDim = 32;
  options.base = 500000;
  options.factor = 8;
  options.low = 3;
  options.high = 11.5;
  for (int32_t dtype : {MOERT_F32, MOERT_F64, MOERT_BF16})
    expectRotary(dtype, 700, 1, options);
}

TEST(CudaPositionsTest, RotaryOfTurnsAndTemperature) {
  for (int32_t dtype : kFloatingTypes)
    for (int64_t direction : {1, 0, -1}) {
      RotaryOptions options;
      options.period = 70;
      options.headDim = options.rotaryDim = 16;
      options.direction = direction;
      options.base = 50;
      options.factor = 8;
      options.low = 4;
      options.high = 1;
      options.reach = 64;
      options.temperature = 0.1;
      options.span = 8;
      expectRotary(dtype, 140, 2, options);
    }
}

void expectRelative(int32_t dtype, std::vector<int64_t> shape, int64_t buckets, bool bidirectional, int64_t most) {
  const int64_t heads = shape[0];
  const std::vector<Operand> operands{randomOperand(dtype, {buckets, heads}, 1), filledOperand(dtype, shape, 9),
                                      randomOperand(dtype, shape, 2), filledOperand(dtype, {buckets, heads}, 9)};
  // The sums have many terms.
  const double slack = 4;
  expectAlike(Kind::RelativeBias, operands,
              [=](Kernels &k, const Views &v) { return k.relativeBias(v[0], v[1], bidirectional, most); });
  for (size_t addend : {size_t(0), size_t(1)})
    expectAlike(
        Kind::RelativeBiasGrad, operands,
        [=](Kernels &k, const Views &v) {
          return k.relativeBiasGrad(v[2], addend ? v[0] : View(), v[3], bidirectional, most);
        },
        slack);
  expectAlike(
      Kind::RelativeBiasGrad, operands,
      [=](Kernels &k, const Views &v) { return k.relativeBiasGrad(v[2], v[0], v[0], bidirectional, most); }, slack);
  for (int32_t sum : typesBeside(dtype)) {
    std::vector<Operand> wide = operands;
    wide[0] = randomOperand(sum, operands[0].dims, 5);
    expectAlike(
        Kind::RelativeBiasGrad, wide,
        [=](Kernels &k, const Views &v) { return k.relativeBiasGrad(v[2], v[0], v[0], bidirectional, most); }, slack);
  }
}

TEST(CudaPositionsTest, RelativeBiases) {
  for (int32_t dtype : kFloatingTypes)
    for (bool bidirectional : {false, true}) {
      expectRelative(dtype, {2, 40, 40}, 32, bidirectional, 128);
      expectRelative(dtype, {3, 5, 72}, 8, bidirectional, 20);
      expectRelative(dtype, {2, 30, 30}, 9, bidirectional, 20);
      expectRelative(dtype, {2, 30, 30}, 11, bidirectional, 20);
      expectRelative(dtype, {1, 33, 1}, 4, bidirectional, 3);
      expectRelative(dtype, {2, 0, 4}, 8, bidirectional, 9);
    }
}

} // namespace
} // namespace moert::cuda
