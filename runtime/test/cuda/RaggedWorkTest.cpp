//===- RaggedWorkTest.cpp - the work that tiles of ragged products waste --===//

#include "cuda/RaggedProducts.h"

#include <gtest/gtest.h>

namespace moert::cuda {
namespace {

RaggedProduct forward(int64_t experts, int64_t rows, int64_t n, int64_t k) {
  return {RaggedProduct::Pass::Forward, MOERT_BF16, experts, rows * experts, n, k};
}
RaggedProduct weightGradient(int64_t experts, int64_t rows, int64_t n, int64_t k) {
  return {RaggedProduct::Pass::WeightGradient, MOERT_BF16, experts, rows * experts, n, k};
}

/// Useful work of the three tiles. Clusters have 512 x 128, 128 x 512 and 128 x 128 on compute capability 9.0.
struct Shares {
  double tall, wide, small;
};
void expectShares(const RaggedProduct &product, Shares expected, int capability = 90) {
  constexpr double kError = 1e-12;
  EXPECT_NEAR(usefulShare(product, Tile::Tall, capability), expected.tall, kError);
  EXPECT_NEAR(usefulShare(product, Tile::Wide, capability), expected.wide, kError);
  EXPECT_NEAR(usefulShare(product, Tile::Small, capability), expected.small, kError);
}

// The last cluster of an expert is half full on average. Columns of 2048 have no waste.
TEST(RaggedWorkTest, RowsOfExperts) {
  expectShares(forward(128, 256, 2048, 768), {256.0 / (256 + 256), 256.0 / (256 + 64), 256.0 / (256 + 64)});
  expectShares(forward(128, 512, 2048, 768), {512.0 / 768, 512.0 / 576, 512.0 / 576});
  expectShares(forward(8, 1024, 2048, 768), {1024.0 / 1280, 1024.0 / 1088, 1024.0 / 1088});
  expectShares(forward(8, 4096, 2048, 768), {4096.0 / 4352, 4096.0 / 4160, 4096.0 / 4160});
}

// Rows of weight gradients are the columns of the layer's input, and known.
TEST(RaggedWorkTest, RowsOfWeightGradients) {
  expectShares(weightGradient(128, 256, 2048, 768), {768.0 / 1024, 1, 1});
  expectShares(weightGradient(64, 256, 2048, 1408), {1408.0 / 1536, 1, 1});
  expectShares(weightGradient(64, 256, 2048, 2048), {1, 1, 1});
  expectShares(weightGradient(64, 256, 2048, 2880), {2880.0 / 3072, 2880.0 / 2944, 2880.0 / 2944});
  expectShares(weightGradient(8, 256, 2048, 14336), {1, 1, 1});
}

TEST(RaggedWorkTest, Columns) {
  expectShares(weightGradient(128, 256, 768, 2048), {1, 768.0 / 1024, 1});
  expectShares(weightGradient(64, 256, 1408, 2048), {1, 1408.0 / 1536, 1});
  expectShares(weightGradient(32, 256, 2880, 2048), {2880.0 / 2944, 2880.0 / 3072, 2880.0 / 2944});
  expectShares(weightGradient(8, 256, 14336, 2048), {1, 1, 1});
}

// On 10.0, two multiprocessors share a tile of 256 x 128, so that a cluster has no more rows than a tile.
TEST(RaggedWorkTest, TallTilesOfTwoMultiprocessors) {
  for (int capability : {100, 103}) {
    expectShares(forward(128, 256, 2048, 768), {256.0 / (256 + 128), 256.0 / 320, 256.0 / 320}, capability);
    expectShares(weightGradient(128, 256, 2048, 768), {1, 1, 1}, capability);
  }
}

TEST(RaggedWorkTest, NoRows) {
  expectShares(forward(8, 0, 2048, 768), {0, 0, 0});
  expectShares(weightGradient(8, 0, 2048, 0), {0, 0, 0});
}

struct Choice {
  RaggedProduct product;
  Tile tile;
};
void expectChoices(std::initializer_list<Choice> choices) {
  for (const auto &[product, tile] : choices)
    EXPECT_EQ(chooseTile(product, 90), tile) << product.rows << " rows, n " << product.n << ", k " << product.k;
}

// A layer has 8 experts, 4096 columns and 14336 inner ones, twice as many with the gate. All columns are multiples of
// 512, so the rows decide.
TEST(RaggedWorkTest, Mixtral) {
  for (int64_t rows : {256, 512, 1024, 4096})
    expectChoices({{forward(8, rows, 28672, 4096), Tile::Wide},
                   {forward(8, rows, 4096, 14336), Tile::Wide},
                   {weightGradient(8, rows, 28672, 4096), Tile::Tall},
                   {weightGradient(8, rows, 4096, 14336), Tile::Tall}});
}

// A layer has 128 experts, 2048 columns and 768 inner ones, 1536 with the gate.
TEST(RaggedWorkTest, Qwen3) {
  for (int64_t rows : {256, 512, 1024, 4096})
    expectChoices({{forward(128, rows, 1536, 2048), Tile::Wide},
                   {forward(128, rows, 2048, 768), Tile::Wide},
                   {weightGradient(128, rows, 1536, 2048), Tile::Tall},
                   {weightGradient(128, rows, 2048, 768), Tile::Wide}});
  // Without the gate beside it, a wide tile wastes a quarter of the columns. Few rows need a small tile: it wastes 20%
  // of 256 rows, and a tall one 50%. 33% of 512 rows exceed 11% and the cost of small tiles, and 20% of 1024 rows
  // exceed 6% and this cost.
  expectChoices({{forward(128, 256, 768, 2048), Tile::Small},
                 {forward(128, 512, 768, 2048), Tile::Small},
                 {forward(128, 1024, 768, 2048), Tile::Small},
                 {forward(128, 4096, 768, 2048), Tile::Tall},
                 {weightGradient(128, 256, 768, 2048), Tile::Tall}});
}

// A layer has 256 experts, 7168 columns and 2048 inner ones.
TEST(RaggedWorkTest, DeepSeekV3) {
  for (int64_t rows : {256, 512, 1024, 4096})
    expectChoices({{forward(32, rows, 4096, 7168), Tile::Wide},
                   {forward(32, rows, 7168, 2048), Tile::Wide},
                   {weightGradient(32, rows, 4096, 7168), Tile::Tall},
                   {weightGradient(32, rows, 7168, 2048), Tile::Tall}});
}

// gpt-oss has 2880 columns on both sides, of which tall and wide tiles waste 8% each. Small tiles would save less than
// they cost. DeepSeek-V2-Lite has 1408 inner columns.
TEST(RaggedWorkTest, OtherColumns) {
  expectChoices({{weightGradient(32, 1024, 2880, 2880), Tile::Tall},
                 {forward(32, 256, 2880, 2880), Tile::Wide},
                 {weightGradient(64, 256, 2048, 1408), Tile::Wide},
                 {weightGradient(64, 256, 1408, 2048), Tile::Tall},
                 {forward(64, 1024, 1408, 2048), Tile::Wide}});
}

// A device without CUTLASS's kernels never asks for their tiles.
TEST(RaggedWorkTest, TilesHaveMethods) {
  EXPECT_EQ(methodOf(Tile::Tall), RaggedMethod::CutlassCooperative);
  EXPECT_EQ(methodOf(Tile::Wide), RaggedMethod::CutlassWide);
  EXPECT_EQ(methodOf(Tile::Small), RaggedMethod::CutlassPingpong);
}

} // namespace
} // namespace moert::cuda
