//===- ModelSupport.h - what the kernels of whole models share -------------===//
#ifndef MOERT_HOST_MODELSUPPORT_H
#define MOERT_HOST_MODELSUPPORT_H

#include "host/KernelSupport.h"
#include "host/Kernels.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace moert::host {

/// Checks that `indices` [count] are from `lowest` to below parts * size of `part`.
inline void checkIndices(Checker &check, const char *name, View indices, int64_t lowest, Part part, int64_t size) {
  if (!check.ok())
    return;
  const int32_t *values = indices.as<const int32_t>();
  const int64_t end = part.parts * size;
  for (int64_t i = 0; i < indices.dims[0]; ++i)
    check.that(values[i] >= lowest && values[i] < end, "expected '", name, lowest == 0 ? "' from 0 to " : "' below ",
               lowest == 0 ? end - 1 : end, " but got ", values[i], " at ", i);
}

/// Lowest index for checkIndices if negative indices mean no element.
inline constexpr int64_t kAnyNegative = std::numeric_limits<int32_t>::min();

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

} // namespace moert::host

#endif // MOERT_HOST_MODELSUPPORT_H
