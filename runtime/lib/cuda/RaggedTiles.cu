//===- RaggedTiles.cu - ragged products by tiles --------------------------===//
//
// A block computes a tile of 128 x 128 of one expert's product by tensor cores (mma.m16n8k16, compute capability 8.0
// and higher). Blocks find their expert on the device. Slices of the operands come through three buffers in shared
// memory.
//
//===----------------------------------------------------------------------===//

#include "cuda/Mma.cuh"
#include "cuda/RaggedProducts.h"
#include "cuda/Reduce.cuh"

namespace moert::cuda {
namespace {

constexpr int kTileRows = 128, kTileColumns = 128, kDepth = 32, kBuffers = 3;
constexpr int kWarpRows = 32, kWarpColumns = 64; ///< part of a tile for each of the 8 warps
constexpr int kRowParts = kWarpRows / kMmaRows, kColumnParts = kWarpColumns / 8;
static_assert(kTileRows / kWarpRows * (kTileColumns / kWarpColumns) == kThreads / kWarp);

using WarpSums = float[kRowParts][kColumnParts][4];

/// Operand of one expert. `outer` is the dimension that is not contracted.
template <class T> struct Side {
  const T *data;
  int64_t outer, depth;
};

/// Slice of an operand in shared memory: [outer][depth], or [depth][outer] for an operand of that order.
template <class T, int Outer, bool IsDepthMajor> struct Slice {
  static constexpr int kRows = IsDepthMajor ? kDepth : Outer, kColumns = IsDepthMajor ? Outer : kDepth;
  static constexpr int kPitch = pitchOf<T>(kColumns), kElements = kRows * kPitch;

  /// Begins to load the slice whose first element is (first, depth).
  __device__ static void load(T *to, const Side<T> &from, int64_t first, int64_t depth, bool isAligned) {
    constexpr int V = kVector<T>, kPacks = kColumns / V;
    const int64_t rows = IsDepthMajor ? from.depth : from.outer, columns = IsDepthMajor ? from.outer : from.depth;
    const int64_t row0 = IsDepthMajor ? depth : first, column0 = IsDepthMajor ? first : depth;
    for (int i = threadIdx.x; i < kRows * kPacks; i += kThreads) {
      const int64_t row = row0 + i / kPacks, column = column0 + i % kPacks * V;
      const int64_t left = row < rows ? columns - column : 0;
      stageVector(to + i / kPacks * kPitch + i % kPacks * V, from.data + row * columns + column, left, isAligned,
                  from.data);
    }
  }
  /// Address that a lane gives loadMatrices for 16 x 16 elements from (outer, depth) on. The first of four matrices has
  /// rows in the left operand, and columns in the right one.
  template <bool IsLeft> __device__ static const T *place(const T *tile, int outer, int depth) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp, low = lane % 8, first = lane / 8 % 2 * 8,
              second = lane / 16 * 8;
    const int atOuter = outer + (IsLeft ? first : second), atDepth = depth + (IsLeft ? second : first);
    return IsDepthMajor ? tile + (atDepth + low) * kPitch + atOuter : tile + (atOuter + low) * kPitch + atDepth;
  }
};

/// sums += the warp's part of the product of two slices.
template <class T, class Left, class Right, bool IsLeftDepthMajor, bool IsRightDepthMajor>
__device__ __forceinline__ void multiplySlices(WarpSums &sums, const T *left, const T *right, int row, int column) {
#pragma unroll
  for (int depth = 0; depth < kDepth; depth += 16) {
    uint32_t ofLeft[kRowParts][4];
#pragma unroll
    for (int r = 0; r < kRowParts; ++r)
      loadMatrices<IsLeftDepthMajor>(ofLeft[r], Left::template place<true>(left, row + r * kMmaRows, depth));
#pragma unroll
    for (int c = 0; c < kColumnParts; c += 2) {
      uint32_t ofRight[4];
      loadMatrices<IsRightDepthMajor>(ofRight, Right::template place<false>(right, column + 8 * c, depth));
#pragma unroll
      for (int r = 0; r < kRowParts; ++r)
        multiplyTiles<T>(sums[r][c], sums[r][c + 1], ofLeft[r], ofRight);
    }
  }
}

/// Stores a warp's part of a tile of c [rows, columns].
template <class C>
__device__ __forceinline__ void storeSums(const WarpSums &sums, C *c, int64_t rows, int64_t columns, int64_t row,
                                          int64_t column, bool accumulate) {
#pragma unroll
  for (int r = 0; r < kRowParts; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t at = row + r * kMmaRows + laneRow() + 8 * half;
      if (at >= rows)
        continue;
#pragma unroll
      for (int n = 0; n < kColumnParts; ++n) {
        const int64_t first = column + 8 * n + laneColumn();
        C *to = c + at * columns + first;
        float low = sums[r][n][2 * half], high = sums[r][n][2 * half + 1];
        if (accumulate && first < columns)
          low += convert<float>(to[0]);
        if (accumulate && first + 1 < columns)
          high += convert<float>(to[1]);
        if (first < columns)
          storePair(to, convert<C>(low), convert<C>(high), first + 1 < columns);
      }
    }
}

template <class T, class C = T> struct Work {
  const T *a, *b;
  C *c;
  const int64_t *offsets;
  int64_t experts, n, k;
  bool accumulate, isAligned;
};

/// Computes the tile of c at (row, column) for one expert.
template <class T, class Left, class Right, bool IsLeftDepthMajor, bool IsRightDepthMajor, class C>
__device__ __forceinline__ void computeTile(const Side<T> &a, const Side<T> &b, C *c, int64_t row, int64_t column,
                                            bool accumulate, bool isAligned) {
  T *left = sharedMemory<T>(), *right = left + kBuffers * Left::kElements;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warpRow = warp / (kTileColumns / kWarpColumns) * kWarpRows,
            warpColumn = warp % (kTileColumns / kWarpColumns) * kWarpColumns;
  WarpSums sums{};
  const int64_t steps = (a.depth + kDepth - 1) / kDepth;
  auto load = [&](int64_t step) {
    if (step < steps) {
      const int buffer = static_cast<int>(step % kBuffers);
      Left::load(left + buffer * Left::kElements, a, row, step * kDepth, isAligned);
      Right::load(right + buffer * Right::kElements, b, column, step * kDepth, isAligned);
    }
    __pipeline_commit();
  };
  for (int step = 0; step < kBuffers - 1; ++step)
    load(step);
  for (int64_t step = 0; step < steps; ++step) {
    __pipeline_wait_prior(kBuffers - 2);
    // All threads have this slice, and are done with the one whose buffer is filled next.
    __syncthreads();
    load(step + kBuffers - 1);
    const int buffer = static_cast<int>(step % kBuffers);
    multiplySlices<T, Left, Right, IsLeftDepthMajor, IsRightDepthMajor>(
        sums, left + buffer * Left::kElements, right + buffer * Right::kElements, warpRow, warpColumn);
  }
  storeSums(sums, c, a.outer, b.outer, row + warpRow, column + warpColumn, accumulate);
  __pipeline_wait_prior(0);
  __syncthreads();
}

/// Finds the expert of tile number `tile` among all tiles of rows, and the number of the tile within the expert.
/// Returns false behind the last tile.
__device__ bool findTile(const int64_t *offsets, int64_t experts, int64_t tile, int64_t &expert, int64_t &ofExpert) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int64_t before = 0;
  for (int64_t first = 0; first < experts; first += kWarp) {
    const int64_t mine = first + lane;
    const int tiles =
        mine < experts ? static_cast<int>((offsets[mine + 1] - offsets[mine] + kTileRows - 1) / kTileRows) : 0;
    int upTo = tiles;
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const int others = __shfl_up_sync(kFullMask, upTo, distance);
      upTo += lane >= distance ? others : 0;
    }
    const unsigned found = __ballot_sync(kFullMask, before + upTo > tile);
    if (found) {
      const int owner = __ffs(static_cast<int>(found)) - 1;
      expert = first + owner;
      ofExpert = tile - before - __shfl_sync(kFullMask, upTo - tiles, owner);
      return true;
    }
    before += __shfl_sync(kFullMask, upTo, kWarp - 1);
  }
  return false;
}

/// Computes c [R,n]. The blocks of one column of the grid take the tiles of rows one after the other.
template <class T, bool IsTransposed> __global__ void __launch_bounds__(kThreads) forwardTilesKernel(Work<T> work) {
  using Left = Slice<T, kTileRows, false>;
  using Right = Slice<T, kTileColumns, !IsTransposed>;
  int64_t expert = 0, tile = 0;
  for (int64_t i = blockIdx.y; findTile(work.offsets, work.experts, i, expert, tile); i += gridDim.y) {
    const int64_t begin = work.offsets[expert], rows = work.offsets[expert + 1] - begin;
    computeTile<T, Left, Right, false, !IsTransposed>(
        {work.a + begin * work.k, rows, work.k}, {work.b + expert * work.k * work.n, work.n, work.k},
        work.c + begin * work.n, tile * kTileRows, int64_t(blockIdx.x) * kTileColumns, work.accumulate, work.isAligned);
  }
}

/// Computes c [E,k,n] with a block for each tile. Without rows the sums are zero.
template <class T, class C> __global__ void __launch_bounds__(kThreads) weightTilesKernel(Work<T, C> work) {
  using Left = Slice<T, kTileRows, true>;
  using Right = Slice<T, kTileColumns, true>;
  for (int64_t expert = blockIdx.z; expert < work.experts; expert += gridDim.z) {
    const int64_t begin = work.offsets[expert], rows = work.offsets[expert + 1] - begin;
    computeTile<T, Left, Right, true, true>({work.a + begin * work.k, work.k, rows},
                                            {work.b + begin * work.n, work.n, rows}, work.c + expert * work.k * work.n,
                                            int64_t(blockIdx.y) * kTileRows, int64_t(blockIdx.x) * kTileColumns,
                                            work.accumulate, work.isAligned);
  }
}

template <class T, bool IsLeftDepthMajor, bool IsRightDepthMajor> constexpr int64_t sharedBytes() {
  return kBuffers *
         (Slice<T, kTileRows, IsLeftDepthMajor>::kElements + Slice<T, kTileColumns, IsRightDepthMajor>::kElements) *
         static_cast<int64_t>(sizeof(T));
}

template <class T, class C> Work<T, C> workOf(const RaggedProduct &product, const int64_t *offsets) {
  const auto *a = static_cast<const T *>(product.a), *b = static_cast<const T *>(product.b);
  auto *c = static_cast<C *>(product.c);
  const bool isAligned = areAligned(a, b, c) && product.n % kVector<T> == 0 && product.k % kVector<T> == 0;
  return {a, b, c, offsets, product.experts, product.n, product.k, product.accumulate, isAligned};
}

template <class T, class C>
Status launchWeightTiles(const Target &target, const RaggedProduct &product, const int64_t *offsets) {
  Grid grid{.sharedBytes = sharedBytes<T, true, true>()};
  grid.blocks.x = static_cast<unsigned>(divideUp(product.n, kTileColumns));
  grid.blocks.y = static_cast<unsigned>(divideUp(product.k, kTileRows));
  grid.blocks.z = static_cast<unsigned>(std::min<int64_t>(product.experts, 0xffff));
  return launch(weightTilesKernel<T, C>, grid, target, workOf<T, C>(product, offsets));
}

template <class T> Status launchTiles(const Target &target, const RaggedProduct &product, const int64_t *offsets) {
  if (product.isWeightGradient())
    return product.isWide ? launchWeightTiles<T, float>(target, product, offsets)
                          : launchWeightTiles<T, T>(target, product, offsets);
  const Work<T> work = workOf<T, T>(product, offsets);
  Grid grid;
  grid.blocks.x = static_cast<unsigned>(divideUp(product.n, kTileColumns));
  grid.blocks.y = static_cast<unsigned>(
      std::min<int64_t>(product.rows / kTileRows + std::min(product.experts, product.rows), 0xffff));
  grid.sharedBytes = product.transposeB ? sharedBytes<T, false, false>() : sharedBytes<T, false, true>();
  return launch(product.transposeB ? forwardTilesKernel<T, true> : forwardTilesKernel<T, false>, grid, target, work);
}

} // namespace

bool canUseTiles(const RaggedProduct &product) {
  return isNarrow(product.dtype) && divideUp(product.k, kTileRows) <= 0xffff;
}

Status multiplyByTiles(const Target &target, const RaggedProduct &product, const int64_t *offsets) {
  if (product.dtype == MOERT_BF16)
    return launchTiles<Bf16>(target, product, offsets);
  return launchTiles<Half>(target, product, offsets);
}

} // namespace moert::cuda
