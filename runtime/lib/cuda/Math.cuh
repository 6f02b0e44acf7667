//===- Math.cuh - functions of one number ---------------------------------===//
#ifndef MOERT_CUDA_MATH_CUH
#define MOERT_CUDA_MATH_CUH

#include "cuda/Types.cuh"

#include <cmath>
#include <limits>

namespace moert::cuda {

// Arguments are held where exp would overflow, so that infinities give the limits; NaN stays NaN.

/// min and max that return x where x is NaN.
template <class A> __device__ A atLeast(A x, A low) { return x < low ? low : x; }
template <class A> __device__ A atMost(A x, A high) { return x > high ? high : x; }
template <class A> inline constexpr A kLimit = sizeof(A) == 4 ? A(87) : A(700);
/// exp(-x), neither 0 nor infinite.
template <class A> __device__ A expOfMinus(A x) { return std::exp(-atMost(atLeast(x, -kLimit<A>), kLimit<A>)); }
/// exp(x), never infinite; exactly 0 below the limit, so that -inf masks what it stands for.
template <class A> __device__ A expOrZero(A x) { return x < -kLimit<A> ? A(0) : std::exp(atMost(x, kLimit<A>)); }

template <class A> inline constexpr A kInfinity = std::numeric_limits<A>::infinity();

/// a + b rounded by itself: it is not contracted with a product that makes one of them.
__device__ __forceinline__ float plainSum(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double plainSum(double a, double b) { return __dadd_rn(a, b); }

} // namespace moert::cuda

#endif // MOERT_CUDA_MATH_CUH
