//===- KernelsPositions.cu - rotary positions and relative biases ---------===//

#include "core/Positions.h"
#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Reduce.cuh"

namespace moert::cuda {
namespace {

// --- Rotary positions --------------------------------------------------------

/// Angle of a position and pair: its cosine and sine, times the scale.
template <class A> struct Angle {
  A cosine, sine;
};

/// Computes angles [positions, pairs], which all heads of all sequences use.
template <class A> struct ComputeAngles {
  RotaryOptions options;
  RowPlaces places;
  Angle<A> *angles;
  int64_t pairs;

  template <int> __device__ void run(int64_t at) const {
    const int64_t row = at / pairs, position = places.at(row);
    const double angle = static_cast<double>(options.direction * position) * rotaryFrequency(options, at - row * pairs);
    const double scale = rotaryScale(options, position);
    angles[at] = {static_cast<A>(scale * std::cos(angle)), static_cast<A>(scale * std::sin(angle))};
  }
};

/// Rotates rows. A row is a head of a token. Its units are the columns before the rotated ones, the pairs, and the
/// columns after them.
template <class T> struct Rotate {
  using A = Acc<T>;
  const T *x;
  T *out;
  const Angle<A> *angles;
  int64_t heads, period, headDim, begin, pairs;
  bool interleaved;

  __device__ const Angle<A> *row(int64_t r) const { return angles + r / heads % period * pairs; }
  template <int N> __device__ void run(const Angle<A> *ofRow, int64_t r, int64_t unit) const {
    const int64_t pair = unit - begin, at = r * headDim;
    if (pair < 0 || pair >= pairs) {
      const int64_t column = at + unit + (pair < 0 ? 0 : pairs);
      storePack(out + column, loadPack<N>(x + column));
    } else if (interleaved) {
      rotateNeighbours<N>(ofRow + pair, at + begin + 2 * pair);
    } else {
      rotateHalves<N>(ofRow + pair, at + unit);
    }
  }

private:
  static __device__ void rotate(Angle<A> angle, T &first, T &second) {
    const A a = convert<A>(first), b = convert<A>(second);
    first = convert<T>(a * angle.cosine - b * angle.sine);
    second = convert<T>(b * angle.cosine + a * angle.sine);
  }
  template <int N> __device__ void rotateHalves(const Angle<A> *angle, int64_t at) const {
    Pack<T, N> first = loadPack<N>(x + at), second = loadPack<N>(x + at + pairs);
#pragma unroll
    for (int i = 0; i < N; ++i)
      rotate(angle[i], first.values[i], second.values[i]);
    storePack(out + at, first);
    storePack(out + at + pairs, second);
  }
  /// Rotates by vectors if a half is a whole vector. A pair of f64 is one.
  template <int N> __device__ void rotateNeighbours(const Angle<A> *angle, int64_t at) const {
    Pack<T, 2 * N> pack = loadPack<2 * N, T, isVector<T, N>>(x + at);
#pragma unroll
    for (int i = 0; i < N; ++i)
      rotate(angle[i], pack.values[2 * i], pack.values[2 * i + 1]);
    storePack<2 * N, T, isVector<T, N>>(out + at, pack);
  }
};

template <class T> Status rotate(const Target &target, View x, View out, const RotaryOptions &options) {
  using A = Acc<T>;
  const int64_t pairs = options.rotaryDim / 2, heads = x.dims[1] / options.headDim;
  const Extent extent{std::min(options.period, x.dims[0]) * pairs};
  Angle<A> *angles = nullptr;
  MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(extent.count, angles));
  MOERT_RETURN_IF_ERROR(
      forElements<1>(target, extent, false, ComputeAngles<A>{options, {options.period, options.cut}, angles, pairs}));
  const Rotate<T> rotation{x.as<const T>(), out.as<T>(),    angles,
                           heads,           options.period, options.headDim,
                           options.begin,   pairs,          options.interleaved};
  constexpr int kWidth = kVector<T>;
  const bool isAligned = areAligned(x.as<T>(), out.as<T>()) && options.headDim % kWidth == 0 &&
                         options.begin % kWidth == 0 && pairs % kWidth == 0;
  return forRows<kWidth>(target, {x.dims[0] * heads}, options.headDim - pairs, isAligned, rotation);
}

// --- Cut sequences ------------------------------------------------------------

template <class T> struct JoinRows {
  const T *x;
  T *out;
  SequenceOrder order;
  int64_t columns;
  bool inverse;

  __device__ int64_t row(int64_t r) const { return wholeRow(order, r); }
  template <int N> __device__ void run(int64_t whole, int64_t r, int64_t column) const {
    storePack(out + (inverse ? r : whole) * columns + column,
              loadPack<N>(x + (inverse ? whole : r) * columns + column));
  }
};

// --- Relative biases ---------------------------------------------------------

/// Offsets j - i of a bias [H,L,Lk], numbered from 1 - L on, and their buckets.
struct Offsets {
  int64_t queries, keys, buckets;
  bool bidirectional;
  int64_t maxDistance;

  int64_t count() const { return queries + keys - 1; }
  __device__ int64_t bucketOf(int64_t number) const {
    return relativeBucket(number + 1 - queries, buckets, bidirectional, maxDistance);
  }
};

/// Looks up values [H, offsets], the table's entry of each offset.
template <class T> struct LookUp {
  Offsets offsets;
  const T *table;
  T *values;
  int64_t heads, count;

  template <int> __device__ void run(int64_t number) const {
    const int64_t bucket = offsets.bucketOf(number);
    for (int64_t h = 0; h < heads; ++h)
      values[h * count + number] = table[bucket * heads + h];
  }
};

/// Spreads the values. A row is a query of a head.
template <class T> struct SpreadBias {
  const T *values;
  T *out;
  int64_t queries, keys, count;

  __device__ const T *row(int64_t r) const {
    const int64_t h = r / queries;
    return values + h * count + queries - 1 - (r - h * queries);
  }
  template <int N> __device__ void run(const T *from, int64_t r, int64_t column) const {
    // Only stores are aligned.
    storePack(out + r * keys + column, loadPack<N, T, false>(from + column));
  }
};

/// Sums the gradients of each offset over a part of the queries: sums [H, parts, offsets]. A row is a part of a head.
template <class T> struct SumDiagonals {
  const T *grads;
  double *sums;
  Offsets offsets;
  int64_t parts, count;

  __device__ int64_t row(int64_t r) const { return r / parts; }
  template <int> __device__ void run(int64_t head, int64_t r, int64_t number) const {
    const int64_t part = r - head * parts, shift = number + 1 - offsets.queries;
    const int64_t end = offsets.queries * (part + 1) / parts;
    double sum = 0;
    for (int64_t i = offsets.queries * part / parts; i < end; ++i)
      if (i + shift >= 0 && i + shift < offsets.keys)
        sum += convert<double>(grads[(head * offsets.queries + i) * offsets.keys + i + shift]);
    sums[r * count + number] = sum;
  }
};

/// Sums the offsets of a bucket, with a warp for each bucket and head.
template <class B>
__global__ void __launch_bounds__(kThreads) sumBucketsKernel(Offsets offsets, const double *sums, const B *addend,
                                                             B *out, int64_t parts, int64_t count, int64_t heads) {
  for (int64_t at = globalThread() / kWarp; at < offsets.buckets * heads; at += globalThreads() / kWarp) {
    const int64_t bucket = at / heads, head = at - bucket * heads;
    double sum = 0;
    for (int64_t number = threadIdx.x % kWarp; number < count; number += kWarp)
      if (offsets.bucketOf(number) == bucket)
        for (int64_t part = 0; part < parts; ++part)
          sum += sums[(head * parts + part) * count + number];
    sum = warpSum(sum);
    if (threadIdx.x % kWarp == 0)
      out[at] = convert<B>((addend ? convert<double>(addend[at]) : 0.0) + sum);
  }
}

} // namespace

Status CudaKernels::runRotary(View x, View out, const RotaryOptions &options) {
  return withFloating(x.dtype, [&]<class T>(Type<T>) { return rotate<T>(target, x, out, options); });
}

Status CudaKernels::runJoinSequences(View x, View out, SequenceOrder order, bool inverse) {
  return withFloating(x.dtype, [&]<class T>(Type<T>) {
    const JoinRows<T> join{x.as<const T>(), out.as<T>(), order, x.dims[1], inverse};
    return forRows<kVector<T>>(target, {x.dims[0]}, x.dims[1], areAligned(x.as<T>(), out.as<T>()), join);
  });
}

Status CudaKernels::runRelativeBias(View table, View out, bool bidirectional, int64_t maxDistance) {
  if (out.elements() == 0)
    return {};
  const Offsets offsets{out.dims[1], out.dims[2], table.dims[0], bidirectional, maxDistance};
  const int64_t heads = out.dims[0], count = offsets.count();
  return withFloating(out.dtype, [&]<class T>(Type<T>) {
    T *values = nullptr;
    MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(heads * count, values));
    const LookUp<T> lookUp{offsets, table.as<const T>(), values, heads, count};
    MOERT_RETURN_IF_ERROR(forElements<1>(target, {count}, false, lookUp));
    const SpreadBias<T> spread{values, out.as<T>(), offsets.queries, offsets.keys, count};
    return forRows<kVector<T>>(target, {heads * offsets.queries}, offsets.keys, areAligned(out.as<T>()), spread);
  });
}

Status CudaKernels::runRelativeBiasGrad(View grads, View addend, View out, bool bidirectional, int64_t maxDistance) {
  if (out.elements() == 0)
    return {};
  const Offsets offsets{grads.dims[1], grads.dims[2], out.dims[0], bidirectional, maxDistance};
  const int64_t heads = grads.dims[0], count = grads.elements() == 0 ? 0 : offsets.count();
  // Enough parts, of at least 16 queries each, to keep the device busy.
  const int64_t busy = int64_t(target.device.multiProcessors) * 8 * kThreads;
  const int64_t parts =
      std::clamp<int64_t>(busy / std::max<int64_t>(heads * count, 1), 1, std::max<int64_t>(offsets.queries / 16, 1));
  return withFloating(grads.dtype, [&]<class T>(Type<T>) {
    double *sums = nullptr;
    MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(heads * parts * count, sums));
    const SumDiagonals<T> diagonals{grads.as<const T>(), sums, offsets, parts, count};
    MOERT_RETURN_IF_ERROR(forRows<1>(target, {heads * parts}, count, false, diagonals));
    return withBeside<T>(out.dtype, [&]<class B>(Type<B>) {
      return launch(sumBucketsKernel<B>, gridOf(target, out.elements() * kWarp), target, offsets,
                    static_cast<const double *>(sums), addend.as<const B>(), out.as<B>(), parts, count, heads);
    });
  });
}

} // namespace moert::cuda
