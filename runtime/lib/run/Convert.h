//===- Convert.h - between the floating-point types of files ----*- C++ -*-===//
//
// Exact where the new type holds the value, else rounded to nearest, ties to even. NaN stays NaN, and to a wider type
// and back it keeps its bits.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_RUN_CONVERT_H
#define MOERT_RUN_CONVERT_H

#include <bit>
#include <cstdint>
#include <type_traits>

namespace moert::run {

struct Bf16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

inline float widen(float value) { return value; }
inline float widen(Bf16 value) { return std::bit_cast<float>(uint32_t(value.bits) << 16); }
inline float widen(Half value) {
  uint32_t sign = uint32_t(value.bits & 0x8000) << 16, exponent = value.bits >> 10 & 31, mantissa = value.bits & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent > 0)
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  // 0, or a number without a leading 1, in units of 2^-24.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f));
}
/// By hand where it is NaN, of which processors set a bit.
inline double widenTwice(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) <= 0x7f800000)
    return value;
  return std::bit_cast<double>(uint64_t(bits & 0x80000000) << 32 | uint64_t(0x7ff) << 52 |
                               uint64_t(bits & 0x7fffff) << 29);
}

inline float narrowOnce(double value) {
  auto bits = std::bit_cast<uint64_t>(value);
  if ((bits & INT64_MAX) <= uint64_t(0x7ff) << 52)
    return static_cast<float>(value);
  uint32_t mantissa = bits >> 29 & 0x7fffff;
  return std::bit_cast<float>(uint32_t(bits >> 32 & 0x80000000) | 0x7f800000 | (mantissa ? mantissa : 0x400000));
}
inline Bf16 toBf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return {static_cast<uint16_t>(bits >> 16 | (bits & 0x7f0000 ? 0 : 0x40))};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
inline Half toHalf(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  uint32_t half;
  if (size > 0x7f800000)
    half = 0x7c00 | (size & 0x7fe000 ? size >> 13 & 0x3ff : 0x200);
  else if (size >= 0x47800000) // 2^16
    half = 0x7c00;
  else if (size >= 0x38800000) // 2^-14
    half = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
  else // The last bit of a float from a half on is worth 2^-24.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000;
  return {static_cast<uint16_t>(sign | half)};
}

template <class To, class From> To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<To, double>)
    return widenTwice(widen(value));
  else if constexpr (std::is_same_v<From, double>)
    return convert<To>(narrowOnce(value));
  else if constexpr (std::is_same_v<To, float>)
    return widen(value);
  else if constexpr (std::is_same_v<To, Bf16>)
    return toBf16(widen(value));
  else
    return toHalf(widen(value));
}

} // namespace moert::run

#endif // MOERT_RUN_CONVERT_H
