//===- Types.cuh - element types, their loads and stores ------------------===//
#ifndef MOERT_CUDA_TYPES_CUH
#define MOERT_CUDA_TYPES_CUH

#include "core/View.h"

#include <algorithm>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <type_traits>

namespace moert::cuda {

using Bf16 = __nv_bfloat16;
using Half = __half;

template <class T> inline constexpr bool isNarrowType = std::is_same_v<T, Bf16> || std::is_same_v<T, Half>;

/// Type of computations on operands of these types: double if one is double, float otherwise.
template <class... T> using Acc = std::conditional_t<(std::is_same_v<T, double> || ...), double, float>;

/// Exact if `To` holds the value. Rounds once otherwise, to nearest, ties to even.
template <class To, class From> __host__ __device__ __forceinline__ To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<From, Bf16>)
    return static_cast<To>(__bfloat162float(value));
  else if constexpr (std::is_same_v<From, Half>)
    return static_cast<To>(__half2float(value));
  else if constexpr (std::is_same_v<To, Bf16> && std::is_same_v<From, double>)
    return __double2bfloat16(value);
  else if constexpr (std::is_same_v<To, Bf16>)
    return __float2bfloat16_rn(value);
  else if constexpr (std::is_same_v<To, Half> && std::is_same_v<From, double>)
    return __double2half(value);
  else if constexpr (std::is_same_v<To, Half>)
    return __float2half_rn(value);
  else
    return static_cast<To>(value);
}

// --- Vectors -----------------------------------------------------------------

/// Elements of one access of 16 bytes. With several types, the smallest number.
template <class... T> inline constexpr int kVector = 16 / static_cast<int>(std::min({sizeof(T)...}));

/// `N` neighbouring elements.
template <class T, int N> struct alignas(N * sizeof(T) % 16 == 0 ? 16 : alignof(T)) Pack {
  T values[N];
};

/// Whether N elements are loaded and stored by accesses of 16 bytes. Their address must then be a multiple of 16.
template <class T, int N> inline constexpr bool isVector = N * sizeof(T) % 16 == 0;

template <int N, class T, bool IsVector = isVector<T, N>>
__device__ __forceinline__ Pack<T, N> loadPack(const T *from) {
  Pack<T, N> pack;
  if constexpr (IsVector) {
#pragma unroll
    for (int i = 0; i < static_cast<int>(N * sizeof(T) / 16); ++i)
      reinterpret_cast<uint4 *>(&pack)[i] = reinterpret_cast<const uint4 *>(from)[i];
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      pack.values[i] = from[i];
  }
  return pack;
}
template <int N, class T, bool IsVector = isVector<T, N>>
__device__ __forceinline__ void storePack(T *to, const Pack<T, N> &pack) {
  if constexpr (IsVector) {
#pragma unroll
    for (int i = 0; i < static_cast<int>(N * sizeof(T) / 16); ++i)
      reinterpret_cast<uint4 *>(to)[i] = reinterpret_cast<const uint4 *>(&pack)[i];
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      to[i] = pack.values[i];
  }
}

/// Function of the elements of packs, computed in A and rounded to `To`.
template <class To, class A, class Function, int N, class... From>
__device__ __forceinline__ Pack<To, N> mapPacks(Function function, const Pack<From, N> &...packs) {
  Pack<To, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i)
    result.values[i] = convert<To>(function(convert<A>(packs.values[i])...));
  return result;
}
template <class To, class From, int N> __device__ __forceinline__ Pack<To, N> convertPack(const Pack<From, N> &pack) {
  return mapPacks<To, From>([](From value) { return value; }, pack);
}
template <int N, class T> __device__ __forceinline__ Pack<T, N> uniformPack(T value) {
  return mapPacks<T, T>([=](T) { return value; }, Pack<T, N>());
}
template <class A, class T, int N> __device__ __forceinline__ void addTo(Pack<A, N> &sums, const Pack<T, N> &pack) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    sums.values[i] += convert<A>(pack.values[i]);
}

/// Whether all addresses may be accessed by 16 bytes. Null means absent.
template <class... T> bool areAligned(const T *...data) {
  return (((reinterpret_cast<uintptr_t>(data) & 15) == 0) && ...);
}

// --- Dispatch ----------------------------------------------------------------

/// A type as a value.
template <class T> using Type = std::type_identity<T>;

/// Calls function(Type<T>()) with the T of a floating dtype. The checks guarantee that it is one.
template <class Function> Status withFloating(int32_t dtype, Function function) {
  switch (dtype) {
  case MOERT_F32:
    return function(Type<float>());
  case MOERT_F64:
    return function(Type<double>());
  case MOERT_BF16:
    return function(Type<Bf16>());
  case MOERT_F16:
    return function(Type<Half>());
  default:
    return Status::error(MOERT_ERROR_INTERNAL, "expected a floating type");
  }
}

/// Calls function(Type<T>()) with the T of the widest access that fits. `all` is the bitwise or of the addresses and
/// the sizes.
template <class Function> Status withWidestUnit(uintptr_t all, Function function) {
  if (all % 16 == 0)
    return function(Type<uint4>());
  if (all % 8 == 0)
    return function(Type<uint2>());
  if (all % 4 == 0)
    return function(Type<uint32_t>());
  return function(Type<uint16_t>());
}

/// Calls function(Type<T>()) for a value that goes with rows of type T: T, or f32 beside 16-bit rows.
template <class T, class Function> Status withBeside(int32_t dtype, Function function) {
  if constexpr (isNarrowType<T>)
    if (dtype == MOERT_F32)
      return function(Type<float>());
  return function(Type<T>());
}

/// Calls function(Type<T>(), Type<B>()) with the T of a floating dtype and the B of a value beside it.
template <class Function> Status withFloating(int32_t dtype, int32_t beside, Function function) {
  return withFloating(dtype, [&]<class T>(Type<T> type) {
    return withBeside<T>(beside, [&](auto other) { return function(type, other); });
  });
}

} // namespace moert::cuda

#endif // MOERT_CUDA_TYPES_CUH
