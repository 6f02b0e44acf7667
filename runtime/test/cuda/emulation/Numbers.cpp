//===- Numbers.cpp - the 16-bit types -------------------------------------===//

#include "include/cuda_bf16.h"
#include "include/cuda_fp16.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace {

/// Properties of a 16-bit floating type.
struct Format {
  int mantissa;             ///< bits of the mantissa
  int least, greatest;      ///< exponents of normal numbers
  uint16_t infinity, quiet; ///< bit patterns
};
constexpr Format kBfloat{7, -126, 127, 0x7f80, 0x7fc0}, kHalf{10, -14, 15, 0x7c00, 0x7e00};

/// Bits of the nearest number, ties to even. double holds all f32, so these are also rounded once.
uint16_t rounded(double value, const Format &format) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return format.quiet;
  const double size = std::abs(value);
  if (size == 0)
    return sign;
  if (std::isinf(size))
    return sign | format.infinity;
  // Exponent of the units in the last place. Subnormal numbers have that of the least normal ones.
  int exponent = std::max(std::ilogb(size), format.least);
  auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(size, format.mantissa - exponent)));
  if (units == 2u << format.mantissa) {
    units /= 2;
    ++exponent;
  }
  if (exponent > format.greatest)
    return sign | format.infinity;
  const bool isNormal = units >= 1u << format.mantissa;
  const uint32_t biased = isNormal ? static_cast<uint32_t>(exponent - format.least + 1) : 0;
  return static_cast<uint16_t>(sign | biased << format.mantissa | (units & ((1u << format.mantissa) - 1)));
}

/// Value of an f16.
double widened(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int biased = (bits & 0x7fff) >> kHalf.mantissa, units = bits & ((1 << kHalf.mantissa) - 1);
  if (biased == kHalf.infinity >> kHalf.mantissa)
    return units ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (biased == 0)
    return sign * std::ldexp(units, kHalf.least - kHalf.mantissa);
  return sign * std::ldexp(units + (1 << kHalf.mantissa), biased - 1 + kHalf.least - kHalf.mantissa);
}

} // namespace

__nv_bfloat16 __double2bfloat16(double value) { return {rounded(value, kBfloat)}; }
__nv_bfloat16 __float2bfloat16_rn(float value) { return __double2bfloat16(value); }

__half __double2half(double value) { return {rounded(value, kHalf)}; }
__half __float2half_rn(float value) { return __double2half(value); }
float __half2float(__half value) {
  static const std::vector<float> all = [] {
    std::vector<float> result(1 << 16);
    for (uint32_t bits = 0; bits < result.size(); ++bits)
      result[bits] = static_cast<float>(widened(static_cast<uint16_t>(bits)));
    return result;
  }();
  return all[value.bits];
}
