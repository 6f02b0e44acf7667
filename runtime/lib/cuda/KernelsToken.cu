//===- KernelsToken.cu - moving and weighting token rows ------------------===//

#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Ragged.cuh"
#include "cuda/Reduce.cuh"

#include <limits>

namespace moert::cuda {
namespace {

/// Number of rows of [E,T,M] or [R,M].
int64_t rowCount(View rows) { return rows.rank == 3 ? rows.dims[0] * rows.dims[1] : rows.dims[0]; }

// --- Rows times a factor -----------------------------------------------------

struct Product {
  template <class A> __device__ A operator()(A a, A b) const { return a * b; }
};

template <class T, class W> struct ScaleRows {
  const T *rows;
  const W *factors;
  T *out;
  int64_t columns;

  __device__ Acc<T, W> row(int64_t s) const { return convert<Acc<T, W>>(factors[s]); }
  template <int N> __device__ void run(Acc<T, W> factor, int64_t s, int64_t column) const {
    const int64_t at = s * columns + column;
    storePack(out + at, mapPacks<T, Acc<T, W>>([=](auto x) { return factor * x; }, loadPack<N>(rows + at)));
  }
};

// --- Dispatch and combine ----------------------------------------------------

/// Computes source[row], the choice whose slot is `row`. All entries are -1 before.
__global__ void __launch_bounds__(kThreads)
    invertSlotsKernel(const int32_t *slots, int64_t choices, int64_t rows, int32_t *source, FaultSite site) {
  for (int64_t i = globalThread(); i < choices; i += globalThreads()) {
    const int32_t slot = slots[i];
    if (slot < -1 || slot >= rows)
      raise(site, FaultKind::SlotRange, rows, slot);
    else if (slot >= 0 && atomicCAS(source + slot, -1, static_cast<int32_t>(i)) != -1)
      raise(site, FaultKind::SlotTwice, slot);
  }
}

/// Source of a row of dispatched tokens.
template <class T, class A> struct TokenOfRow {
  const T *from; ///< null if the row is empty
  A weight;
};

template <class T, class W> struct DispatchRows {
  using A = Acc<T, W>;
  const T *tokens;
  const int32_t *source;
  const W *weights; ///< may be null
  T *out;
  int64_t choices, columns;
  bool clears; ///< whether rows without a token are cleared

  __device__ TokenOfRow<T, A> row(int64_t r) const {
    const int32_t choice = source[r];
    if (choice < 0)
      return {nullptr, A(0)};
    return {tokens + choice / choices * columns, weights ? convert<A>(weights[choice]) : A(1)};
  }
  template <int N> __device__ void run(TokenOfRow<T, A> token, int64_t r, int64_t column) const {
    T *to = out + r * columns + column;
    if (token.from)
      storePack(to, mapPacks<T, A>([=](A x) { return token.weight * x; }, loadPack<N>(token.from + column)));
    else if (clears)
      storePack(to, uniformPack<N>(convert<T>(0.0f)));
  }
};

template <class T, class W> struct CombineRows {
  using A = Acc<T, W>;
  const T *rows;
  const int32_t *slots;
  const W *weights; ///< may be null
  T *out;
  int64_t rowCount, choices, columns;
  FaultSite site;

  /// First choice of the token. One thread checks for faults.
  __device__ int64_t row(int64_t s) const {
    if (threadIdx.x == 0 && blockIdx.y == 0)
      for (int64_t i = s * choices; i < (s + 1) * choices; ++i)
        if (slots[i] < -1 || slots[i] >= rowCount)
          raise(site, FaultKind::SlotRange, rowCount, slots[i]);
    return s * choices;
  }
  template <int N> __device__ void run(int64_t first, int64_t s, int64_t column) const {
    Pack<A, N> sum{};
#pragma unroll 2
    for (int64_t i = first; i < first + choices; ++i) {
      const int32_t slot = slots[i];
      if (slot < 0 || slot >= rowCount)
        continue;
      const A weight = weights ? convert<A>(weights[i]) : A(1);
      const Pack<T, N> pack = loadPack<N>(rows + slot * columns + column);
#pragma unroll
      for (int n = 0; n < N; ++n)
        sum.values[n] += weight * convert<A>(pack.values[n]);
    }
    storePack(out + s * columns + column, convertPack<T>(sum));
  }
};

// --- Dot products ------------------------------------------------------------

/// Computes dot products, with one warp for each. `Pairs` has first(i) and second(i), which are null if the product is
/// 0.
template <int N, class Pairs, class O>
__global__ void __launch_bounds__(kThreads) dotsKernel(Pairs pairs, int64_t count, int64_t columns, O *out) {
  using A = Acc<typename Pairs::Element, O>;
  for (int64_t i = globalThread() / kWarp; i < count; i += globalThreads() / kWarp) {
    const auto *a = pairs.first(i), *b = pairs.second(i);
    const A product = b ? warpDot<N, A>(a, b, columns) : A(0);
    if (threadIdx.x % kWarp == 0)
      out[i] = convert<O>(product);
  }
}

template <class Pairs, class O>
Status dots(const Target &target, Pairs pairs, int64_t count, int64_t columns, bool isAligned, O *out) {
  if (count == 0)
    return {};
  constexpr int kWidth = kVector<typename Pairs::Element>;
  auto *kernel = isAligned && columns % kWidth == 0 ? dotsKernel<kWidth, Pairs, O> : dotsKernel<1, Pairs, O>;
  return launch(kernel, gridOf(target, count * kWarp), target, pairs, count, columns, out);
}

template <class T> struct RowPairs {
  using Element = T;
  const T *a, *b;
  int64_t columns;

  __device__ const T *first(int64_t s) const { return a + s * columns; }
  __device__ const T *second(int64_t s) const { return b + s * columns; }
};

template <class T> struct SlotPairs {
  using Element = T;
  const T *tokens, *rows;
  const int32_t *slots;
  int64_t rowCount, choices, columns;
  FaultSite site;

  __device__ const T *first(int64_t choice) const { return tokens + choice / choices * columns; }
  __device__ const T *second(int64_t choice) const {
    const int32_t slot = slots[choice];
    const bool isRow = slot >= 0 && slot < rowCount;
    if (!isRow && slot != -1)
      raise(site, FaultKind::SlotRange, rowCount, slot);
    return isRow ? rows + slot * columns : nullptr;
  }
};

// --- Counts and slots of a member --------------------------------------------

__global__ void __launch_bounds__(kThreads)
    sliceCountsKernel(const int64_t *offsets, int32_t *out, int64_t experts, int64_t first, int64_t last) {
  auto clamped = [=](int64_t row) { return row < first ? first : row > last ? last : row; };
  for (int64_t e = globalThread(); e < experts; e += globalThreads())
    out[e] = static_cast<int32_t>(clamped(offsets[e + 1]) - clamped(offsets[e]));
}

/// The member has `count` experts from `first` on, of options.capacity rows each, or packed ones if that is 0.
__global__ void __launch_bounds__(kThreads)
    localSlotsKernel(const int32_t *slots, const int32_t *counts, const int64_t *offsets, int32_t *localSlots,
                     int32_t *localCounts, int64_t choices, LocalOptions options, int64_t first, int64_t count,
                     FaultSite site) {
  const int64_t capacity = options.capacity, begin = capacity ? first * capacity : offsets[first];
  const int64_t rows = capacity ? count * capacity : offsets[first + count] - begin;
  const bool isOver = capacity == 0 && rows > options.room;
  if (isOver && globalThread() == 0)
    raise(site, FaultKind::LocalOverflow, rows, options.index, options.room);
  const int64_t used = isOver ? options.room : rows;
  for (int64_t i = globalThread(); i < choices; i += globalThreads()) {
    const int64_t row = slots[i] - begin;
    localSlots[i] = row >= 0 && row < used ? static_cast<int32_t>(row) : -1;
  }
  for (int64_t e = globalThread(); e < count; e += globalThreads())
    localCounts[e] = counts[first + e];
}

} // namespace

/// Finds the choice that fills each of `rows` rows.
static Status sourcesOf(const Target &target, View slots, int64_t rows, const int32_t *&source) {
  const int64_t choices = slots.elements();
  return target.stream.tableOf(
      {RoutingTables::Table::Sources, slots, rows}, rows, source, [&](int32_t *made) -> Status {
        MOERT_RETURN_IF_ERROR(
            check(cudaMemsetAsync(made, 0xff, static_cast<size_t>(rows) * sizeof(*made), target.stream.stream),
                  "cannot clear the slots of 'dispatch'"));
        if (choices == 0)
          return {};
        return launch(invertSlotsKernel, gridOf(target, choices), target, slots.as<const int32_t>(), choices, rows,
                      made, target.faults());
      });
}

Status CudaKernels::runRowScale(View rows, View factors, View out) {
  // A group of columns is a row of its own.
  const int64_t groups = factors.elements(), columns = rows.dims[1] / factors.dims[1];
  return withFloating(rows.dtype, factors.dtype, [&]<class T, class W>(Type<T>, Type<W>) {
    if (columns == 1)
      return map(target, {groups}, Product(), out.as<T>(), rows.as<const T>(), factors.as<const W>());
    const ScaleRows<T, W> scale{rows.as<const T>(), factors.as<const W>(), out.as<T>(), columns};
    return forRows<kVector<T>>(target, {groups}, columns, areAligned(rows.as<T>(), out.as<T>()), scale);
  });
}

Status CudaKernels::runRowDot(View a, View b, View out) {
  const int64_t groups = out.elements(), columns = a.dims[1] / out.dims[1];
  return withFloating(a.dtype, out.dtype, [&]<class T, class O>(Type<T>, Type<O>) {
    if (columns == 1)
      return map(target, {groups}, Product(), out.as<O>(), a.as<const T>(), b.as<const T>());
    const RowPairs<T> pairs{a.as<const T>(), b.as<const T>(), columns};
    return dots(target, pairs, groups, columns, areAligned(a.as<T>(), b.as<T>()), out.as<O>());
  });
}

Status CudaKernels::runDispatch(View tokens, View slots, View weights, View used, View out) {
  const int64_t rows = rowCount(out), columns = tokens.dims[1], choices = slots.elements();
  if (choices > std::numeric_limits<int32_t>::max())
    return Status::error(MOERT_ERROR_UNSUPPORTED, "'dispatch': more than 2^31 - 1 choices");
  if (out.elements() == 0)
    return {};
  const int32_t *source = nullptr;
  MOERT_RETURN_IF_ERROR(sourcesOf(target, slots, rows, source));
  return withFloating(tokens.dtype, weights ? weights.dtype : tokens.dtype, [&]<class T, class W>(Type<T>, Type<W>) {
    const DispatchRows<T, W> dispatchRows{tokens.as<const T>(), source,        weights.as<const W>(),
                                          out.as<T>(),          slots.dims[1], columns,
                                          /*clears=*/!used};
    return forRows<kVector<T>>(target, {rows}, columns, areAligned(tokens.as<T>(), out.as<T>()), dispatchRows);
  });
}

Status CudaKernels::runCombine(View rows, View slots, View weights, View used, View out) {
  const int64_t columns = out.dims[1];
  return withFloating(rows.dtype, weights ? weights.dtype : rows.dtype, [&]<class T, class W>(Type<T>, Type<W>) {
    const CombineRows<T, W> combineRows{rows.as<const T>(),
                                        slots.as<const int32_t>(),
                                        weights.as<const W>(),
                                        out.as<T>(),
                                        rowCount(rows),
                                        slots.dims[1],
                                        columns,
                                        target.faults()};
    return forRows<kVector<T>>(target, {out.dims[0]}, columns, areAligned(rows.as<T>(), out.as<T>()), combineRows);
  });
}

Status CudaKernels::runSlotDot(View tokens, View rows, View slots, View used, View out) {
  return withFloating(tokens.dtype, out.dtype, [&]<class T, class O>(Type<T>, Type<O>) {
    const SlotPairs<T> pairs{tokens.as<const T>(), rows.as<const T>(), slots.as<const int32_t>(),
                             rowCount(rows),       slots.dims[1],      tokens.dims[1],
                             target.faults()};
    return dots(target, pairs, slots.elements(), tokens.dims[1], areAligned(tokens.as<T>(), rows.as<T>()), out.as<O>());
  });
}

Status CudaKernels::runSliceCounts(View counts, View out, int64_t rows, int64_t index, int64_t size) {
  const int64_t experts = counts.dims[1], part = rows / size;
  const int64_t *offsets = nullptr;
  MOERT_RETURN_IF_ERROR(expertOffsets(target, counts, rows, offsets));
  if (experts == 0)
    return {};
  return launch(sliceCountsKernel, gridOf(target, experts), target, offsets, out.as<int32_t>(), experts, index * part,
                (index + 1) * part);
}

Status CudaKernels::runLocalSlots(View slots, View counts, View localSlots, View localCounts,
                                  const LocalOptions &options) {
  const int64_t own = localCounts.dims[1], choices = slots.elements();
  const int64_t *offsets = nullptr;
  MOERT_RETURN_IF_ERROR(expertOffsets(target, counts, choices, offsets));
  return launch(localSlotsKernel, gridOf(target, std::max(choices, own)), target, slots.as<const int32_t>(),
                counts.as<const int32_t>(), offsets, localSlots.as<int32_t>(), localCounts.as<int32_t>(), choices,
                options, options.index / options.copies * own, own, target.faults());
}

} // namespace moert::cuda
