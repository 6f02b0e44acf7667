//===- KernelsBias.cu - biases of experts and their gradients -------------===//

#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Ragged.cuh"

namespace moert::cuda {
namespace {

int64_t columnsOf(View view) { return view.dims[static_cast<size_t>(view.rank) - 1]; }

/// Rows of the experts in the three forms of moert_bias_add. The plain form has a single expert. `offsets` is used if
/// there are counts.
ExpertRows expertRows(View rows, View counts, const int64_t *offsets) {
  if (counts)
    return {counts.dims[1], 0, offsets};
  return rows.rank == 3 ? ExpertRows{rows.dims[0], rows.dims[1]} : ExpertRows{1, rows.dims[0]};
}

int64_t expertCount(View rows, View counts) { return expertRows(rows, counts, nullptr).experts; }

template <class T, class B> struct AddBias {
  const T *rows;
  const B *bias;
  T *out;
  int64_t columns;
  double scale;
  ExpertRows experts;

  __device__ const B *row(int64_t r) const { return bias + experts.expertOf(r) * columns; }
  template <int N> __device__ void run(const B *ofExpert, int64_t r, int64_t column) const {
    using A = Acc<T, B>;
    const int64_t at = r * columns + column;
    auto add = [&](A value, A added) { return value + static_cast<A>(scale) * added; };
    storePack(out + at, mapPacks<T, A>(add, loadPack<N>(rows + at), loadPack<N>(ofExpert + column)));
  }
};

// --- Gradients ---------------------------------------------------------------
// The rows of each expert are divided into equal parts. A second kernel adds the sums of the parts in their order.

constexpr int kTall = kThreads / kWarp;

/// Sums a part: each warp takes every kTall-th row of it, and each lane N columns. The result is partial [E, parts,
/// columns].
template <int N, class T>
__global__ void __launch_bounds__(kThreads)
    partSumsKernel(const T *grads, ExpertRows experts, int64_t columns, double *partial) {
  __shared__ double sums[kTall][kWarp * N];
  const int64_t expert = blockIdx.z, part = blockIdx.y, parts = gridDim.y;
  const int64_t begin = experts.begin(expert), count = experts.end(expert) - begin;
  const int64_t last = begin + count * (part + 1) / parts, column = (int64_t(blockIdx.x) * kWarp + threadIdx.x) * N;
  Pack<double, N> sum{};
  if (column < columns)
#pragma unroll 4
    for (int64_t row = begin + count * part / parts + threadIdx.y; row < last; row += kTall)
      addTo(sum, loadPack<N>(grads + row * columns + column));
#pragma unroll
  for (int i = 0; i < N; ++i)
    sums[threadIdx.y][i * kWarp + threadIdx.x] = sum.values[i];
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns)
    return;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    double total = 0;
    for (int y = 0; y < kTall; ++y)
      total += sums[y][i * kWarp + threadIdx.x];
    partial[(expert * parts + part) * columns + column + i] = total;
  }
}

template <class B> struct AddParts {
  const double *partial;
  const B *addend; ///< may be null
  B *out;
  int64_t parts, columns;
  double scale;

  __device__ const double *row(int64_t expert) const { return partial + expert * parts * columns; }
  template <int N> __device__ void run(const double *ofExpert, int64_t expert, int64_t column) const {
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part)
      sum += ofExpert[part * columns + column];
    const int64_t at = expert * columns + column;
    out[at] = convert<B>((addend ? convert<double>(addend[at]) : 0.0) + scale * sum);
  }
};

/// Columns of a lane: a vector if that is possible.
int64_t laneColumns(View grads) {
  const auto vector = static_cast<int64_t>(16 / dtypeSize(grads.dtype));
  return areAligned(grads.as<char>()) && columnsOf(grads) % vector == 0 ? vector : 1;
}

/// Grid with a block for each expert, part and column group of a warp. There are enough parts, of at least 64 rows
/// each, to keep the device busy.
Grid partSumsGrid(const Target &target, View grads, int64_t experts) {
  const int64_t columns = columnsOf(grads), rows = grads.elements() / columns;
  const int64_t tiles = divideUp(columns, kWarp * laneColumns(grads)),
                busy = int64_t(target.device.multiProcessors) * 8;
  const int64_t most = std::clamp<int64_t>(divideUp(rows, 64), 1, 0xffff);
  Grid grid;
  grid.threads = dim3(kWarp, kTall);
  grid.blocks =
      dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(std::clamp<int64_t>(busy / (tiles * experts), 1, most)),
           static_cast<unsigned>(experts));
  return grid;
}

} // namespace

Status CudaKernels::runBiasAdd(View rows, View bias, View counts, View out, double scale) {
  const int64_t columns = columnsOf(rows), experts = expertCount(rows, counts);
  const int64_t *offsets = nullptr;
  MOERT_RETURN_IF_ERROR(expertOffsets(target, counts, rows.dims[0], offsets));
  if (rows.elements() == 0 || experts == 0)
    return {};
  const Extent extent{rows.elements() / columns, offsets ? offsets + experts : nullptr};
  return withFloating(rows.dtype, bias.dtype, [&]<class T, class B>(Type<T>, Type<B>) {
    const AddBias<T, B> addBias{
        rows.as<const T>(), bias.as<const B>(), out.as<T>(), columns, scale, expertRows(rows, counts, offsets)};
    return forRows<kVector<T, B>>(target, extent, columns, areAligned(rows.as<T>(), bias.as<B>(), out.as<T>()),
                                  addBias);
  });
}

Status CudaKernels::runBiasGrad(View grads, View counts, View addend, View out, double scale) {
  const int64_t columns = columnsOf(grads), experts = expertCount(grads, counts);
  if (out.elements() == 0)
    return {};
  const Grid grid = partSumsGrid(target, grads, experts);
  const int64_t parts = grid.blocks.y;
  double *partial = nullptr;
  MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(experts * parts * columns, partial));
  const int64_t *offsets = nullptr;
  MOERT_RETURN_IF_ERROR(expertOffsets(target, counts, grads.dims[0], offsets));
  return withFloating(grads.dtype, [&]<class T>(Type<T>) {
    auto *kernel = laneColumns(grads) > 1 ? partSumsKernel<kVector<T>, T> : partSumsKernel<1, T>;
    MOERT_RETURN_IF_ERROR(
        launch(kernel, grid, target, grads.as<const T>(), expertRows(grads, counts, offsets), columns, partial));
    return withBeside<T>(out.dtype, [&]<class B>(Type<B>) {
      const AddParts<B> addParts{partial, addend.as<const B>(), out.as<B>(), parts, columns, scale};
      return forRows<1>(target, {experts}, columns, false, addParts);
    });
  });
}

} // namespace moert::cuda
