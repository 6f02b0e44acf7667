//===- KernelsToken.cpp - moving and weighting token rows ------------------===//
//
// Dispatch, combine and their adjoints are bound by memory: each output row is written once, in order.
//
//===----------------------------------------------------------------------===//
#include "host/KernelSupport.h"
#include "moert/Window.h"

namespace moert::host {
namespace {

template <class T> void scaleRow(const T *in, T *out, T factor, int64_t count) {
  MOERT_SIMD
  for (int64_t i = 0; i < count; ++i)
    out[i] = factor * in[i];
}

/// Checks that slots [S,k] are rows of a buffer of `rows` rows, or -1.
void checkSlots(Checker &check, View slots, int64_t rows) {
  const int32_t *slot = slots.as<int32_t>();
  for (int64_t i = 0, end = slots.elements(); i < end; ++i)
    check.that(slot[i] >= -1 && slot[i] < rows, "expected 'slots' from -1 to ", rows - 1, " but got ", slot[i]);
}

/// Returns source[row], the choice (s * k + j) whose slot is `row`, or -1. It is in scratch memory.
const int64_t *invertSlots(Checker &check, View slots, int64_t rows) {
  struct Tag;
  int64_t *source = scratch<Tag, int64_t>(rows);
  std::fill_n(source, rows, int64_t(-1));
  const int32_t *slot = slots.as<int32_t>();
  for (int64_t i = 0, end = slots.elements(); i < end; ++i) {
    if (slot[i] < 0)
      continue;
    check.that(source[slot[i]] < 0, "expected each row in 'slots' once at most but got row ", slot[i], " again");
    source[slot[i]] = i;
  }
  return source;
}

/// Sets out to the weighted sum of `Parts` rows, or adds it to out.
template <int Parts, class T> void sumOf(const T *const *rows, const T *weights, T *out, int64_t columns, bool add) {
  const T *r0 = rows[0], *r1 = rows[Parts > 1 ? 1 : 0], *r2 = rows[Parts > 2 ? 2 : 0], *r3 = rows[Parts > 3 ? 3 : 0];
  const T w0 = weights[0], w1 = weights[Parts > 1 ? 1 : 0], w2 = weights[Parts > 2 ? 2 : 0],
          w3 = weights[Parts > 3 ? 3 : 0];
  auto element = [&](int64_t m) __attribute__((always_inline)) {
    T value = w0 * r0[m];
    if constexpr (Parts > 1)
      value += w1 * r1[m];
    if constexpr (Parts > 2)
      value += w2 * r2[m];
    if constexpr (Parts > 3)
      value += w3 * r3[m];
    return value;
  };
  if (add) {
    MOERT_SIMD
    for (int64_t m = 0; m < columns; ++m)
      out[m] += element(m);
  } else {
    MOERT_SIMD
    for (int64_t m = 0; m < columns; ++m)
      out[m] = element(m);
  }
}

/// Computes one output row of combine: the weighted sum of `choices` rows. Up to four are summed in one pass, so that
/// for usual k the output is written once.
template <class T> void combineRow(const T *const *rows, const T *weights, int64_t choices, T *out, int64_t columns) {
  if (choices == 0)
    std::fill_n(out, columns, T(0));
  for (int64_t j = 0; j < choices; j += 4) {
    const int64_t parts = std::min<int64_t>(choices - j, 4);
    if (parts == 4)
      sumOf<4>(rows + j, weights + j, out, columns, j > 0);
    else if (parts == 3)
      sumOf<3>(rows + j, weights + j, out, columns, j > 0);
    else if (parts == 2)
      sumOf<2>(rows + j, weights + j, out, columns, j > 0);
    else
      sumOf<1>(rows + j, weights + j, out, columns, j > 0);
  }
}

} // namespace

void dispatch(Checker &check, View tokens, View slots, View weights, View used, View out) {
  const int64_t rows = rowsOf(out), columns = columnsOf(out), choices = slots.dims[1];
  checkSlots(check, slots, rows);
  if (!check.ok() || out.elements() == 0)
    return;
  const int64_t *source = invertSlots(check, slots, rows);
  if (!check.ok())
    return;
  // Rows are written in order. A copy is a product with 1, because memcpy of rows of a few KB is slower.
  withFloating(tokens.dtype, [&]<class T>(T) {
    for (int64_t row = 0; row < rows; ++row) {
      T *to = out.as<T>() + row * columns;
      const int64_t choice = source[row];
      if (choice >= 0)
        scaleRow(tokens.as<const T>() + choice / choices * columns, to, weights ? weights.as<const T>()[choice] : T(1),
                 columns);
      else if (!used)
        std::fill_n(to, columns, T(0));
    }
  });
}

void combine(Checker &check, View rows, View slots, View weights, View used, View out) {
  const int64_t choices = slots.dims[1], columns = columnsOf(rows);
  checkSlots(check, slots, rowsOf(rows));
  if (!check.ok() || out.elements() == 0)
    return;
  withFloating(rows.dtype, [&]<class T>(T) {
    struct Tag;
    const T **source = scratch<Tag, const T *>(choices);
    T *factor = scratch<Tag, T>(choices);
    for (int64_t s = 0; s < slots.dims[0]; ++s) {
      int64_t count = 0;
      for (int64_t choice = s * choices; choice < (s + 1) * choices; ++choice)
        if (const int64_t slot = slots.as<const int32_t>()[choice]; slot >= 0) {
          source[count] = rows.as<const T>() + slot * columns;
          factor[count++] = weights ? weights.as<const T>()[choice] : T(1);
        }
      combineRow(source, factor, count, out.as<T>() + s * columns, columns);
    }
  });
}

void slotDot(Checker &check, View tokens, View rows, View slots, View used, View out) {
  checkSlots(check, slots, rowsOf(rows));
  if (!check.ok())
    return;
  withFloating(tokens.dtype, [&]<class T>(T) {
    const int64_t choices = slots.dims[1], columns = tokens.dims[1];
    for (int64_t i = 0; i < slots.elements(); ++i) {
      const int64_t row = slots.as<const int32_t>()[i];
      const T *token = tokens.as<const T>() + i / choices * columns;
      out.as<T>()[i] = row < 0 ? T(0) : dotProduct(token, rows.as<const T>() + row * columns, columns);
    }
  });
}

void sliceCounts(Checker &check, View counts, View out, int64_t rows, int64_t index, int64_t size) {
  const std::vector<int64_t> &offsets = readCounts(check, counts, rows);
  if (!check.ok())
    return;
  const int64_t part = rows / size;
  auto clamped = [&](int64_t row) { return std::clamp(row, index * part, (index + 1) * part); };
  for (size_t e = 0; e + 1 < offsets.size(); ++e)
    out.as<int32_t>()[e] = static_cast<int32_t>(clamped(offsets[e + 1]) - clamped(offsets[e]));
}

void localSlots(Checker &check, View slots, View counts, View localSlots, View localCounts,
                const LocalOptions &options) {
  const std::vector<int64_t> &offsets = readCounts(check, counts, slots.elements());
  if (!check.ok())
    return;
  const int64_t own = localCounts.dims[1], first = options.firstExpert(columnsOf(counts));
  const bool packed = options.capacity == 0;
  const int64_t begin = packed ? offsets[first] : first * options.capacity;
  const int64_t end = packed ? offsets[first + own] : (first + own) * options.capacity;
  check.require(MOERT_ERROR_OVERFLOW, !packed || end - begin <= options.room, end - begin,
                " rows are for the experts of member ", options.index, ", whose buffer has room for ", options.room,
                "; compile with a larger --max-load, or with --max-load=none for the worst case");
  if (!check.ok())
    return;
  const int32_t *slot = slots.as<int32_t>();
  for (int64_t i = 0, e = slots.elements(); i < e; ++i)
    localSlots.as<int32_t>()[i] = slot[i] >= begin && slot[i] < end ? static_cast<int32_t>(slot[i] - begin) : -1;
  std::copy_n(counts.as<int32_t>() + first, own, localCounts.as<int32_t>());
}

namespace {
/// Sets places[row] to the row in the pass, for each row of chunk `chunk` that the pass serves, and counts them.
void placeServed(const SentRows &sent, const WindowOptions &options, int64_t chunk, int64_t pass,
                 const std::vector<int64_t> &offsets, int32_t *places, View passCounts) {
  int32_t *counts = passCounts.as<int32_t>() + chunk * sent.experts;
  const int64_t begin = chunk * options.chunkRows;
  auto next = static_cast<int32_t>(begin);
  forEachServed(sent, options.index, chunk, pass, options.rows, [&](int64_t expert, int64_t first, int64_t count) {
    counts[expert] = static_cast<int32_t>(count);
    for (int64_t row = begin + offsets[expert] + first, end = row + count; row < end; ++row)
      places[row] = next++;
  });
}
} // namespace

void window(Checker &check, View slots, View gathered, View before, View left, View passSlots, View passCounts,
            const WindowOptions &options) {
  readCounts(check, gathered, std::numeric_limits<int64_t>::max());
  if (!check.ok())
    return;
  const int64_t chunks = passCounts.dims[0], experts = gathered.dims[1];
  const int64_t slotsOfChunk = chunks > 1 ? options.chunkRows : slots.elements(), allSlots = chunks * slotsOfChunk;
  const SentRows sent{gathered.as<const int32_t>(), options.size, experts, options.workers, chunks, options.phases};
  const int64_t passes = countPasses(sent, options.rows), behind = before ? before.as<const int32_t>()[0] : passes;
  check.that(behind >= 1 && behind <= passes, "expected 'before' of 1 to ", passes, " passes but got ", behind);
  if (!check.ok())
    return;
  struct Tag;
  int32_t *places = scratch<Tag, int32_t>(allSlots);
  std::fill_n(places, allSlots, -1);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    View own = gathered;
    own.dims[0] = 1;
    own.data = gathered.as<int32_t>() + (options.index * chunks + chunk) * experts;
    const std::vector<int64_t> &offsets = readCounts(check, own, slotsOfChunk);
    if (!check.ok())
      return;
    placeServed(sent, options, chunk, passes - behind, offsets, places, passCounts);
  }
  left.as<int32_t>()[0] = static_cast<int32_t>(behind - 1);
  for (int64_t i = 0; i < slots.elements(); ++i) {
    const int32_t slot = slots.as<const int32_t>()[i];
    passSlots.as<int32_t>()[i] = slot >= 0 && slot < allSlots ? places[slot] : -1;
  }
}

void rowScale(Checker &, View rows, View factors, View out) {
  withFloating(rows.dtype, [&]<class T>(T) {
    const T *from = rows.as<const T>(), *by = factors.as<const T>();
    const int64_t columns = rows.dims[1] / factors.dims[1];
    if (columns == 1)
      return setElements<T>(out, [=](int64_t i) { return by[i] * from[i]; });
    for (int64_t i = 0; i < factors.elements(); ++i)
      scaleRow(from + i * columns, out.as<T>() + i * columns, by[i], columns);
  });
}

void rowDot(Checker &, View a, View b, View out) {
  withFloating(a.dtype, [&]<class T>(T) {
    const T *x = a.as<const T>(), *y = b.as<const T>();
    const int64_t columns = a.dims[1] / out.dims[1];
    if (columns == 1)
      return setElements<T>(out, [=](int64_t i) { return x[i] * y[i]; });
    for (int64_t i = 0; i < out.elements(); ++i)
      out.as<T>()[i] = dotProduct(x + i * columns, y + i * columns, columns);
  });
}

} // namespace moert::host
