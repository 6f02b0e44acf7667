//===- KernelSupport.h - what the host kernels share -----------------------===//
//
// Shared by host kernels: checks of operands, type dispatch, scratch memory, and functions for vectorised loops.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_HOST_KERNELSUPPORT_H
#define MOERT_HOST_KERNELSUPPORT_H

#include "core/Checker.h"
#include "core/Field.h"
#include "core/Inline.h"
#include "core/Shapes.h"
#include "host/HostMemory.h"
#include "host/Kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <vector>

// Loops under MOERT_SIMD are vectorised with -fopenmp-simd; iterations must be independent of each other. Exact
// in-place use (element i of the output is element i of the input) is allowed.
#define MOERT_SIMD _Pragma("omp simd")
#define MOERT_SIMD_SUM(variable) _Pragma(MOERT_STRING(omp simd reduction(+ : variable)))
#define MOERT_STRING(text) #text

#ifdef __clang__
// clang has no vector exp without -fveclib. It leaves those loops scalar and would warn about each.
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define MOERT_X86 1
#endif

// <cmath> declares glibc's vector math library only under -ffast-math, which would break NaN. GCC needs only these
// declarations. Other compilers call the scalar functions.
#if defined(MOERT_X86) && !defined(__clang__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 35)
extern "C" {
__attribute__((simd("notinbranch"), const)) float expf(float) noexcept;
__attribute__((simd("notinbranch"), const)) double exp(double) noexcept;
__attribute__((simd("notinbranch"), const)) float logf(float) noexcept;
__attribute__((simd("notinbranch"), const)) double log(double) noexcept;
// New in glibc 2.35.
#ifndef MOERT_PORTABLE
__attribute__((simd("notinbranch"), const)) float erfcf(float) noexcept;
__attribute__((simd("notinbranch"), const)) double erfc(double) noexcept;
#endif
}
#endif
#endif

namespace moert::host {

// --- Checks ------------------------------------------------------------------

/// Returns the first row of each expert in a ragged buffer of `capacity` rows: offsets [E+1] from counts [sources,E].
/// The result lies in scratch memory of the calling thread until its next call.
inline const std::vector<int64_t> &readCounts(Checker &check, View counts, int64_t capacity) {
  thread_local std::vector<int64_t> offsets;
  const int64_t sources = counts.dims[0], experts = counts.dims[1];
  offsets.assign(experts + 1, 0);
  bool positive = true;
  for (int64_t s = 0; s < sources; ++s)
    for (int64_t e = 0; e < experts; ++e) {
      const int32_t count = counts.as<const int32_t>()[s * experts + e];
      positive &= count >= 0;
      offsets[e + 1] += count;
    }
  for (int64_t e = 0; e < experts; ++e)
    offsets[e + 1] += offsets[e];
  check.that(positive, "expected 'counts' of 0 or more");
  check.require(MOERT_ERROR_OVERFLOW, offsets.back() <= capacity, "expected 'counts' of ", capacity,
                " rows in all at most but got ", offsets.back());
  return offsets;
}

/// Checks that `indices` [count] are from `lowest` to below parts * size of `part`.
inline void checkIndices(Checker &check, const char *name, View indices, int64_t lowest, Part part, int64_t size) {
  const int32_t *values = indices.as<const int32_t>();
  const int64_t end = part.parts * size;
  for (int64_t i = 0; i < indices.dims[0]; ++i)
    check.that(values[i] >= lowest && values[i] < end, "expected '", name, lowest == 0 ? "' from 0 to " : "' below ",
               lowest == 0 ? end - 1 : end, " but got ", values[i], " at ", i);
}

/// Lowest index for checkIndices if negative indices mean no element.
inline constexpr int64_t kAnyNegative = std::numeric_limits<int32_t>::min();

inline void checkExperts(Checker &check, View experts, int64_t count) {
  for (int64_t i = 0; check.ok() && i < experts.elements(); ++i)
    check.that(experts.as<int32_t>()[i] >= 0 && experts.as<int32_t>()[i] < count, "expected 'experts' from 0 to ",
               count - 1, " but got ", experts.as<int32_t>()[i]);
}

// --- Types and memory --------------------------------------------------------

/// Calls function(T{}) with the element type T of a floating dtype, after the checks have passed.
template <class Function> auto withFloating(int32_t dtype, Function function) {
  switch (dtype) {
  case MOERT_F64:
    return function(double{});
  case kFieldType:
    return function(Field{});
  default:
    return function(float{});
  }
}

/// Type for sums of many T.
template <class T> using Wide = std::conditional_t<std::is_same_v<T, Field>, Field, double>;

/// Returns `count` uninitialised elements that belong to the calling thread until it asks for the same Tag and T again.
/// They are aligned like arguments and arenas, because libraries' products add up in another order if operands are not.
template <class Tag, class T> T *scratch(int64_t count) {
  thread_local Block memory;
  thread_local int64_t size = 0;
  if (size < count) {
    if (!allocateBlock(count * static_cast<int64_t>(sizeof(T)), "scratch", memory).ok())
      throw std::bad_alloc();
    size = count;
  }
  return static_cast<T *>(memory.get());
}

/// Sorts choices [begin, end) by their bins, and in a bin by their order: slots[i] is the row of choice i from `row`
/// on, or -1 if bin(i) < 0, and `counts` are the rows of each of `bins` bins.
template <class Bin>
void fillSlots(int32_t *slots, int32_t *counts, int64_t bins, int64_t begin, int64_t end, int64_t row, Bin bin) {
  struct Tag;
  int32_t *next = scratch<Tag, int32_t>(bins);
  std::fill_n(counts, bins, 0);
  for (int64_t i = begin; i < end; ++i)
    if (bin(i) >= 0)
      ++counts[bin(i)];
  for (int64_t b = 0; b < bins; row += counts[b++])
    next[b] = static_cast<int32_t>(row);
  for (int64_t i = begin; i < end; ++i)
    slots[i] = bin(i) < 0 ? -1 : next[bin(i)]++;
}

// --- Functions ---------------------------------------------------------------
// These functions have one name for all types. Limits that prevent overflow do not change a Field: its limit is
// infinite.

MOERT_INLINE float vectorExp(float x) { return ::expf(x); }
MOERT_INLINE double vectorExp(double x) { return ::exp(x); }
MOERT_INLINE float vectorLog(float x) { return ::logf(x); }
MOERT_INLINE double vectorLog(double x) { return ::log(x); }
MOERT_INLINE float vectorErfc(float x) { return ::erfcf(x); }
MOERT_INLINE double vectorErfc(double x) { return ::erfc(x); }
MOERT_INLINE Field vectorExp(Field x) { return fieldExp(x); }
MOERT_INLINE Field vectorErfc(Field x) { return standIn(Oracle::Erfc, x); }

template <class T> MOERT_INLINE T squareRoot(T x) { return std::sqrt(x); }
MOERT_INLINE Field squareRoot(Field x) { return standIn(Oracle::SquareRoot, x); }

/// Hides `value` from the compiler. Without it GCC folds exp(constant) of a clamped argument and calls the vector exp
/// on the unclamped argument, for which it is a hundred times slower.
template <class T> MOERT_INLINE T opaque(T value) {
  asm("" : "+m"(value));
  return value;
}

/// A limit for f32 and one for f64.
template <class T> constexpr T limitOf(double single, double twice) {
  if constexpr (std::is_same_v<T, Field>)
    return Field::infinity();
  return T(sizeof(T) == 4 ? single : twice);
}

/// Arguments within [-limit, limit] keep the vector exp off its slow path. Beyond it, exp(-x) is 0 or infinite except
/// for rounding.
template <class T> inline constexpr T expLimit = limitOf<T>(87, 700);

/// Return x if x is NaN.
template <class T> MOERT_INLINE T atLeast(T x, T low) { return x < low ? low : x; }
template <class T> MOERT_INLINE T atMost(T x, T high) { return x > high ? high : x; }

/// exp(-x) with x clamped to +-limit. Callers pass opaque(expLimit<T>) as `limit`, read once before their loop.
template <class T> MOERT_INLINE T expOfMinus(T x, T limit) { return vectorExp(-atMost(atLeast(x, -limit), limit)); }

/// 1 / (1 + exp(-x)) with the limit of expOfMinus.
template <class T> struct Logistic {
  T power; ///< exp(-x)
  MOERT_INLINE Logistic(T x, T limit) : power(expOfMinus(x, limit)) {}
  MOERT_INLINE T value() const { return 1 / (1 + power); }
  MOERT_INLINE T times(T factor) const { return factor / (1 + power); }
  /// s (1 - s) for value s, without the cancellation of 1 - s.
  MOERT_INLINE T slope(T s) const { return power * s * s; }
};
template <> struct Logistic<Field> {
  Field s;
  MOERT_INLINE Logistic(Field x, Field) : s(standIn(Oracle::Logistic, x)) {}
  MOERT_INLINE Field value() const { return s; }
  MOERT_INLINE Field times(Field factor) const { return factor * s; }
  MOERT_INLINE Field slope(Field) const { return s * (1 - s); }
};

/// exp(x) for x below +limit, and exactly 0 below -limit, with the limit of expOfMinus. It multiplies by 0 or 1,
/// because GCC would make a branch around the call of a choice, and the call would be scalar.
template <class T> MOERT_INLINE T expOrZero(T x, T limit) {
  return vectorExp(atMost(atLeast(x, -limit), limit)) * (x < -limit ? T(0) : T(1));
}

/// exp(x - reference) with the limit of expOrZero. Loops have one reference for many x.
template <class T> MOERT_INLINE T expOfDifference(T x, T reference, T limit) { return expOrZero(x - reference, limit); }
MOERT_INLINE Field expOfDifference(Field x, Field reference, Field = {}) {
  thread_local Field last = 0, factor = fieldExp(0).inverse();
  if (x.isInfinite())
    return 0;
  if (!(reference == last)) {
    last = reference;
    factor = fieldExp(reference).inverse();
  }
  return fieldExp(x) * factor;
}
/// exp(x - reference) without a limit.
MOERT_INLINE double expOfDifference(double x, double reference) { return std::exp(x - reference); }

/// log(sum of exp(x)); `sum` is the sum of exp(x - reference).
template <class T> MOERT_INLINE T logOfSum(T reference, T sum) { return reference + std::log(sum); }
MOERT_INLINE Field logOfSum(Field reference, Field sum) { return fieldLog(fieldExp(reference) * sum); }

template <class T> MOERT_INLINE bool isInfinite(T x) { return std::isinf(x); }
MOERT_INLINE bool isInfinite(Field x) { return x.isInfinite(); }

/// Values from -limit to limit, a constant of the model. A Field compares its size(), because few Fields would be so
/// small.
template <class T> class Bound {
public:
  explicit Bound(double limit) : limit(opaque(T(limit))), size(limit) {}
  /// Whether the limit is below x.
  MOERT_INLINE bool isBelow(T x) const {
    if constexpr (std::is_same_v<T, Field>)
      return x.size() > size;
    else
      return x > limit;
  }
  MOERT_INLINE bool contains(T x) const {
    if constexpr (std::is_same_v<T, Field>)
      return std::abs(x.size()) <= size;
    else
      return x >= -limit && x <= limit;
  }
  /// x, or the limit if x is above it.
  MOERT_INLINE T atMost(T x) const { return isBelow(x) ? limit : x; }
  /// The nearest value to x.
  MOERT_INLINE T nearest(T x) const { return isBelow(x) ? limit : isBelow(-x) ? -limit : x; }

private:
  T limit;
  double size;
};

// --- Vectorised loops --------------------------------------------------------

/// Sets element i of `out` to f(i).
template <class T, class Function> void setElements(View out, Function f) {
  T *to = out.as<T>();
  const int64_t count = out.elements();
  MOERT_SIMD
  for (int64_t i = 0; i < count; ++i)
    to[i] = f(i);
}

template <class T> MOERT_INLINE T dotProduct(const T *a, const T *b, int64_t count) {
  T sum = 0;
  MOERT_SIMD_SUM(sum)
  for (int64_t i = 0; i < count; ++i)
    sum += a[i] * b[i];
  return sum;
}

/// Sets out to addend, or to zeros if it is absent.
inline void startFrom(View addend, View out) {
  if (!addend)
    std::memset(out.data, 0, out.bytes());
  else if (addend.data != out.data)
    std::memmove(out.data, addend.data, out.bytes());
}

/// Number of elements that are summed in T before they join a sum in double.
inline constexpr int64_t kSumPart = 512;

/// Sets out to exp(in - reference) for `count` elements, such as kSumPart, and returns their sum in T. It has two
/// loops: in one loop that also adds, GCC calls the scalar exp.
template <class T> MOERT_INLINE T expPart(const T *in, T *out, int64_t count, T reference, T limit) {
  MOERT_SIMD
  for (int64_t i = 0; i < count; ++i)
    out[i] = expOfDifference(in[i], reference, limit);
  T sum = 0;
  MOERT_SIMD_SUM(sum)
  for (int64_t i = 0; i < count; ++i)
    sum += out[i];
  return sum;
}

/// Returns the largest element, and skips NaNs.
template <class T> MOERT_INLINE T maximum(const T *in, int64_t count) {
  T largest = -std::numeric_limits<T>::infinity();
  _Pragma("omp simd reduction(max : largest)") for (int64_t i = 0; i < count; ++i) largest =
      in[i] > largest ? in[i] : largest;
  return largest;
}
/// Fields have no vectorised maximum.
MOERT_INLINE Field maximum(const Field *in, int64_t count) {
  return std::accumulate(in, in + count, -Field::infinity(), [](Field a, Field b) { return std::max(a, b); });
}

/// Adds in to sum, which is wider, because T loses digits in sums of many terms.
template <class T> MOERT_INLINE void addTo(Wide<T> *sum, const T *in, int64_t count) {
  MOERT_SIMD
  for (int64_t i = 0; i < count; ++i)
    sum[i] += static_cast<Wide<T>>(in[i]);
}

// --- Matrix products ---------------------------------------------------------

/// c [m,n] = alpha op(a) op(b), with op(a) [m,k], op(b) [k,n]; `accumulate` adds it to c. A leading dimension is the
/// distance of two rows of the stored matrix, 0 if they follow each other. Any size may be 0.
struct GemmShape {
  int64_t m, n, k;
  bool transposeA, transposeB;
  bool accumulate = false;
  double alpha = 1.0;
  int64_t leadingA = 0, leadingB = 0, leadingC = 0;
};

Status gemm(const GemmShape &shape, const float *a, const float *b, float *c);
Status gemm(const GemmShape &shape, const double *a, const double *b, double *c);
Status gemm(const GemmShape &shape, const Field *a, const Field *b, Field *c);

} // namespace moert::host

#endif // MOERT_HOST_KERNELSUPPORT_H
