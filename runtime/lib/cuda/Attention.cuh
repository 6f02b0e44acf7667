//===- Attention.cuh - shared parts of the attention kernels --------------===//
//
// Shared parts of the attention kernels. A block of threads has kOwnRows rows of one side: queries or keys of one head
// of one sequence. It goes through the rows of the other side, a tile at a time. Scores stay in registers, in the
// layout of Mma.cuh (FlashAttention-2, Dao, 2023). Gradients are summed without atomics: blocks that have queries sum
// gradients of queries, and blocks that have keys sum gradients of keys and values. Each kind of block computes the
// scores again.
//
// A block computes as many columns of a result as its registers hold. If heads have more columns, several blocks share
// a tile.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_ATTENTION_CUH
#define MOERT_CUDA_ATTENTION_CUH

#include "core/Shapes.h"
#include "cuda/Math.cuh"
#include "cuda/Mma.cuh"
#include "cuda/Philox.cuh"

#include <cmath>
#include <functional>
#include <limits>

namespace moert::cuda::attention {

inline constexpr int kWarps = 4, kOwnRows = kWarps * kMmaRows, kBlockThreads = kWarps * kWarp;

/// Largest dynamic shared memory of a block: all devices of compute capability 8.0 and higher have it.
inline constexpr int64_t kMostShared = 96 << 10;

__host__ __device__ constexpr int roundUp(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// --- Operands ----------------------------------------------------------------

/// Rows of one head in memory.
template <class T> struct Matrix {
  const T *data;
  int64_t stride; ///< between rows
  int columns;
  bool isAligned; ///< rows can be loaded by 16 bytes
};

/// Number of columns of an operand that are in shared memory at a time: all of them, or a chunk. Each product loads its
/// chunks again.
struct Chunks {
  int columns; ///< in all, a multiple of 16
  int chunk;
};

/// Waits until all threads have what they began to load.
__device__ __forceinline__ void awaitCopies() {
  __pipeline_wait_prior(0);
  __syncthreads();
}

/// Rows of a matrix in shared memory, as an operand of products. Missing rows and columns are zeros. With two buffers,
/// one is loaded while products read the other.
template <class T, int Rows> class Operand {
public:
  __device__ Operand(T *memory, Chunks chunks, int buffers = 1)
      : tile(memory), chunks(chunks), pitch(pitchOf<T>(chunks.chunk)),
        filling(memory + (buffers - 1) * elements(chunks)), end(memory + buffers * elements(chunks)) {}

  static __host__ __device__ constexpr int64_t elements(Chunks chunks) {
    return int64_t(Rows) * pitchOf<T>(chunks.chunk);
  }

  /// Begins to load `count` rows from `first` on, which products read after the next turn(). All threads must be done
  /// with the buffer that is filled.
  __device__ void start(Matrix<T> from, int64_t first, int count) {
    matrix = from;
    matrix.data += first * from.stride;
    rows = count;
    if (!isChunked())
      load(0);
  }
  /// Hands the loaded rows to the products that follow.
  __device__ void turn() {
    T *loaded = filling;
    filling = tile;
    tile = loaded;
  }
  /// Begins to load a chunk of columns.
  __device__ void load(int column) {
    constexpr int V = kVector<T>;
    const int packs = chunks.chunk / V;
    for (int i = threadIdx.x; i < Rows * packs; i += kBlockThreads) {
      const int row = i / packs, at = (i - row * packs) * V;
      copy(filling + row * pitch + at, row, column + at);
    }
    __pipeline_commit();
  }
  /// Address of the columns from `column` on, a multiple of the chunk. Loads them if the operand is in chunks.
  __device__ const T *columnsFrom(int column) {
    if (!isChunked())
      return tile + column;
    __syncthreads();
    load(column);
    awaitCopies();
    return tile;
  }

  __device__ bool isChunked() const { return chunks.chunk < chunks.columns; }
  __device__ int columns() const { return chunks.columns; }

  T *tile;
  Chunks chunks;
  int pitch;

private:
  /// Copies one vector.
  __device__ void copy(T *to, int row, int column) {
    const int left = row < rows ? matrix.columns - column : 0;
    stageVector(to, matrix.data + row * matrix.stride + column, left, matrix.isAligned, matrix.data);
  }

  T *filling;
  Matrix<T> matrix;
  int rows = 0;

public:
  T *end; ///< end of its memory
};

/// sums += the warp's rows of own, times other^T. Both are loaded, except operands in chunks.
template <class T, class A, int N, int Rows>
__device__ __forceinline__ void multiply(A (&sums)[N][4], Operand<T, kOwnRows> &own, Operand<T, Rows> &other) {
  static_assert(Rows == 8 * N);
  const int warpRow = static_cast<int>(threadIdx.x) / kWarp * kMmaRows;
  for (int column = 0; column < own.columns(); column += own.chunks.chunk) {
    if (own.isChunked()) {
      __syncthreads();
      own.load(column);
      other.load(column);
      awaitCopies();
    }
    const int depth = own.columns() - column < own.chunks.chunk ? own.columns() - column : own.chunks.chunk;
    addRowsByRows(sums, static_cast<const T *>(own.tile + warpRow * own.pitch), static_cast<const T *>(other.tile),
                  own.pitch, depth);
  }
}

template <class A, int N> __device__ __forceinline__ void clear(A (&sums)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      sums[n][e] = 0;
}

/// Row placeOf(r) of `rows` = factors of row r = laneRow() + 8 i times the sums, for the first `count` rows and
/// `columns` columns.
template <class T, class A, int N, class PlaceOf = std::identity>
__device__ __forceinline__ void storeRows(const A (&sums)[N][4], const A (&factors)[2], T *rows, int64_t stride,
                                          int count, int columns, PlaceOf placeOf = {}) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = static_cast<int>(threadIdx.x) / kWarp * kMmaRows + laneRow() + 8 * r;
    if (row >= count)
      continue;
#pragma unroll
    for (int n = 0; n < N; ++n)
      if (const int column = 8 * n + laneColumn(); column < columns)
        storePair(rows + placeOf(row) * stride + column, convert<T>(factors[r] * sums[n][2 * r]),
                  convert<T>(factors[r] * sums[n][2 * r + 1]), column + 1 < columns);
  }
}

// --- One call ----------------------------------------------------------------

/// Statistics of a query. `lse` is the logarithm of its sum, or plus infinity if it sees no key, so that its
/// probabilities are 0. `delta` is the product of its result and the result's gradient.
template <class A> struct RowStats {
  A lse, delta;
};

/// The operands and attributes of a call, for kernels.
template <class T> struct Problem {
  AttentionShape shape;
  const T *q, *k, *v, *bias, *sinks;
  const int32_t *step; ///< null without dropout
  int64_t seed, firstSequence;
  double scale, dropout;
  bool areKeysAligned, areValuesAligned; ///< alignment of q and k, and of v and the gradients of the result
  Chunks keyChunks, valueChunks;
  int buffers = 2; ///< buffers of the operands in steps

  Problem(const AttentionInputs &inputs, const AttentionOptions &options)
      : shape(inputs, options), q(inputs.q.as<const T>()), k(inputs.k.as<const T>()), v(inputs.v.as<const T>()),
        bias(inputs.bias.as<const T>()), sinks(inputs.sinks.as<const T>()),
        step(options.dropout > 0 ? inputs.step.as<const int32_t>() : nullptr), seed(options.seed),
        firstSequence(shape.sequences * options.rows.index()), scale(options.scale), dropout(options.dropout),
        areKeysAligned(areAligned(q, k) && shape.width % kVector<T> == 0),
        areValuesAligned(areAligned(v) && shape.valueWidth % kVector<T> == 0),
        keyChunks{roundUp(static_cast<int>(shape.width), kMmaRows), 0},
        valueChunks{roundUp(static_cast<int>(shape.valueWidth), kMmaRows), 0} {
    keyChunks.chunk = keyChunks.columns;
    valueChunks.chunk = valueChunks.columns;
  }
  void cutColumns(int chunk) {
    keyChunks.chunk = std::min(keyChunks.columns, chunk);
    valueChunks.chunk = std::min(valueChunks.columns, chunk);
  }

  __device__ Matrix<T> queries(int64_t b, int64_t h) const {
    const int64_t stride = shape.heads * shape.width;
    return {q + b * shape.queries * stride + h * shape.width, stride, static_cast<int>(shape.width), areKeysAligned};
  }
  __device__ Matrix<T> keys(int64_t b, int64_t keyHead) const {
    const int64_t stride = shape.keyHeads * shape.width;
    return {k + b * shape.keys * stride + keyHead * shape.width, stride, static_cast<int>(shape.width), areKeysAligned};
  }
  __device__ Matrix<T> values(int64_t b, int64_t keyHead) const {
    const int64_t stride = shape.keyHeads * shape.valueWidth;
    return {v + b * shape.keys * stride + keyHead * shape.valueWidth, stride, static_cast<int>(shape.valueWidth),
            areValuesAligned};
  }
  /// Matrix of a value with the result's shape.
  __device__ Matrix<T> results(const T *all, int64_t b, int64_t h) const {
    const int64_t stride = shape.heads * shape.valueWidth;
    return {all + b * shape.queries * stride + h * shape.valueWidth, stride, static_cast<int>(shape.valueWidth),
            areValuesAligned};
  }
  __device__ const T *biasOf(int64_t h) const { return bias ? bias + h * shape.allQueries * shape.keys : nullptr; }
  __device__ DropoutMask mask() const { return DropoutMask(seed, step ? *step : 0, dropout); }
  /// The mask's row of position 0.
  __device__ int64_t maskRow(int64_t b, int64_t h) const {
    return ((firstSequence + b) * shape.modelHeads + shape.firstHead + h) * shape.allQueries;
  }
};

/// Division of a call's work into blocks.
struct Blocks {
  int parts; ///< parts of a result's columns
  int tiles; ///< tiles of a head's rows
  int64_t heads, sequences;

  int64_t count() const { return int64_t(parts) * tiles * heads * sequences; }
};

/// Work of one block. Blocks of one head are neighbours, because they read the same rows.
struct BlockPlace {
  int part, tile;
  int64_t head, sequence;

  explicit __device__ BlockPlace(const Blocks &blocks) {
    unsigned index = blockIdx.x;
    part = static_cast<int>(index % blocks.parts);
    index /= blocks.parts;
    tile = static_cast<int>(index % blocks.tiles);
    index /= blocks.tiles;
    head = index % blocks.heads;
    sequence = index / blocks.heads;
  }
};

/// Number of result columns in a part that has at most `columns`.
__device__ __forceinline__ int columnsOfPart(int64_t all, int part, int columns) {
  return static_cast<int>(std::clamp<int64_t>(all - int64_t(part) * columns, 0, columns));
}

// --- Tiles of scores ---------------------------------------------------------

/// Tells which elements of a tile are seen. The lane's rows are queries and its columns keys, or the other way round.
/// `begin` and `end` bound the other side.
struct LaneRows {
  int index[2];     ///< indices of the lane's two rows
  int64_t place[2]; ///< positions of the rows, if they are queries
  int begin[2], end[2];

  __device__ bool sees(int r, int other) const { return other >= begin[r] && other < end[r]; }

  /// `first` is the first row of the block.
  static __device__ LaneRows ofQueries(const AttentionShape &shape, int first) {
    LaneRows rows(first);
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (rows.index[r] < shape.queries) {
        rows.place[r] = shape.places.at(rows.index[r]);
        rows.begin[r] = static_cast<int>(shape.firstKey(rows.index[r]));
        rows.end[r] = static_cast<int>(shape.endKey(rows.index[r]));
      }
    return rows;
  }
  static __device__ LaneRows ofKeys(const AttentionShape &shape, int first) {
    LaneRows rows(first);
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (rows.index[r] < shape.keys) {
        rows.begin[r] = static_cast<int>(shape.firstQuery(rows.index[r]));
        rows.end[r] = static_cast<int>(shape.endQuery(rows.index[r]));
      }
    return rows;
  }

private:
  explicit __device__ LaneRows(int first) : place{0, 0}, begin{0, 0}, end{0, 0} {
    index[0] = first + static_cast<int>(threadIdx.x) / kWarp * kMmaRows + laneRow();
    index[1] = index[0] + 8;
  }
};

/// Dropout's factors for the lane's elements of a tile whose rows are queries. `row` is the mask's row of position 0,
/// `column` the lane's first key. Two lanes share the four keys of a block of random words, for two rows.
template <class A>
__device__ __forceinline__ void factorsByQueries(const DropoutMask &mask, int64_t row, const LaneRows &rows,
                                                 int64_t column, A (&to)[4]) {
  const int odd = threadIdx.x & 1;
  const DropoutWords words = dropoutWords(mask, row + rows.place[odd], column / 4);
  const uint32_t first = __shfl_xor_sync(0xffffffff, odd ? words.x : words.z, 1);
  const uint32_t second = __shfl_xor_sync(0xffffffff, odd ? words.y : words.w, 1);
  to[0] = mask.factor<A>(odd ? first : words.x);
  to[1] = mask.factor<A>(odd ? second : words.y);
  to[2] = mask.factor<A>(odd ? words.z : first);
  to[3] = mask.factor<A>(odd ? words.w : second);
}

/// Dropout's factors for a tile whose rows are keys. `row` is the mask's row of position 0, `query` the lane's first
/// query, `column` its first key. Four lanes share the four keys of blocks of random words, for the four elements of
/// each.
template <class A>
__device__ __forceinline__ void factorsByKeys(const DropoutMask &mask, int64_t row, const RowPlaces &places,
                                              int64_t query, int64_t column, A (&to)[4]) {
  const int own = threadIdx.x / 4 % 4;
  const DropoutWords words = dropoutWords(mask, row + places.at(query + own % 2), column / 4 + own / 2 * 2);
#pragma unroll
  for (int other = 0; other < 4; ++other) {
    // Lane `own` computed the words of its element `own`. Lane `own ^ other` takes word `own ^ other` of them.
    const uint32_t given = words.at(own ^ other);
    const A factor = mask.factor<A>(other == 0 ? given : __shfl_xor_sync(0xffffffff, given, 4 * other));
#pragma unroll
    for (int e = 0; e < 4; ++e)
      to[e] = (own ^ other) == e ? factor : to[e];
  }
}

// --- Launches ----------------------------------------------------------------

/// Largest number of result columns of a block.
template <class T> inline constexpr int kMostColumns = isNarrowType<T> ? 128 : sizeof(T) == 4 ? 64 : 32;

/// Calls function(std::integral_constant<int, columns>) with as many columns as a head of `width` needs.
template <class T, class Function> Status withColumns(int64_t width, Function function) {
  if constexpr (isNarrowType<T>)
    if (width <= 64)
      return function(std::integral_constant<int, 64>());
  return function(std::integral_constant<int, kMostColumns<T>>());
}

/// Number of scratch elements that a block needs for products by tiles of `rows` rows.
template <class T> constexpr int64_t scratchElements(int rows) {
  return isNarrowType<T> ? 0 : int64_t(kOwnRows) * pitchOf<T>(rows);
}

/// Makes a block's shared memory fit: gives up second buffers first, then keeps operands in chunks of `columns`.
/// `elements` computes the number of elements needed.
template <class T, class Elements> int64_t fitShared(Problem<T> &problem, int columns, Elements elements) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  if (elements() * kSize > kMostShared)
    problem.buffers = 1;
  if (elements() * kSize > kMostShared)
    problem.cutColumns(columns);
  return elements() * kSize;
}

template <class... Params, class... Args>
Status launchBlocks(void (*kernel)(Params...), const Target &target, const Blocks &blocks, int64_t sharedBytes,
                    Args... args) {
  if (blocks.count() == 0)
    return {};
  if (blocks.count() > std::numeric_limits<int32_t>::max())
    return Status::error(MOERT_ERROR_UNSUPPORTED, "'", kindName(target.kind), "': too many tiles");
  const Grid grid{dim3(static_cast<unsigned>(blocks.count())), dim3(kBlockThreads), sharedBytes};
  return launch(kernel, grid, target, args...);
}

/// Checks that the rows of a sequence and the columns of a head can be counted in int.
inline Status checkSizes(const Target &target, const AttentionShape &shape) {
  const int64_t most = std::max({shape.queries, shape.keys, shape.width, shape.valueWidth});
  return most < (1 << 30)
             ? Status()
             : Status::error(MOERT_ERROR_UNSUPPORTED, "'", kindName(target.kind), "': sizes of 2^30 or more");
}

} // namespace moert::cuda::attention

#endif // MOERT_CUDA_ATTENTION_CUH
