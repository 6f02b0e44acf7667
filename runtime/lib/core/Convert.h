//===- Convert.h - between floating-point types ---------------------------===//
//
// A conversion is exact if the new type holds the value. Otherwise it rounds to nearest, ties to even. NaN stays NaN,
// and keeps its bits from a narrow type to a wider one and back.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_CONVERT_H
#define MOERT_CORE_CONVERT_H

#include "core/Field.h"
#include "core/Inline.h"
#include "core/View.h"

#include <bit>
#include <cmath>
#include <type_traits>

namespace moert {

/// Bits of a number, in a struct so that nobody computes with them by mistake.
struct Bf16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

MOERT_INLINE float widen(float value) { return value; }
MOERT_INLINE float widen(Bf16 value) { return std::bit_cast<float>(uint32_t(value.bits) << 16); }
MOERT_INLINE float widen(Half value) {
  uint32_t sign = uint32_t(value.bits & 0x8000) << 16, exponent = value.bits >> 10 & 31, mantissa = value.bits & 0x3ff;
  uint32_t special = 0x7f800000 | mantissa << 13, normal = (exponent + 112) << 23 | mantissa << 13;
  // The number is 0 or subnormal, in units of 2^-24.
  auto small = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(mantissa)) * 0x1p-24f);
  return std::bit_cast<float>(sign | (exponent == 31 ? special : exponent > 0 ? normal : small));
}
/// Widens NaN by hand, because processors set a bit of it.
MOERT_INLINE double widenTwice(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) <= 0x7f800000)
    return value;
  return std::bit_cast<double>(uint64_t(bits & 0x80000000) << 32 | uint64_t(0x7ff) << 52 |
                               uint64_t(bits & 0x7fffff) << 29);
}

MOERT_INLINE float narrowOnce(double value) {
  auto bits = std::bit_cast<uint64_t>(value);
  if ((bits & INT64_MAX) <= uint64_t(0x7ff) << 52)
    return static_cast<float>(value);
  uint32_t mantissa = bits >> 29 & 0x7fffff;
  return std::bit_cast<float>(uint32_t(bits >> 32 & 0x80000000) | 0x7f800000 | (mantissa ? mantissa : 0x400000));
}
/// Rounds `value` to the odd neighbour if it is inexact. Rounding the result again to fewer bits then equals rounding
/// once.
MOERT_INLINE float narrowToOdd(double value) {
  const float nearest = narrowOnce(value);
  auto bits = std::bit_cast<uint32_t>(nearest);
  const double back = static_cast<double>(nearest);
  if (back != value && value == value) {
    bits -= std::abs(back) > std::abs(value) ? 1 : 0;
    bits |= 1;
  }
  return std::bit_cast<float>(bits);
}
MOERT_INLINE Bf16 toBf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t nan = bits >> 16 | (bits & 0x7f0000 ? 0 : 0x40), nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return {static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : nearest)};
}
MOERT_INLINE Half toHalf(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  const uint32_t nan = 0x7c00 | (size & 0x7fe000 ? size >> 13 & 0x3ff : 0x200);
  const uint32_t normal = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
  // The last bit of a float of 0.5 to 1 is worth 2^-24.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000;
  const uint32_t finite = size >= 0x38800000 /* 2^-14 */ ? normal : small;
  const uint32_t number = size >= 0x47800000 /* 2^16 */ ? 0x7c00 : finite;
  return {static_cast<uint16_t>(sign | (size > 0x7f800000 ? nan : number))};
}

template <class To, class From> MOERT_INLINE To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<From, Field>)
    return convert<To>(value.size());
  else if constexpr (std::is_same_v<To, Field>)
    return Field(convert<double>(value));
  else if constexpr (std::is_same_v<To, double>)
    return widenTwice(widen(value));
  else if constexpr (std::is_same_v<To, float> && std::is_same_v<From, double>)
    return narrowOnce(value);
  else if constexpr (std::is_same_v<From, double>)
    return convert<To>(narrowToOdd(value));
  else if constexpr (std::is_same_v<To, float>)
    return widen(value);
  else if constexpr (std::is_same_v<To, Bf16>)
    return toBf16(widen(value));
  else
    return toHalf(widen(value));
}

/// Calls function(T{}) with the element type T of a floating dtype.
template <class Function> void withAnyFloating(int32_t dtype, Function function) {
  switch (dtype) {
  case MOERT_F64:
    return function(double{});
  case MOERT_BF16:
    return function(Bf16{});
  case MOERT_F16:
    return function(Half{});
  case kFieldType:
    return function(Field{});
  default:
    return function(float{});
  }
}

/// Returns element `index` as a double.
inline double elementAt(const void *data, int32_t dtype, int64_t index) {
  if (dtype == MOERT_I32)
    return static_cast<const int32_t *>(data)[index];
  double result = 0;
  withAnyFloating(dtype,
                  [&](auto zero) { result = convert<double>(static_cast<const decltype(zero) *>(data)[index]); });
  return result;
}

} // namespace moert

#endif // MOERT_CORE_CONVERT_H
