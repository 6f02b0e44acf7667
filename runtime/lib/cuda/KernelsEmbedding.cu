//===- KernelsEmbedding.cu - embeddings of ids ----------------------------===//
//
// Embeddings. The gradient sorts the tokens by their ids, digit by digit, and then sums the tokens of each id in their
// order.
//
//===----------------------------------------------------------------------===//
#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Ranks.cuh"

#include <limits>

namespace moert::cuda {
namespace {

/// Rows of a part of the table.
struct TableRows {
  const int32_t *ids;
  int64_t size, first, end; ///< rows in the part, rows before it, and rows in total
  int64_t padding;          ///< an id that has no row, or a negative number
  FaultSite site;

  TableRows(const Target &target, View ids, int64_t size, Part part, int64_t padding = -1)
      : ids(ids.as<const int32_t>()), size(size), first(part.index() * size), end(part.parts * size), padding(padding),
        site(target.faults()) {}

  /// Row of a token's id, or -1 if the part does not have it. Notes a fault if `raises`.
  __device__ int32_t get(int64_t token, bool raises) const {
    const int64_t id = ids[token], row = id - first;
    if (raises && (id < 0 || id >= end))
      raise(site, FaultKind::IdRange, end, id, token);
    return row >= 0 && row < size && id != padding ? static_cast<int32_t>(row) : -1;
  }
};

template <class T> struct GatherRows {
  TableRows rows;
  const T *table;
  T *out;
  int64_t columns;

  __device__ const T *row(int64_t s) const {
    const int32_t row = rows.get(s, threadIdx.x == 0 && blockIdx.y == 0);
    return row >= 0 ? table + row * columns : nullptr;
  }
  template <int N> __device__ void run(const T *from, int64_t s, int64_t column) const {
    storePack(out + s * columns + column, from ? loadPack<N>(from + column) : uniformPack<N>(convert<T>(0.0f)));
  }
};

// --- Sorting tokens ----------------------------------------------------------

constexpr int kDigitBits = 9, kDigits = 1 << kDigitBits;

/// Tokens, and the rows of the table that their ids select.
struct RowTokens {
  int32_t *rows, *tokens;
};

/// Tokens in their order, keyed by the lowest digit of their row.
struct UnsortedTokens {
  TableRows rows;
  int64_t tokens;

  __device__ int64_t count(int64_t) const { return tokens; }
  __device__ int64_t index(int64_t, int64_t position) const { return position; }
  __device__ int32_t key(int64_t token) const {
    const int32_t row = rows.get(token, true);
    return row < 0 ? -1 : row % kDigits;
  }
  __device__ int32_t row(int64_t token) const { return rows.get(token, false); }
  __device__ int32_t token(int64_t token) const { return static_cast<int32_t>(token); }
};

/// Tokens of this part, sorted by lower digits.
struct SortedTokens {
  RowTokens from;
  const int32_t *used;
  int shift;

  __device__ int64_t count(int64_t) const { return *used; }
  __device__ int64_t index(int64_t, int64_t position) const { return position; }
  __device__ int32_t key(int64_t index) const { return from.rows[index] >> shift & (kDigits - 1); }
  __device__ int32_t row(int64_t index) const { return from.rows[index]; }
  __device__ int32_t token(int64_t index) const { return from.tokens[index]; }
};

template <class Items> struct MoveTokens {
  Items items;
  const int32_t *offsets;
  RowTokens to;

  __device__ void operator()(int64_t, int64_t index, int32_t key, int32_t rank) const {
    if (key < 0)
      return;
    const int32_t at = offsets[key] + rank;
    to.rows[at] = items.row(index);
    to.tokens[at] = items.token(index);
  }
};

/// Computes starts[v], the place of the first token of row v or of a later row, for v from 0 to the size of the table.
struct FindStarts {
  const int32_t *rows, *used;
  int32_t *starts;

  template <int N> __device__ void run(int64_t v) const {
    starts[v] = static_cast<int32_t>(std::lower_bound(rows, rows + *used, v) - rows);
  }
};

// --- Sums --------------------------------------------------------------------

/// Number of tokens of one row that are summed together. A frequent id would otherwise be one long task of a single
/// block.
constexpr int64_t kRun = 128;

template <class T> struct TokenSums {
  const int32_t *tokens; ///< sorted tokens
  const T *grads;
  int64_t columns;

  /// Adds the gradients of tokens [begin, end) to `sum`.
  template <int N> __device__ void add(int64_t begin, int64_t end, int64_t column, Pack<double, N> &sum) const {
#pragma unroll 4
    for (int64_t t = begin; t < end; ++t)
      addTo(sum, loadPack<N>(grads + tokens[t] * columns + column));
  }
};

/// Computes runs[r,:], the sum of the r-th kRun sorted tokens, if they all belong to one row.
template <class T> struct SumRuns {
  TokenSums<T> sums;
  const int32_t *rows, *used;
  double *runs;

  __device__ bool row(int64_t r) const { return (r + 1) * kRun <= *used && rows[r * kRun] == rows[(r + 1) * kRun - 1]; }
  template <int N> __device__ void run(bool isOne, int64_t r, int64_t column) const {
    if (!isOne)
      return;
    Pack<double, N> sum{};
    sums.add(r * kRun, (r + 1) * kRun, column, sum);
    storePack(runs + r * sums.columns + column, sum);
  }
};

struct Tokens {
  int64_t begin, end;
};

template <class T, class B> struct SumRows {
  TokenSums<T> sums;
  const int32_t *starts;
  const double *runs;
  const B *addend; ///< may be null
  B *out;

  __device__ Tokens row(int64_t v) const { return {starts[v], starts[v + 1]}; }
  template <int N> __device__ void run(Tokens of, int64_t v, int64_t column) const {
    const int64_t at = v * sums.columns + column;
    if (of.begin == of.end && addend == out)
      return;
    Pack<double, N> sum{};
    if (addend)
      sum = convertPack<double>(loadPack<N>(addend + at));
    addTokens(of, column, sum);
    storePack(out + at, convertPack<B>(sum));
  }

private:
  /// Adds tokens, whole runs by their sums.
  template <int N> __device__ void addTokens(Tokens of, int64_t column, Pack<double, N> &sum) const {
    const int64_t first = (of.begin + kRun - 1) / kRun, last = of.end / kRun;
    if (first >= last)
      return sums.add(of.begin, of.end, column, sum);
    sums.add(of.begin, first * kRun, column, sum);
    for (int64_t r = first; r < last; ++r)
      addTo(sum, loadPack<N>(runs + r * sums.columns + column));
    sums.add(last * kRun, of.end, column, sum);
  }
};

/// One call of embedding_grad.
class EmbeddingGrad {
public:
  EmbeddingGrad(const Target &target, View ids, View grads, View out, Part part, int64_t padding)
      : target(target), rows(target, ids, out.dims[0], part, padding), tokens(grads.dims[0]), columns(grads.dims[1]),
        size(out.dims[0]), ranking(Ranking::of(target, 1, tokens, kDigits)) {}

  template <class T> Status run(View grads, View addend, View out) {
    MOERT_RETURN_IF_ERROR(reservePieces(target.stream.workspace, [&](Regions &pieces) { take(pieces); }));
    MOERT_RETURN_IF_ERROR(sort());
    MOERT_RETURN_IF_ERROR(forElements<1>(target, {size + 1}, false, FindStarts{sorted.rows, used, starts}));
    const TokenSums<T> sums{sorted.tokens, grads.as<const T>(), columns};
    const SumRuns<T> sumRuns{sums, sorted.rows, used, runs};
    MOERT_RETURN_IF_ERROR(forRows<kVector<T>>(target, {tokens / kRun}, columns, areAligned(grads.as<T>()), sumRuns));
    return withBeside<T>(out.dtype, [&]<class B>(Type<B>) {
      const SumRows<T, B> sumRows{sums, starts, runs, addend.as<const B>(), out.as<B>()};
      return forRows<kVector<T, B>>(target, {size}, columns, areAligned(grads.as<T>(), addend.as<B>(), out.as<B>()),
                                    sumRows);
    });
  }

private:
  void take(Regions &pieces) {
    for (RowTokens &each : buffers) {
      each.rows = pieces.take<int32_t>(tokens);
      each.tokens = pieces.take<int32_t>(tokens);
    }
    tileCounts = pieces.take<int32_t>(ranking.counts());
    totals = pieces.take<int32_t>(kDigits);
    offsets = pieces.take<int32_t>(kDigits);
    used = pieces.take<int32_t>(1);
    starts = pieces.take<int32_t>(size + 1);
    runs = pieces.take<double>(tokens / kRun * columns);
  }

  Status sort() {
    sorted = buffers[0];
    MOERT_RETURN_IF_ERROR(sortBy(UnsortedTokens{rows, tokens}, sorted));
    for (int digit = 1; (size - 1) >> (digit * kDigitBits) > 0; ++digit) {
      const RowTokens to = buffers[digit % 2];
      MOERT_RETURN_IF_ERROR(sortBy(SortedTokens{sorted, used, digit * kDigitBits}, to));
      sorted = to;
    }
    return {};
  }
  template <class Items> Status sortBy(const Items &items, RowTokens to) {
    MOERT_RETURN_IF_ERROR(countItems(target, items, ranking, tileCounts, totals));
    MOERT_RETURN_IF_ERROR(sumOffsets(target, totals, 1, kDigits, 0, offsets, used));
    return rankItems(target, items, ranking, tileCounts, MoveTokens<Items>{items, offsets, to});
  }

  const Target &target;
  TableRows rows;
  int64_t tokens, columns, size;
  Ranking ranking;

  // arrays in the workspace
  RowTokens buffers[2] = {}, sorted = {};
  int32_t *tileCounts = nullptr, *totals = nullptr, *offsets = nullptr;
  int32_t *used = nullptr; ///< number of tokens of this part
  int32_t *starts = nullptr;
  double *runs = nullptr;
};

} // namespace

Status CudaKernels::runEmbedding(View ids, View table, View out, Part part) {
  const int64_t columns = table.dims[1];
  return withFloating(table.dtype, [&]<class T>(Type<T>) {
    const GatherRows<T> gather{TableRows(target, ids, table.dims[0], part), table.as<const T>(), out.as<T>(), columns};
    return forRows<kVector<T>>(target, {out.dims[0]}, columns, areAligned(table.as<T>(), out.as<T>()), gather);
  });
}

Status CudaKernels::runEmbeddingGrad(View ids, View grads, View addend, View out, Part part, int64_t padding) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (grads.dims[0] > kMost || out.dims[0] > kMost)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "'embedding_grad': more than 2^31 - 1 tokens or rows");
  EmbeddingGrad gradient(target, ids, grads, out, part, padding);
  return withFloating(grads.dtype, [&]<class T>(Type<T>) { return gradient.run<T>(grads, addend, out); });
}

} // namespace moert::cuda
