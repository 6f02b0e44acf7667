//===- AttentionTest.cpp - attention on CUDA ------------------------------===//

#include "AttentionCase.h"

#include <cmath>
#include <limits>

namespace moert::cuda {
namespace {

void run(std::vector<Operand> operands, const AttentionOptions &options) {
  auto forward = [=](Kernels &k, const Views &v) { return k.attention(inputsOf(v), v[Out], v[Lse], options); };
  expectAlike(Kind::Attention, operands, forward, 4);
  // Gradients start from the host's forward result, on both.
  onHost(Kind::Attention, operands, forward);
  auto backward = [=](Kernels &k, const Views &v) {
    return k.attentionGrad(inputsOf(v), v[Out], v[Lse], v[Grads], v[GradQ], v[GradK], v[GradV], options);
  };
  // The gradients are sums of many products of products.
  expectAlike(Kind::AttentionGrad, operands, backward, 8);
  auto biasGrad = [=](Kernels &k, const Views &v) {
    return k.attentionBiasGrad(inputsOf(v), v[Out], v[Lse], v[Grads], v[GradBias], options);
  };
  expectAlike(Kind::AttentionBiasGrad, operands, biasGrad, 8);
  if (operands[Sinks].isThere)
    expectAlike(
        Kind::AttentionSinksGrad, operands,
        [](Kernels &k, const Views &v) {
          return k.attentionSinksGrad(v[Sinks], v[Lse], v[Out], v[Grads], v[GradSinks]);
        },
        8);
}

void expectAllTypes(const Case &c) {
  for (int32_t dtype : kFloatingTypes)
    for (int32_t lseType : typesBeside(dtype))
      run(operandsOf(c, dtype, lseType), c.options);
}

/// f16 has the kernels of bf16, and the type of `lse` only changes how it is stored. expectAllTypes shows both.
void expectAttention(const Case &c) {
  for (int32_t dtype : {MOERT_F32, MOERT_F64, MOERT_BF16})
    run(operandsOf(c, dtype, typesBeside(dtype).back()), c.options);
}

// Neither rows nor columns are multiples of tiles.
TEST(CudaAttentionTest, OfAnySize) {
  Case c(70, 70, 2, 2);
  c.width = 20;
  c.valueWidth = 9;
  c.sequences = 2;
  expectAllTypes(c);
}

TEST(CudaAttentionTest, OneRow) {
  Case c(1, 1, 1, 1);
  expectAllTypes(c);
  c.options.kLength = 67;
  c.options.causal = true;
  expectAllTypes(c);
}

TEST(CudaAttentionTest, OfNothing) {
  Case c(3, 3, 2, 1);
  c.sequences = 0;
  expectAttention(c);
}

TEST(CudaAttentionTest, CausalWithWindow) {
  for (int64_t window : {int64_t(0), int64_t(5), int64_t(40), std::numeric_limits<int64_t>::max()}) {
    Case c(100, 100, 1, 1);
    c.options.causal = true;
    c.options.window = window;
    expectAttention(c);
  }
}

TEST(CudaAttentionTest, WindowAlone) {
  Case c(20, 90, 1, 1);
  c.options.window = 30;
  expectAttention(c);
}

// With more queries than keys, the first ones see none.
TEST(CudaAttentionTest, QueriesWithoutKeys) {
  for (bool hasSinks : {false, true}) {
    Case c(70, 30, 2, 1);
    c.options.causal = true;
    c.hasSinks = hasSinks;
    expectAttention(c);
  }
}

TEST(CudaAttentionTest, GroupedQueries) {
  Case c(33, 33, 8, 1);
  c.sequences = 2;
  c.options.causal = true;
  expectAllTypes(c);
}

// A rank has a part of the model's heads, with all key heads or only their own.
TEST(CudaAttentionTest, PartsOfHeads) {
  for (int64_t rank : {0, 1, 3}) {
    Case c(10, 12, 2, 2);
    c.options.part = {4, 1, rank};
    c.options.rows = {2, 2, rank};
    c.options.dropout = 0.3;
    expectAttention(c);
    // k and v have the part's key head.
    c.options.kHeads = 1;
    for (int32_t dtype : {MOERT_F32, MOERT_BF16}) {
      AttentionOptions options = c.options;
      options.kHeads = 4;
      run(operandsOf(c, dtype, dtype), options);
    }
  }
}

// A rank has one or two pieces of each sequence, whose border is inside a tile, or the keys of one rank.
TEST(CudaAttentionTest, PartsOfSequences) {
  // Queries fill one tile, or several.
  for (auto [rank, rows] : {std::pair<int64_t, int64_t>(0, 26), {2, 70}}) {
    Case c(rows, 3 * rows, 2, 1);
    c.options.causal = true;
    c.options.cut = {3, 1, true, rank};
    expectAttention(c);
    c.options.window = 40;
    c.hasBias = true;
    c.options.dropout = 0.3;
    c.sequences = 2;
    expectAttention(c);
    c.options.window = 0;
    c.options.block = 50;
    c.options.cut.zigzag = false;
    expectAttention(c);
    Case ring(rows, rows, 2, 1);
    ring.options.causal = true;
    ring.options.cut = {3, 1, true, rank};
    ring.options.keyShift = 1;
    expectAttention(ring);
  }
}

TEST(CudaAttentionTest, MergesParts) {
  for (int32_t dtype : kFloatingTypes)
    for (int32_t lseType : typesBeside(dtype)) {
      const std::vector<int64_t> rows{7, 3 * 24}, sums{7, 3};
      std::vector<Operand> operands{randomOperand(dtype, rows, 1), randomOperand(lseType, sums, 2),
                                    randomOperand(dtype, rows, 3), randomOperand(lseType, sums, 4),
                                    filledOperand(dtype, rows, 9), filledOperand(lseType, sums, 9)};
      const double lowest = -std::numeric_limits<double>::infinity();
      operands[1].values[4] = operands[1].values[5] = operands[3].values[4] = operands[3].values[6] = lowest;
      expectAlike(Kind::MergeAttention, operands,
                  [](Kernels &k, const Views &v) { return k.mergeAttention(v[0], v[1], v[2], v[3], v[4], v[5]); });
    }
}

TEST(CudaAttentionTest, Sinks) {
  Case c(40, 40, 3, 3);
  c.hasSinks = true;
  c.sequences = 2;
  expectAttention(c);
  // One sink is minus infinity, and biases hide all keys of a query.
  c.hasBias = true;
  std::vector<Operand> operands = operandsOf(c, MOERT_F32, MOERT_F32);
  const double lowest = -std::numeric_limits<double>::infinity();
  operands[Sinks].values[1] = lowest;
  for (size_t at = 0; at < 3 * 1600; ++at)
    if (at / 40 % 40 == 7 || at % 3 == 0)
      operands[Bias].values[at] = lowest;
  run(operands, c.options);
}

TEST(CudaAttentionTest, Dropout) {
  for (int64_t seed : {int64_t(0), int64_t(-9), int64_t(1) << 40}) {
    Case c(37, 45, 2, 1);
    c.options.dropout = 0.3;
    c.options.seed = seed;
    c.options.rows = {3, 1, 2};
    c.options.causal = seed != 0;
    c.sequences = 2;
    expectAttention(c);
  }
}

// DeepSeek's latent attention has keys with more columns than values.
TEST(CudaAttentionTest, KeysWiderThanValues) {
  Case c(36, 36, 1, 1);
  c.width = 192;
  c.valueWidth = 128;
  c.options.causal = true;
  c.options.scale = 0.07;
  expectAttention(c);
}

TEST(CudaAttentionTest, ValuesWiderThanKeys) {
  Case c(5, 9, 1, 1);
  c.width = 8;
  c.valueWidth = 136;
  expectAttention(c);
}

// Heads are so wide that only one step of the gradients' operands fits into shared memory, in f32 and in 16-bit types.
TEST(CudaAttentionTest, WideHeads) {
  Case c(70, 40, 1, 1);
  c.width = c.valueWidth = 96;
  c.options.scale = 0.1;
  run(operandsOf(c, MOERT_F32, MOERT_F32), c.options);
  c.width = 256;
  c.valueWidth = 192;
  c.options.scale = 0.06;
  run(operandsOf(c, MOERT_BF16, MOERT_F32), c.options);
}

// Heads are so wide that only chunks of the operands' columns fit into shared memory.
TEST(CudaAttentionTest, VeryWideHeads) {
  Case c(17, 18, 1, 1);
  c.width = 720;
  c.valueWidth = 300;
  c.options.scale = 0.02;
  expectAttention(c);
}

// T5's attention has other keys than queries, and biases.
TEST(CudaAttentionTest, AcrossWithBias) {
  Case c(19, 50, 2, 2);
  c.hasBias = true;
  c.sequences = 3;
  c.options.scale = 1;
  expectAttention(c);
  c.options.dropout = 0.5;
  expectAttention(c);
}

// Sums are as exact for scores far from 0.
TEST(CudaAttentionTest, LargeScores) {
  Case c(8, 70, 1, 1);
  std::vector<Operand> operands = operandsOf(c, MOERT_F64, MOERT_F64);
  for (double &value : operands[Q].values)
    value *= 300;
  run(operands, c.options);
}

TEST(CudaAttentionTest, NaNsShow) {
  Case c(20, 40, 1, 1);
  c.options.causal = true;
  for (int32_t dtype : {MOERT_F32, MOERT_BF16}) {
    std::vector<Operand> operands = operandsOf(c, dtype, MOERT_F32);
    operands[Q].values[3 * 16 + 2] = NAN;
    expectAlike(Kind::Attention, operands,
                [=](Kernels &k, const Views &v) { return k.attention(inputsOf(v), v[Out], v[Lse], c.options); });
  }
}

} // namespace
} // namespace moert::cuda
