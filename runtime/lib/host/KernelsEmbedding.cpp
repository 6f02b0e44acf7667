//===- KernelsEmbedding.cpp - ids, constants, casts and embeddings ---------===//

#include "core/Convert.h"
#include "host/KernelSupport.h"

namespace moert::host {
namespace {

/// Copies by a plain loop: memcpy of rows of a few KB is slower.
template <class T> void copyRow(const T *in, T *out, int64_t count) {
  MOERT_SIMD
  for (int64_t i = 0; i < count; ++i)
    out[i] = in[i];
}

/// Tokens of each row of a table's part except the id `padding`, in their order. Those of row v are tokens[offsets[v],
/// offsets[v + 1]).
struct TokensOfRows {
  int64_t *offsets, *tokens;
};

TokensOfRows sortByRow(const int32_t *ids, int64_t count, int64_t first, int64_t size, int64_t padding) {
  struct Offsets;
  struct Tokens;
  TokensOfRows result{scratch<Offsets, int64_t>(size + 1), scratch<Tokens, int64_t>(count)};
  std::fill_n(result.offsets, size + 1, int64_t(0));
  auto forEach = [&](auto use) {
    for (int64_t s = 0; s < count; ++s)
      if (ids[s] >= first && ids[s] < first + size && ids[s] != padding)
        use(s, ids[s] - first);
  };
  forEach([&](int64_t, int64_t row) { ++result.offsets[row + 1]; });
  for (int64_t v = 0; v < size; ++v)
    result.offsets[v + 1] += result.offsets[v];
  // Filling moves each start to the next row's start, and a shift undoes this.
  forEach([&](int64_t s, int64_t row) { result.tokens[result.offsets[row]++] = s; });
  for (int64_t v = size; v > 0; --v)
    result.offsets[v] = result.offsets[v - 1];
  result.offsets[0] = 0;
  return result;
}

/// Writes each row of the table once, so that a table that is much larger than the tokens costs one pass.
template <class T>
void sumTokens(TokensOfRows of, const T *grads, const T *addend, T *out, Wide<T> *sum, int64_t size, int64_t columns) {
  for (int64_t v = 0; v < size; ++v) {
    T *to = out + v * columns;
    const T *from = addend ? addend + v * columns : nullptr;
    const int64_t *token = of.tokens + of.offsets[v], *end = of.tokens + of.offsets[v + 1];
    if (token == end) {
      if (!from)
        std::fill_n(to, columns, T(0));
      else if (from != to)
        copyRow(from, to, columns);
      continue;
    }
    std::fill_n(sum, columns, Wide<T>(0));
    if (from)
      addTo(sum, from, columns);
    for (; token != end; ++token)
      addTo(sum, grads + *token * columns, columns);
    MOERT_SIMD
    for (int64_t m = 0; m < columns; ++m)
      to[m] = static_cast<T>(sum[m]);
  }
}

} // namespace

void positions(Checker &, View out, int64_t period, SequenceCut cut) {
  const RowPlaces places(period, cut);
  for (int64_t s = 0, row = 0; s < out.dims[0]; ++s) {
    out.as<int32_t>()[s] = static_cast<int32_t>(places.at(row));
    row = row + 1 == period ? 0 : row + 1;
  }
}

void indexAffine(Checker &check, View in, View out, int64_t factor, int64_t offset) {
  for (int64_t i = 0, end = check.ok() ? in.elements() : 0; i < end; ++i) {
    int64_t value = 0;
    const bool isWide = __builtin_mul_overflow(factor, int64_t(in.as<int32_t>()[i]), &value) ||
                        __builtin_add_overflow(value, offset, &value) || value != static_cast<int32_t>(value);
    check.that(!isWide, "the result of ", in.as<int32_t>()[i], " at ", i, " does not fit in i32");
    if (!check.ok())
      break;
    out.as<int32_t>()[i] = static_cast<int32_t>(value);
  }
}

void fill(Checker &, View out, double value) {
  if (out.dtype == MOERT_I32)
    std::fill_n(out.as<int32_t>(), out.elements(), static_cast<int32_t>(value));
  else
    withFloating(out.dtype, [&]<class T>(T) { std::fill_n(out.as<T>(), out.elements(), T(value)); });
}

void cast(Checker &, View in, View out) {
  withAnyFloating(in.dtype, [&]<class From>(From) {
    withAnyFloating(out.dtype, [&]<class To>(To) {
      setElements<To>(out, [source = in.as<const From>()](int64_t i) { return convert<To>(source[i]); });
    });
  });
}

void embedding(Checker &check, View ids, View table, View out, Part part) {
  const int64_t tokens = ids.dims[0], size = table.dims[0], columns = table.dims[1];
  checkIndices(check, "ids", ids, 0, part, size);
  if (!check.ok())
    return;
  withFloating(table.dtype, [&]<class T>(T) {
    for (int64_t s = 0; s < tokens; ++s) {
      const int64_t row = ids.as<const int32_t>()[s] - part.index() * size;
      T *to = out.as<T>() + s * columns;
      if (row >= 0 && row < size)
        copyRow(table.as<const T>() + row * columns, to, columns);
      else
        std::fill_n(to, columns, T(0));
    }
  });
}

void embeddingGrad(Checker &check, View ids, View grads, View addend, View out, Part part, int64_t padding) {
  const int64_t tokens = grads.dims[0], size = out.dims[0], columns = grads.dims[1];
  checkIndices(check, "ids", ids, 0, part, size);
  if (!check.ok())
    return;
  const TokensOfRows sorted = sortByRow(ids.as<const int32_t>(), tokens, part.index() * size, size, padding);
  withFloating(grads.dtype, [&]<class T>(T) {
    struct Tag;
    sumTokens(sorted, grads.as<const T>(), addend.as<const T>(), out.as<T>(), scratch<Tag, Wide<T>>(columns), size,
              columns);
  });
}

} // namespace moert::host
