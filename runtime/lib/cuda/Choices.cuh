//===- Choices.cuh - the choices of tokens, counted and put in rows -------===//
#ifndef MOERT_CUDA_CHOICES_CUH
#define MOERT_CUDA_CHOICES_CUH

#include "core/Shapes.h"
#include "cuda/Ranks.cuh"

namespace moert::cuda {

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

#endif // MOERT_CUDA_CHOICES_CUH
