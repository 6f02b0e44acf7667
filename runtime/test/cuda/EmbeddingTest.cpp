//===- EmbeddingTest.cpp - embeddings on CUDA -----------------------------===//

#include "CudaKernelsTest.h"

#include <random>

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

/// Ids below `end`, half of them equal.
Operand someIds(int64_t tokens, int64_t end, int seed) {
  Operand ids = filledOperand(MOERT_I32, {tokens}, static_cast<double>(end / 3));
  std::mt19937_64 engine(static_cast<uint64_t>(seed));
  for (double &id : ids.values)
    if (engine() % 2 != 0)
      id = static_cast<double>(engine() % static_cast<uint64_t>(end));
  return ids;
}

/// Operands: ids, a table, rows of tokens, an addend like the table.
void expectEmbeddings(int32_t dtype, const Operand &ids, int64_t rows, int64_t columns, Part part,
                      int64_t padding = -1) {
  const std::vector<Operand> operands{ids, randomOperand(dtype, {rows, columns}, 1),
                                      randomOperand(dtype, {ids.dims[0], columns}, 2),
                                      randomOperand(dtype, {rows, columns}, 3)};
  expectAlike(Kind::Embedding, operands,
              [=](Kernels &k, const Views &v) { return k.embedding(v[0], v[1], v[2], part); });
  for (int addend : {0, 1, 3})
    expectAlike(Kind::EmbeddingGrad, operands, [=](Kernels &k, const Views &v) {
      return k.embeddingGrad(v[0], v[2], addend ? v[static_cast<size_t>(addend)] : View(), v[1], part, padding);
    });
  for (int32_t sum : typesBeside(dtype)) {
    std::vector<Operand> wide = operands;
    wide[1] = randomOperand(sum, {rows, columns}, 4);
    expectAlike(Kind::EmbeddingGrad, wide,
                [=](Kernels &k, const Views &v) { return k.embeddingGrad(v[0], v[2], v[1], v[1], part, padding); });
  }
}

TEST(CudaEmbeddingTest, AllTypes) {
  for (int32_t dtype : kFloatingTypes)
    for (int64_t tokens : {0, 1, 75})
      for (int64_t columns : {1, 9, 64})
        for (int64_t rows : {1, 12})
          expectEmbeddings(dtype, someIds(tokens, rows, 1), rows, columns, {});
}

TEST(CudaEmbeddingTest, PartsOfTables) {
  for (int64_t rank : {0, 2, 5})
    expectEmbeddings(MOERT_F32, someIds(90, 21, 2), 7, 8, {3, 2, rank});
}

TEST(CudaEmbeddingTest, GradOfPadding) {
  for (int32_t dtype : kFloatingTypes)
    for (int64_t rank : {0, 1, 2})
      expectEmbeddings(dtype, someIds(90, 21, 2), 7, 8, {3, 1, rank}, 7);
}

/// Row numbers have one, two and three digits.
TEST(CudaEmbeddingTest, LargeTables) {
  for (int64_t rows : {512, 513, 3000, 300000})
    expectEmbeddings(MOERT_F32, someIds(300, rows, 3), rows, 2, {});
}

TEST(CudaEmbeddingTest, ManyTokensOfOneRow) {
  expectEmbeddings(MOERT_F32, filledOperand(MOERT_I32, {700}, 2), 4, 12, {});
  expectEmbeddings(MOERT_BF16, someIds(900, 5, 4), 5, 3, {});
}

TEST(CudaEmbeddingTest, IdsOutOfRange) {
  for (int id : {-1, 12, 1 << 30}) {
    const std::vector<Operand> operands{indices({3}, {5, id, 11}), randomOperand(MOERT_F32, {6, 4}, 1),
                                        randomOperand(MOERT_F32, {3, 4}, 2)};
    const std::string text = "expected 'ids' from 0 to 11 but got " + std::to_string(id) + " at 1";
    const Part part{2, 1, 1};
    expectSameError(
        Kind::Embedding, operands, [=](Kernels &k, const Views &v) { return k.embedding(v[0], v[1], v[2], part); },
        text);
    expectSameError(
        Kind::EmbeddingGrad, operands,
        [=](Kernels &k, const Views &v) { return k.embeddingGrad(v[0], v[2], {}, v[1], part, -1); }, text);
  }
}

} // namespace
} // namespace moert::cuda
