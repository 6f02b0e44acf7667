//===- Ranks.cuh - ranks of items with the same key -----------------------===//
//
// Ranks items. Items come in segments and in an order. Each has a key from 0 to below `keys`, or none. The rank of an
// item is the number of earlier items of its segment with the same key. A counting sort needs only moves after that.
// Each warp takes a tile of consecutive items: one kernel counts the keys of every tile, one adds up the tiles before,
// and one ranks within the tile. Only integers are added, so no result depends on the order of threads.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_RANKS_CUH
#define MOERT_CUDA_RANKS_CUH

#include "core/Shapes.h"
#include "cuda/Reduce.cuh"

namespace moert::cuda {

/// Division of items into tiles. The tiles of a segment follow each other.
struct Ranking {
  int64_t segments = 1, keys = 1;
  int64_t tiles = 1, span = kWarp; ///< tiles of each segment, and items of a tile
  int warps = kThreads / kWarp;    ///< warps of a block
  bool isShared = true;            ///< whether warps count in shared memory or in place

  /// Division for segments of at most `items` items.
  static Ranking of(const Target &target, int64_t segments, int64_t items, int64_t keys) {
    constexpr int64_t kShared = (48 << 10) / sizeof(int32_t);
    // Enough tiles to keep the device busy, but few enough that adding them up is faster than counting.
    const int64_t most =
        std::max<int64_t>(int64_t(target.device.multiProcessors) * 4 / std::max<int64_t>(segments, 1), 1);
    Ranking ranking{segments, keys};
    ranking.span = divideUp(std::max<int64_t>(divideUp(items, most), 128), kWarp) * kWarp;
    ranking.tiles = std::max<int64_t>(divideUp(items, ranking.span), 1);
    ranking.isShared = keys <= kShared;
    while (ranking.isShared && ranking.warps * keys > kShared)
      ranking.warps /= 2;
    return ranking;
  }

  /// Number of counts of tiles, an int32_t each.
  int64_t counts() const { return segments * tiles * keys; }
  Grid tileGrid(const Target &target) const {
    Grid grid = gridOf(target, divideUp(segments * tiles, warps) * kThreads);
    grid.threads.x = static_cast<unsigned>(warps * kWarp);
    grid.sharedBytes = isShared ? warps * keys * static_cast<int64_t>(sizeof(int32_t)) : 0;
    return grid;
  }
};

/// Tile of a warp, and its counters.
struct RankTile {
  int64_t segment, begin, end; ///< items of the segment
  int32_t *counts, *counters;  ///< [keys], the same array if counted in place

  __device__ RankTile(const Ranking &ranking, int64_t tile, int64_t items, int32_t *tileCounts)
      : segment(tile / ranking.tiles), begin(tile % ranking.tiles * ranking.span),
        end(begin + ranking.span < items ? begin + ranking.span : items), counts(tileCounts + tile * ranking.keys),
        counters(ranking.isShared ? sharedMemory<int32_t>() + threadIdx.x / kWarp * ranking.keys : counts) {}
};

/// Counts the keys of tiles. `Items` has count(segment), index(segment, position), the item there, and key(index),
/// which is negative for none.
template <class Items>
__global__ void __launch_bounds__(kThreads) countTilesKernel(Items items, Ranking ranking, int32_t *tileCounts) {
  const int lane = threadIdx.x % kWarp;
  for (int64_t i = RowTeam<kWarp>::first(); i < ranking.segments * ranking.tiles; i += RowTeam<kWarp>::stride()) {
    const RankTile tile(ranking, i, items.count(i / ranking.tiles), tileCounts);
    for (int64_t key = lane; key < ranking.keys; key += kWarp)
      tile.counters[key] = 0;
    __syncwarp();
#pragma unroll 4
    for (int64_t position = tile.begin + lane; position < tile.end; position += kWarp) {
      const int32_t key = items.key(items.index(tile.segment, position));
      if (key >= 0)
        atomicAdd(tile.counters + key, 1);
    }
    __syncwarp();
    for (int64_t key = lane; ranking.isShared && key < ranking.keys; key += kWarp)
      tile.counts[key] = tile.counters[key];
    __syncwarp();
  }
}

/// Replaces the counts of tiles by those of the tiles before, and sums all: totals [segments, keys].
Status addTiles(const Target &target, const Ranking &ranking, int32_t *tileCounts, int32_t *totals);

/// Calls place(segment, index, key, rank) for every item. Key and rank are negative for items without a key.
template <class Items, class Place>
__global__ void __launch_bounds__(kThreads)
    rankTilesKernel(Items items, Ranking ranking, int32_t *tileCounts, Place place) {
  const int lane = threadIdx.x % kWarp;
  for (int64_t i = RowTeam<kWarp>::first(); i < ranking.segments * ranking.tiles; i += RowTeam<kWarp>::stride()) {
    const RankTile tile(ranking, i, items.count(i / ranking.tiles), tileCounts);
    for (int64_t key = lane; ranking.isShared && key < ranking.keys; key += kWarp)
      tile.counters[key] = tile.counts[key];
    __syncwarp();
    for (int64_t first = tile.begin; first < tile.end; first += kWarp) {
      const bool isItem = first + lane < tile.end;
      const int64_t index = isItem ? items.index(tile.segment, first + lane) : 0;
      const int32_t key = isItem ? items.key(index) : -1;
      const unsigned like = __match_any_sync(kFullMask, static_cast<unsigned>(key));
      const int before = __popc(like & ((1u << lane) - 1));
      const int32_t start = key >= 0 ? tile.counters[key] : -1;
      __syncwarp();
      if (key >= 0 && before == 0)
        tile.counters[key] = start + __popc(like);
      __syncwarp();
      if (isItem)
        place(tile.segment, index, key, key >= 0 ? start + before : -1);
    }
  }
}

/// Counts the items of each key of a segment: totals [segments, keys]. `tileCounts` has ranking.counts() elements,
/// which rankItems then reads.
template <class Items>
Status countItems(const Target &target, const Items &items, const Ranking &ranking, int32_t *tileCounts,
                  int32_t *totals) {
  if (ranking.counts() == 0)
    return {};
  MOERT_RETURN_IF_ERROR(launch(countTilesKernel<Items>, ranking.tileGrid(target), target, items, ranking, tileCounts));
  return addTiles(target, ranking, tileCounts, totals);
}

template <class Items, class Place>
Status rankItems(const Target &target, const Items &items, const Ranking &ranking, int32_t *tileCounts, Place place) {
  if (ranking.segments == 0)
    return {};
  return launch(rankTilesKernel<Items, Place>, ranking.tileGrid(target), target, items, ranking, tileCounts, place);
}

/// Computes offsets[segment, key] = segment * stride + the number of the segment's items with a lower key.
/// ends[segment], unless null, is where its items end.
Status sumOffsets(const Target &target, const int32_t *totals, int64_t segments, int64_t keys, int64_t stride,
                  int32_t *offsets, int32_t *ends);

// --- Choices of tokens ---------------------------------------------------------

/// Expert of a choice. If there is no such expert, the choice has none and a fault is noted.
struct ExpertOfChoice {
  const int32_t *experts;
  int64_t count; ///< number of experts
  FaultSite site;

  __device__ int32_t operator()(int64_t choice) const {
    const int32_t expert = experts[choice];
    if (expert >= 0 && expert < count)
      return expert;
    raise(site, FaultKind::ExpertRange, count, expert);
    return -1;
  }
};

/// Choices of chunks, each in the order (token, choice). Equal routing groups are also chunks.
template <class Key> struct ChunkChoices {
  Key ofChoice;
  int64_t tokens, choices, chunks;

  __device__ int64_t begin(int64_t chunk) const { return firstToken(chunk, chunks, tokens) * choices; }
  __device__ int64_t count(int64_t chunk) const { return begin(chunk + 1) - begin(chunk); }
  __device__ int64_t index(int64_t chunk, int64_t position) const { return begin(chunk) + position; }
  __device__ int32_t key(int64_t choice) const { return ofChoice(choice); }

  /// Ranking of the choices by `keys` different keys.
  Ranking ranking(const Target &target, int64_t keys) const {
    return Ranking::of(target, chunks, firstToken(1, chunks, tokens) * choices, keys);
  }
};

/// Places rows, sorted by key and then by rank. Choices without a key get no row.
struct SortedRows {
  const int32_t *offsets;
  int64_t keys;
  int32_t *slots;

  __device__ void operator()(int64_t chunk, int64_t choice, int32_t key, int32_t rank) const {
    slots[choice] = key < 0 ? -1 : offsets[chunk * keys + key] + rank;
  }
};

/// Fills `slots` with the sorted rows of each chunk, and counts [chunks, keys]. The first row of a chunk is chunk *
/// chunkRows.
template <class Key>
Status sortChoices(const Target &target, const ChunkChoices<Key> &items, const Ranking &ranking, int64_t chunkRows,
                   int32_t *tileCounts, int32_t *offsets, int32_t *slots, int32_t *counts) {
  MOERT_RETURN_IF_ERROR(countItems(target, items, ranking, tileCounts, counts));
  MOERT_RETURN_IF_ERROR(sumOffsets(target, counts, ranking.segments, ranking.keys, chunkRows, offsets, nullptr));
  return rankItems(target, items, ranking, tileCounts, SortedRows{offsets, ranking.keys, slots});
}

} // namespace moert::cuda

#endif // MOERT_CUDA_RANKS_CUH
