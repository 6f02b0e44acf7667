//===- RaggedWork.h - tiles of ragged products, and the work they waste ---===//
//
// CUTLASS's grouped kernels compute whole tiles, and whole clusters of tiles. Rows and columns beyond a product's edge
// cost as much as the others.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_RAGGEDWORK_H
#define MOERT_CUDA_RAGGEDWORK_H

#include "cuda/ProductTable.h"

namespace moert::cuda {

/// Tiles of CUTLASS's grouped kernels.
enum class Tile {
  Tall,  ///< 256 x 128
  Wide,  ///< 128 x 256
  Small, ///< 128 x 128
};
constexpr Tile kTiles[] = {Tile::Tall, Tile::Wide, Tile::Small};

/// Rows and columns of a tile, and of a cluster in tiles. The tiles of a cluster share the loads of one operand.
struct TileShape {
  int rows, columns;
  int clusterRows, clusterColumns;
};
constexpr TileShape shapeOf(Tile tile) {
  switch (tile) {
  case Tile::Tall:
    return {256, 128, 2, 1};
  case Tile::Wide:
    return {128, 256, 1, 2};
  case Tile::Small:
    break;
  }
  return {128, 128, 1, 1};
}

/// Method that computes by such tiles.
RaggedMethod methodOf(Tile tile);

/// Expected share of a product's work that gives results, from 0 to 1, on a device of that compute capability. The rest
/// pads the edges of experts. Experts have different numbers of rows, so that the last cluster of an expert is half
/// full on average. The rows and columns of weight gradients are exact.
double usefulShare(const RaggedProduct &product, Tile tile, int capability);

/// Tile that computes the product in the least time, by the work that tiles waste.
Tile chooseTile(const RaggedProduct &product, int capability);

} // namespace moert::cuda

#endif // MOERT_CUDA_RAGGEDWORK_H
