//===- Math.cuh - functions of one number ---------------------------------===//
#ifndef MOERT_CUDA_MATH_CUH
#define MOERT_CUDA_MATH_CUH

#include "cuda/Types.cuh"

#include <cmath>
#include <limits>

namespace moert::cuda {

// Bounds for arguments of exp, so that infinities give the limits and NaN stays NaN.

/// min and max that return x if x is NaN.
template <class A> __device__ A atLeast(A x, A low) { return x < low ? low : x; }
template <class A> __device__ A atMost(A x, A high) { return x > high ? high : x; }
template <class A> inline constexpr A kLimit = sizeof(A) == 4 ? A(87) : A(700);
/// exp(x) and a / b. They are as exact as f32 and f64 are, and faster for 16-bit operands, which need less. A divisor
/// is below 2^126, beyond which the fast quotient is 0.
template <class T> __device__ __forceinline__ Acc<T> expOf(Acc<T> x) {
  if constexpr (isNarrowType<T>)
    return __expf(x);
  else
    return std::exp(x);
}
template <class T> __device__ __forceinline__ Acc<T> quotientOf(Acc<T> a, Acc<T> b) {
  if constexpr (isNarrowType<T>)
    return __fdividef(a, b);
  else
    return a / b;
}

/// exp(-x), neither 0 nor infinite.
template <class T> __device__ Acc<T> expOfMinus(Acc<T> x) {
  using A = Acc<T>;
  return expOf<T>(-atMost(atLeast(x, -kLimit<A>), kLimit<A>));
}
/// exp(x), never infinite. It is exactly 0 below the limit, so that -inf masks its element.
template <class A> __device__ A expOrZero(A x) { return x < -kLimit<A> ? A(0) : std::exp(atMost(x, kLimit<A>)); }

template <class A> inline constexpr A kInfinity = std::numeric_limits<A>::infinity();

/// a + b rounded by itself, without contraction with a product that computes one of them.
__device__ __forceinline__ float plainSum(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double plainSum(double a, double b) { return __dadd_rn(a, b); }

} // namespace moert::cuda

#endif // MOERT_CUDA_MATH_CUH
