//===- ColumnSums.cuh - the sums of columns over parts --------------------===//
//
// Second halves of sums over many rows, of which first ones leave a row for each part.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_COLUMNSUMS_CUH
#define MOERT_CUDA_COLUMNSUMS_CUH

#include "cuda/Launch.cuh"

namespace moert::cuda {

/// Calls finish(row, column, sum over the parts of row) for partial [rows, parts, columns]. Sums are in double, in a
/// fixed order. A block takes 32 columns, and each of its strips sums some of the parts.
template <class P, class Finish>
__global__ void __launch_bounds__(kThreads)
    columnSumsKernel(const P *partial, int64_t rows, int64_t parts, int64_t columns, Finish finish) {
  constexpr int kStrips = kThreads / kWarp;
  __shared__ double sums[kStrips][kWarp];
  const int64_t tiles = (columns + kWarp - 1) / kWarp;
  for (int64_t i = blockIdx.x; i < rows * tiles; i += gridDim.x) {
    const int64_t row = i / tiles, column = i % tiles * kWarp + threadIdx.x;
    const int64_t begin = parts * threadIdx.y / kStrips, end = parts * (threadIdx.y + 1) / kStrips;
    double sum = 0;
    if (column < columns)
#pragma unroll 8
      for (int64_t part = begin; part < end; ++part)
        sum += partial[(row * parts + part) * columns + column];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    double total = 0;
    for (int y = 0; y < kStrips; ++y)
      total += sums[y][threadIdx.x];
    if (threadIdx.y == 0 && column < columns)
      finish(row, column, total);
    __syncthreads();
  }
}

template <class P, class Finish>
Status sumColumns(const Target &target, const P *partial, int64_t rows, int64_t parts, int64_t columns, Finish finish) {
  Grid grid = gridOf(target, rows * divideUp(columns, kWarp) * kThreads);
  grid.threads = dim3(kWarp, kThreads / kWarp);
  return launch(columnSumsKernel<P, Finish>, grid, target, partial, rows, parts, columns, finish);
}

} // namespace moert::cuda

#endif // MOERT_CUDA_COLUMNSUMS_CUH
