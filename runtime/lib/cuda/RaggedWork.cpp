//===- RaggedWork.cpp - tiles of ragged products, and the work they waste -===//

#include "cuda/RaggedWork.h"

#include <algorithm>

namespace moert::cuda {
namespace {

/// Rows and columns that a cluster computes together.
struct Step {
  int64_t rows, columns;
};

/// On 10.0, the two multiprocessors of a tall cluster compute one tile together. CUTLASS fills up each expert's tiles
/// to whole clusters (PersistentTileSchedulerSm90Group).
Step stepOf(Tile tile, int capability) {
  const TileShape shape = shapeOf(tile);
  const bool isShared = tile == Tile::Tall && capability >= 100;
  return {shape.rows * (isShared ? 1 : shape.clusterRows), shape.columns * shape.clusterColumns};
}

double padded(int64_t count, int64_t step) { return static_cast<double>((count + step - 1) / step * step); }

/// Time of a small tile's work, relative to that of a large tile. Small tiles load an element 1.6 times as often. This
/// is an estimate; a table of measurements (MOERT_PRODUCTS) takes its place.
double costOf(Tile tile) { return tile == Tile::Small ? 1.1 : 1.0; }

} // namespace

RaggedMethod methodOf(Tile tile) {
  switch (tile) {
  case Tile::Tall:
    return RaggedMethod::CutlassCooperative;
  case Tile::Wide:
    return RaggedMethod::CutlassWide;
  case Tile::Small:
    break;
  }
  return RaggedMethod::CutlassPingpong;
}

double usefulShare(const RaggedProduct &product, Tile tile, int capability) {
  const Step step = stepOf(tile, capability);
  const double columns = padded(product.n, step.columns);
  if (product.isWeightGradient())
    return static_cast<double>(product.k * product.n) / std::max(padded(product.k, step.rows) * columns, 1.0);
  const double rows = static_cast<double>(product.rows) / static_cast<double>(std::max<int64_t>(product.experts, 1));
  const double work = (rows + static_cast<double>(step.rows) / 2) * columns;
  return rows * static_cast<double>(product.n) / std::max(work, 1.0);
}

Tile chooseTile(const RaggedProduct &product, int capability) {
  auto useful = [&](Tile tile) { return usefulShare(product, tile, capability) / costOf(tile); };
  return *std::ranges::max_element(kTiles, {}, useful);
}

} // namespace moert::cuda
