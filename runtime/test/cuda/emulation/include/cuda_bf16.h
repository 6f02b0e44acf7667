//===- cuda_bf16.h - bf16, emulated ---------------------------------------===//
#ifndef MOERT_TEST_CUDA_EMULATION_CUDA_BF16_H
#define MOERT_TEST_CUDA_EMULATION_CUDA_BF16_H

#include <bit>
#include <cstdint>

struct __nv_bfloat16 {
  uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

// Rounds to nearest, ties to even.
__nv_bfloat16 __float2bfloat16_rn(float value);
__nv_bfloat16 __double2bfloat16(double value);
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
inline float __bfloat162float(__nv_bfloat16 value) { return std::bit_cast<float>(uint32_t(value.bits) << 16); }

#endif // MOERT_TEST_CUDA_EMULATION_CUDA_BF16_H
