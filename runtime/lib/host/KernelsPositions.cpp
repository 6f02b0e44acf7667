//===- KernelsPositions.cpp - rotary positions and relative biases ---------===//

#include "core/Positions.h"
#include "host/KernelSupport.h"

// <cmath> declares glibc's vector functions only under -ffast-math, see KernelSupport.h.
#if defined(MOERT_X86) && !defined(__clang__) && defined(__GLIBC__)
extern "C" {
__attribute__((simd("notinbranch"), const)) double sin(double) noexcept;
__attribute__((simd("notinbranch"), const)) double cos(double) noexcept;
}
#endif

namespace moert::host {
namespace {

// --- Rotary positions --------------------------------------------------------

/// Returns f_i of all pairs.
const double *frequencies(const RotaryOptions &options) {
  struct Tag;
  const int64_t pairs = options.rotaryDim / 2;
  double *result = scratch<Tag, double>(pairs);
  for (int64_t i = 0; i < pairs; ++i)
    result[i] = rotaryFrequency(options, i);
  return result;
}

/// Computes the cosines and sines of one position's angles, times the scale.
template <class T>
void fillAngles(const double *frequency, T *cosine, T *sine, int64_t pairs, double position, double scale) {
  MOERT_SIMD
  for (int64_t i = 0; i < pairs; ++i) {
    const double angle = position * frequency[i];
    cosine[i] = static_cast<T>(scale * ::cos(angle));
    sine[i] = static_cast<T>(scale * ::sin(angle));
  }
}

/// Places of the rotated columns in a row.
struct RotaryShape {
  int64_t heads, headDim, begin, pairs;
  bool interleaved;
};

template <class T> void rotateHalves(const T *in, T *out, const T *cosine, const T *sine, int64_t pairs) {
  MOERT_SIMD
  for (int64_t i = 0; i < pairs; ++i) {
    const T a = in[i], b = in[i + pairs];
    out[i] = a * cosine[i] - b * sine[i];
    out[i + pairs] = b * cosine[i] + a * sine[i];
  }
}

template <class T> void rotateNeighbours(const T *in, T *out, const T *cosine, const T *sine, int64_t pairs) {
  MOERT_SIMD
  for (int64_t i = 0; i < pairs; ++i) {
    const T a = in[2 * i], b = in[2 * i + 1];
    out[2 * i] = a * cosine[i] - b * sine[i];
    out[2 * i + 1] = b * cosine[i] + a * sine[i];
  }
}

template <class T> void rotateRow(const T *x, T *out, const T *cosine, const T *sine, RotaryShape shape) {
  for (int64_t h = 0; h < shape.heads; ++h) {
    const T *in = x + h * shape.headDim;
    T *to = out + h * shape.headDim;
    const int64_t end = shape.begin + 2 * shape.pairs;
    if (in != to) {
      std::copy_n(in, shape.begin, to);
      std::copy_n(in + end, shape.headDim - end, to + end);
    }
    if (shape.interleaved)
      rotateNeighbours(in + shape.begin, to + shape.begin, cosine, sine, shape.pairs);
    else
      rotateHalves(in + shape.begin, to + shape.begin, cosine, sine, shape.pairs);
  }
}

// --- Relative biases ---------------------------------------------------------

/// Returns the buckets of all offsets, from 1 - L on.
const int64_t *bucketsOf(int64_t queries, int64_t keys, int64_t buckets, bool bidirectional, int64_t maxDistance) {
  struct Tag;
  int64_t *result = scratch<Tag, int64_t>(queries + keys);
  for (int64_t at = 0; at < queries + keys - 1; ++at)
    result[at] = relativeBucket(at + 1 - queries, buckets, bidirectional, maxDistance);
  return result;
}

} // namespace

void rotary(Checker &, View x, View out, const RotaryOptions &options) {
  const int64_t columns = x.dims[1], pairs = options.rotaryDim / 2;
  const RotaryShape shape{columns / options.headDim, options.headDim, options.begin, pairs, options.interleaved};
  const double *frequency = frequencies(options);
  withFloating(x.dtype, [&]<class T>(T) {
    struct Tag;
    T *cosine = scratch<Tag, T>(2 * pairs), *sine = cosine + pairs;
    // Rotates one position of all sequences at a time, so that its angles are computed once.
    const RowPlaces places(options.period, options.cut);
    for (int64_t row = 0; row < std::min(options.period, x.dims[0]); ++row) {
      const int64_t position = places.at(row);
      fillAngles(frequency, cosine, sine, pairs, static_cast<double>(options.direction * position),
                 rotaryScale(options, position));
      for (int64_t s = row; s < x.dims[0]; s += options.period)
        rotateRow(x.as<const T>() + s * columns, out.as<T>() + s * columns, cosine, sine, shape);
    }
  });
}

void joinSequences(Checker &, View x, View out, SequenceOrder order, bool inverse) {
  const auto bytes = static_cast<size_t>(x.dims[1]) * dtypeSize(x.dtype);
  for (int64_t row = 0; row < x.dims[0]; ++row) {
    const int64_t whole = wholeRow(order, row), from = inverse ? whole : row, to = inverse ? row : whole;
    std::memcpy(out.as<char>() + static_cast<size_t>(to) * bytes, x.as<char>() + static_cast<size_t>(from) * bytes,
                bytes);
  }
}

void relativeBias(Checker &check, View table, View out, bool bidirectional, int64_t maxDistance) {
  if (out.elements() == 0)
    return;
  const int64_t heads = out.dims[0], queries = out.dims[1], keys = out.dims[2];
  const int64_t *bucket = bucketsOf(queries, keys, table.dims[0], bidirectional, maxDistance);
  withFloating(out.dtype, [&]<class T>(T) {
    struct Tag;
    T *values = scratch<Tag, T>(queries + keys);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t at = 0; at < queries + keys - 1; ++at)
        values[at] = table.as<T>()[bucket[at] * heads + h];
      for (int64_t i = 0; i < queries; ++i)
        std::copy_n(values + queries - 1 - i, keys, out.as<T>() + (h * queries + i) * keys);
    }
  });
}

void relativeBiasGrad(Checker &, View grads, View addend, View out, bool bidirectional, int64_t maxDistance) {
  startFrom(addend, out);
  if (grads.elements() == 0)
    return;
  const int64_t heads = grads.dims[0], queries = grads.dims[1], keys = grads.dims[2], buckets = out.dims[0];
  const int64_t *bucket = bucketsOf(queries, keys, buckets, bidirectional, maxDistance);
  withFloating(out.dtype, [&]<class T>(T) {
    struct Tag;
    auto *sums = scratch<Tag, Wide<T>>(queries + keys + buckets), *ofBuckets = sums + queries + keys;
    for (int64_t h = 0; h < heads; ++h) {
      std::fill_n(sums, queries + keys + buckets, Wide<T>(0));
      for (int64_t i = 0; i < queries; ++i)
        addTo(sums + queries - 1 - i, grads.as<const T>() + (h * queries + i) * keys, keys);
      for (int64_t at = 0; at < queries + keys - 1; ++at)
        ofBuckets[bucket[at]] += sums[at];
      for (int64_t b = 0; b < buckets; ++b)
        out.as<T>()[b * heads + h] += static_cast<T>(ofBuckets[b]);
    }
  });
}

} // namespace moert::host
