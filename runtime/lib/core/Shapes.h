//===- Shapes.h - what kernels take from the shapes of checked operands ---===//
#ifndef MOERT_CORE_SHAPES_H
#define MOERT_CORE_SHAPES_H

#include "core/Inline.h"
#include "core/Kernels.h"
#include "core/Positions.h"

#include <algorithm>

namespace moert {

/// Rows of experts: [E,C,K], or ragged [R,K] with counts [sources,E].
struct ExpertShape {
  bool isRagged;
  int64_t experts;
  int64_t capacity; ///< C or R
  int64_t columns;

  ExpertShape(View rows, View counts)
      : isRagged(counts), experts(isRagged ? counts.dims[1] : rows.dims[0]), capacity(rows.dims[isRagged ? 0 : 1]),
        columns(rows.dims[isRagged ? 1 : 2]) {}
};

/// Last value of moert_activation_kind, which begins at 0.
inline constexpr int64_t kLastActivation = MOERT_SOFTPLUS;

/// Whether the activation takes pairs of columns.
inline bool isGated(int64_t kind) { return kind == MOERT_SWIGLU || kind == MOERT_SWIGLU_CLAMPED; }
/// Result of an activation of `in`, without data.
inline View activationResult(View in, int64_t kind) {
  in.data = nullptr;
  if (isGated(kind))
    in.dims[in.rank - 1] /= 2;
  return in;
}

/// Number of times that `many` has each block of `one` along `dim`; 1 if `one` is empty.
inline int64_t copiesAlong(View one, View many, int64_t dim) {
  return one.dims[dim] > 0 && many.rank == one.rank ? many.dims[dim] / one.dims[dim] : 1;
}

/// First token of chunk `chunk` of `chunks`: token s is in chunk floor(s * chunks / tokens). The first token of chunk 1
/// is also the largest number of tokens of a chunk.
constexpr int64_t firstToken(int64_t chunk, int64_t chunks, int64_t tokens) {
  return (chunk * tokens + chunks - 1) / chunks;
}

/// A row of heads, each with its own columns and then the shared ones: `own` [S, H D] and `shared` [S, R] make `all`
/// [S, H (D + R)]. It has no heads if they do not fit.
struct HeadShape {
  int64_t heads = 0, own = 0, shared = 0;

  HeadShape(View ownColumns, View sharedColumns, View all) {
    const int64_t owned = ownColumns.dims[1], each = sharedColumns.dims[1], rest = all.dims[1] - owned;
    const int64_t count = each > 0 ? rest / each : 0;
    if (count <= 0 || count * each != rest || owned <= 0 || owned % count != 0)
      return;
    heads = count;
    own = owned / count;
    shared = each;
  }
};

/// Places of the queries and keys of an attention, and the key head of each query head.
struct AttentionShape {
  int64_t sequences = 0, queries = 0, keys = 0; ///< in one sequence
  int64_t allQueries = 0, allKeys = 0;          ///< in one sequence, with those of other ranks
  int64_t heads = 0, keyHeads = 0;              ///< heads of q, and heads of k and v
  int64_t width = 0, valueWidth = 0;            ///< columns of a head
  int64_t firstHead = 0, modelHeads = 0;        ///< place of q's heads among the model's
  bool hasOwnKeys = false;                      ///< k and v have only the key heads of q's heads
  bool causal = false;
  int64_t window = 0; ///< keys that a query sees; 0: all. At most as many as there are
  int64_t block = 0;  ///< positions whose queries see only each other's keys; 0: all positions
  RowPlaces places;   ///< places of queries
  RowPlaces keyPlaces;

  AttentionShape() = default;
  /// Requires q, k and v of rank 2 and options in their ranges.
  AttentionShape(const AttentionInputs &inputs, const AttentionOptions &options)
      : sequences(inputs.q.dims[0] / options.qLength), queries(options.qLength), keys(options.kLength),
        allQueries(queries * options.cut.parts), allKeys(keys * (options.keyShift < 0 ? 1 : options.cut.parts)),
        heads(options.heads), width(inputs.q.dims[1] / options.heads), firstHead(options.part.index() * heads),
        modelHeads(options.part.parts * heads), causal(options.causal),
        window(std::min(options.window, allQueries + allKeys)), block(options.block), places(queries, options.cut),
        keyPlaces(options.keyShift < 0 ? RowPlaces(keys, {}) : RowPlaces(keys, options.cut, options.keyShift)) {
    const int64_t parts = options.part.parts;
    hasOwnKeys = parts > 1 && options.kHeads % parts == 0 && inputs.k.dims[1] * parts == options.kHeads * width;
    keyHeads = hasOwnKeys ? options.kHeads / parts : options.kHeads;
    valueWidth = inputs.v.dims[1] / keyHeads;
  }

  MOERT_INLINE int64_t keyHead(int64_t head) const {
    return hasOwnKeys ? head * keyHeads / heads : (firstHead + head) * keyHeads / modelHeads;
  }

  /// The first key that query i sees, and the end of those that it sees. Neither falls from one query to the next.
  MOERT_INLINE int64_t firstKey(int64_t i) const {
    const int64_t place = keyPlace(i), first = window > 0 ? place - window + 1 : 0;
    return keyPlaces.countBefore(block > 0 ? larger(first, place / block * block) : first);
  }
  MOERT_INLINE int64_t endKey(int64_t i) const {
    const int64_t place = keyPlace(i), last = causal ? place + 1 : block > 0 ? (place / block + 1) * block : allKeys;
    return larger(keyPlaces.countBefore(last), firstKey(i));
  }
  /// The first query that sees key j, and the end of those that see it.
  MOERT_INLINE int64_t firstQuery(int64_t j) const {
    const int64_t place = keyPlaces.at(j);
    return causal ? queriesBefore(place) : block > 0 ? queriesBefore(place / block * block) : 0;
  }
  MOERT_INLINE int64_t endQuery(int64_t j) const {
    const int64_t place = keyPlaces.at(j), end = window > 0 ? queriesBefore(place + window) : queries;
    const int64_t ofBlock = block > 0 ? queriesBefore((place / block + 1) * block) : queries;
    return larger(end < ofBlock ? end : ofBlock, firstQuery(j));
  }

private:
  /// Position of query i among the keys: the last queries and the last keys have the same positions.
  MOERT_INLINE int64_t keyPlace(int64_t i) const { return places.at(i) + allKeys - allQueries; }
  /// Number of queries before position `place` of keys.
  MOERT_INLINE int64_t queriesBefore(int64_t place) const { return places.countBefore(place + allQueries - allKeys); }
  static MOERT_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
};

} // namespace moert

#endif // MOERT_CORE_SHAPES_H
