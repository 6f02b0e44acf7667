//===- Map.cuh - kernels that work on one element, or row, after the other ===//
//
// Kernels for elements and for rows. They loop over the grid, one vector of 16 bytes for each thread and round, so that
// a full device has enough bytes in flight to keep its memory busy. Loads come before the store, so `out` may be an
// input.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_MAP_CUH
#define MOERT_CUDA_MAP_CUH

#include "cuda/Launch.cuh"
#include "cuda/Types.cuh"

namespace moert::cuda {

/// Number of elements, or rows: `count`, but at most *used * factor if the device knows the number of used ones.
struct Extent {
  int64_t count = 0;
  const int64_t *used = nullptr;
  int64_t factor = 1;

  __device__ int64_t get() const { return used ? *used * factor : count; }
};

__device__ __forceinline__ int64_t globalThread() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int64_t globalThreads() { return int64_t(gridDim.x) * blockDim.x; }

// --- Elements ----------------------------------------------------------------

/// Runs a function on elements: run<N>(i) does the work for N elements from i on.
template <int N, class Function>
__global__ void __launch_bounds__(kThreads) elementsKernel(Extent extent, Function function) {
  const int64_t count = extent.get(), packs = count / N;
  for (int64_t i = globalThread(); i < packs; i += globalThreads())
    function.template run<N>(i * N);
  if constexpr (N > 1)
    for (int64_t i = packs * N + globalThread(); i < count; i += globalThreads())
      function.template run<1>(i);
}

/// Runs `function` on all elements, by vectors of `Width` if `isAligned`: all operands may be accessed by 16 bytes.
template <int Width, class Function>
Status forElements(const Target &target, Extent extent, bool isAligned, Function function) {
  if (extent.count == 0)
    return {};
  return launch(isAligned ? elementsKernel<Width, Function> : elementsKernel<1, Function>,
                gridOf(target, divideUp(extent.count, isAligned ? Width : 1)), target, extent, function);
}

template <class Function, class Out, class In> struct MapOne {
  Function function;
  Out *out;
  const In *in;

  template <int N> __device__ __forceinline__ void run(int64_t at) const {
    storePack(out + at, mapPacks<Out, Acc<Out, In>>(function, loadPack<N>(in + at)));
  }
};

template <class Function, class Out, class First, class Second> struct MapTwo {
  Function function;
  Out *out;
  const First *first;
  const Second *second;

  template <int N> __device__ __forceinline__ void run(int64_t at) const {
    storePack(out + at,
              mapPacks<Out, Acc<Out, First, Second>>(function, loadPack<N>(first + at), loadPack<N>(second + at)));
  }
};

/// Computes out[i] = function(first[i]), or of two operands. The computation is in double if one type is double, and in
/// float otherwise.
template <class Function, class Out, class First>
Status map(const Target &target, Extent extent, Function function, Out *out, const First *first) {
  return forElements<kVector<Out, First>>(target, extent, areAligned(out, first),
                                          MapOne<Function, Out, First>{function, out, first});
}
template <class Function, class Out, class First, class Second>
Status map(const Target &target, Extent extent, Function function, Out *out, const First *first, const Second *second) {
  return forElements<kVector<Out, First, Second>>(target, extent, areAligned(out, first, second),
                                                  MapTwo<Function, Out, First, Second>{function, out, first, second});
}

// --- Rows --------------------------------------------------------------------

/// Runs a function on rows: row(r) returns what all columns of a row share, and run<N>(that, r, column) does the work
/// for N columns.
template <int N, class Function>
__global__ void __launch_bounds__(kThreads) rowsKernel(Extent rows, int64_t columns, Function function) {
  const int64_t count = rows.get();
  for (int64_t row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; row < count;
       row += int64_t(gridDim.x) * blockDim.y) {
    const auto context = function.row(row);
    for (int64_t column = (int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * N; column < columns;
         column += int64_t(gridDim.y) * blockDim.x * N)
      function.template run<N>(context, row, column);
  }
}

/// Grid for rows. A row has few idle threads: short rows share a block, and a few long rows have several blocks each.
inline Grid rowsGrid(const Target &target, int64_t rows, int64_t packs) {
  unsigned width = 1;
  while (width < packs && width < kThreads)
    width *= 2;
  const int64_t most = int64_t(target.device.multiProcessors) * 16;
  const int64_t tall = std::clamp<int64_t>(divideUp(rows, kThreads / width), 1, most);
  const int64_t wide = std::clamp<int64_t>(divideUp(packs, width), 1, std::max<int64_t>(most / tall, 1));
  Grid grid;
  grid.threads = dim3(width, kThreads / width);
  grid.blocks = dim3(static_cast<unsigned>(tall), static_cast<unsigned>(std::min<int64_t>(wide, 0xffff)));
  return grid;
}

/// Runs `function` on all rows of `columns` columns, by vectors of `Width` if `isAligned` (all of its operands may be
/// accessed by 16 bytes) and the columns are a multiple of `Width`.
template <int Width, class Function>
Status forRows(const Target &target, Extent rows, int64_t columns, bool isAligned, Function function) {
  if (rows.count == 0 || columns == 0)
    return {};
  if (Width > 1 && isAligned && columns % Width == 0)
    return launch(rowsKernel<Width, Function>, rowsGrid(target, rows.count, columns / Width), target, rows, columns,
                  function);
  return launch(rowsKernel<1, Function>, rowsGrid(target, rows.count, columns), target, rows, columns, function);
}

} // namespace moert::cuda

#endif // MOERT_CUDA_MAP_CUH
