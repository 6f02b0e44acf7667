//===- cuda_fp16.h - f16, emulated ----------------------------------------===//
#ifndef MOERT_TEST_CUDA_EMULATION_CUDA_FP16_H
#define MOERT_TEST_CUDA_EMULATION_CUDA_FP16_H

#include <cstdint>

struct __half {
  uint16_t bits;
};
using half = __half;
struct alignas(4) __half2 {
  __half x, y;
};

// Rounds to nearest, ties to even.
__half __float2half_rn(float value);
__half __double2half(double value);
inline __half __float2half(float value) { return __float2half_rn(value); }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
float __half2float(__half value);

#endif // MOERT_TEST_CUDA_EMULATION_CUDA_FP16_H
