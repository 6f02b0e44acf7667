//===- Mma.cuh - products of tiles by the threads of a warp ---------------===//
//
// Matrix products of a warp, of 16 rows. Sums are spread over the lanes in the layout of tensor cores: of each tile of
// 16 x 8, lane 4 g + t has rows g and g + 8, columns 2 t and 2 t + 1. Tensor cores multiply 16-bit types (mma.m16n8k16,
// compute capability 8.0 and higher). f32 and f64 use plain arithmetic on the same layout. Operands are in shared
// memory. Their rows have `pitch` elements, an odd multiple of 16 bytes, so that neighbouring rows lie in different
// banks.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_MMA_CUH
#define MOERT_CUDA_MMA_CUH

#include "cuda/Launch.cuh"
#include "cuda/Types.cuh"

#include <cuda_pipeline.h>

namespace moert::cuda {

/// Rows of a warp's product. Contracted dimensions are also multiples of it.
inline constexpr int kMmaRows = 16;

/// Position of a lane's sums: element e of tile n is in row laneRow() + 8 (e / 2) and column 8 n + laneColumn() + e %
/// 2.
__device__ __forceinline__ int laneRow() { return static_cast<int>(threadIdx.x) % kWarp / 4; }
__device__ __forceinline__ int laneColumn() { return static_cast<int>(threadIdx.x) % 4 * 2; }

/// Elements between rows of `columns` columns, a multiple of 16.
template <class T> __host__ __device__ constexpr int pitchOf(int columns) {
  return columns + 16 / static_cast<int>(sizeof(T));
}

/// Begins to copy a vector of 16 bytes to shared memory. Its first `left` elements are copied, and the others are
/// zeros. If `isAligned`, `left` is at least a vector, or at most 0. `anywhere` is a valid address.
template <class T>
__device__ __forceinline__ void stageVector(T *to, const T *from, int64_t left, bool isAligned, const T *anywhere) {
  if (isAligned) {
    // With no elements, no address is accessed.
    __pipeline_memcpy_async(to, left > 0 ? from : anywhere, 16, left > 0 ? 0 : 16);
    return;
  }
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i)
    to[i] = i < left ? from[i] : convert<T>(0.0f);
}

// --- Tensor cores ------------------------------------------------------------

/// Loads four matrices of 8 x 8 elements. Lane 8 i + r gives the address of row r of matrix i. Lane 4 g + t gets
/// elements (g, 2 t) and (g, 2 t + 1) of each, or transposed (2 t, g) and (2 t + 1, g).
template <bool IsTransposed> __device__ __forceinline__ void loadMatrices(uint32_t (&to)[4], const void *row) {
#ifdef MOERT_CUDA_EMULATION
  emulation::loadMatrices(to, row, IsTransposed);
#else
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (IsTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
#endif
}

/// sums += left right. `right` has two tiles of 16 x 8.
template <class T>
__device__ __forceinline__ void multiplyTiles(float (&first)[4], float (&second)[4], const uint32_t (&left)[4],
                                              const uint32_t (&right)[4]) {
#ifdef MOERT_CUDA_EMULATION
  emulation::multiplyTiles(first, second, left, right, [](uint16_t bits) { return convert<float>(T{bits}); });
#else
  auto one = [&](float(&sums)[4], uint32_t low, uint32_t high) {
    if constexpr (std::is_same_v<T, Bf16>)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                   "{%0, %1, %2, %3};"
                   : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                   : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(low), "r"(high));
    else
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                   "{%0, %1, %2, %3};"
                   : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                   : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(low), "r"(high));
  };
  one(first, right[0], right[1]);
  one(second, right[2], right[3]);
#endif
}

/// Packs two neighbours into one register, the first in its low half.
template <class T> __device__ __forceinline__ uint32_t packPair(float first, float second) {
  if constexpr (std::is_same_v<T, Bf16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<const uint32_t &>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<const uint32_t &>(pair);
  }
}

/// Stores two neighbours, by one access if their address is a multiple of their size.
template <class T> __device__ __forceinline__ void storePair(T *to, T first, T second, bool areBoth) {
  struct alignas(2 * sizeof(T)) Pair {
    T first, second;
  };
  if (areBoth && reinterpret_cast<uintptr_t>(to) % sizeof(Pair) == 0) {
    *reinterpret_cast<Pair *>(to) = {first, second};
    return;
  }
  to[0] = first;
  if (areBoth)
    to[1] = second;
}

// --- Products ----------------------------------------------------------------

/// sums += left right^T. `left` is 16 rows, `right` 8 N, of `depth` columns each.
template <class T, class A, int N>
__device__ __forceinline__ void addRowsByRows(A (&sums)[N][4], const T *left, const T *right, int pitch, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if constexpr (isNarrowType<T>) {
    const T *leftRow = left + lane % 16 * pitch + lane / 16 * 8;
    const T *rightRow = right + (lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 8;
    for (int k = 0; k < depth; k += 16) {
      uint32_t ofLeft[4];
      loadMatrices<false>(ofLeft, leftRow + k);
#pragma unroll
      for (int n = 0; n < N; n += 2) {
        uint32_t ofRight[4];
        loadMatrices<false>(ofRight, rightRow + 8 * n * pitch + k);
        multiplyTiles<T>(sums[n], sums[n + 1], ofLeft, ofRight);
      }
    }
  } else {
    constexpr int V = kVector<T>;
    const T *leftRow = left + laneRow() * pitch, *rightRow = right + laneColumn() * pitch;
    for (int k = 0; k < depth; k += V) {
      const Pack<T, V> a = loadPack<V>(leftRow + k), b = loadPack<V>(leftRow + 8 * pitch + k);
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const Pack<T, V> c = loadPack<V>(rightRow + (8 * n + e) * pitch + k);
#pragma unroll
          for (int i = 0; i < V; ++i) {
            sums[n][e] += a.values[i] * c.values[i];
            sums[n][e + 2] += b.values[i] * c.values[i];
          }
        }
    }
  }
}

/// sums += left right. `left` is 16 x 8 K in the layout of sums, rounded to T. `right` has 8 K rows, of which `columns`
/// columns count, a multiple of 16. `scratch` is 16 rows of pitchOf(8 K) that only the warp uses, for f32 and f64.
template <class T, class A, int K, int N>
__device__ __forceinline__ void addTilesByRows(A (&sums)[N][4], const A (&left)[K][4], const T *right, int pitch,
                                               int columns, T *scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if constexpr (isNarrowType<T>) {
    const T *rightRow = right + lane % 16 * pitch + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < K; k += 2) {
      const uint32_t ofLeft[4] = {packPair<T>(left[k][0], left[k][1]), packPair<T>(left[k][2], left[k][3]),
                                  packPair<T>(left[k + 1][0], left[k + 1][1]),
                                  packPair<T>(left[k + 1][2], left[k + 1][3])};
#pragma unroll
      for (int n = 0; n < N; n += 2) {
        if (8 * n >= columns)
          continue;
        uint32_t ofRight[4];
        loadMatrices<true>(ofRight, rightRow + 8 * k * pitch + 8 * n);
        multiplyTiles<T>(sums[n], sums[n + 1], ofLeft, ofRight);
      }
    }
  } else {
    constexpr int V = kVector<T>, kPitch = pitchOf<T>(8 * K);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        scratch[(laneRow() + e / 2 * 8) * kPitch + 8 * k + laneColumn() + e % 2] = left[k][e];
    __syncwarp();
    const T *leftRow = scratch + laneRow() * kPitch;
    for (int k = 0; k < 8 * K; k += V) {
      const Pack<T, V> a = loadPack<V>(leftRow + k), b = loadPack<V>(leftRow + 8 * kPitch + k);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const T *rightRow = right + (k + i) * pitch + laneColumn();
#pragma unroll
        for (int n = 0; n < N; ++n) {
          if (8 * n >= columns)
            continue;
          const T first = rightRow[8 * n], second = rightRow[8 * n + 1];
          sums[n][0] += a.values[i] * first;
          sums[n][1] += a.values[i] * second;
          sums[n][2] += b.values[i] * first;
          sums[n][3] += b.values[i] * second;
        }
      }
    }
  }
}

} // namespace moert::cuda

#endif // MOERT_CUDA_MMA_CUH
