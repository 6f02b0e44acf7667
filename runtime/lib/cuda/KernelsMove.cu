//===- KernelsMove.cu - copies of values and of their parts ---------------===//

#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"

namespace moert::cuda {
namespace {

/// Source of block b: block b / divisor * factor + offset.
struct BlockOrder {
  int64_t divisor = 1, factor = 1, offset = 0;
};

template <class Unit> struct CopyBlocks {
  const Unit *in;
  Unit *out;
  int64_t units; ///< units of a block
  BlockOrder order;

  __device__ const Unit *row(int64_t block) const {
    return in + (block / order.divisor * order.factor + order.offset) * units;
  }
  template <int N> __device__ void run(const Unit *from, int64_t block, int64_t column) const {
    out[block * units + column] = from[column];
  }
};

/// Copies `blocks` blocks of `bytes` bytes to out, by the widest accesses that fit.
Status copyBlocks(const Target &target, View in, View out, int64_t blocks, int64_t bytes, BlockOrder order) {
  const uintptr_t all =
      static_cast<uintptr_t>(bytes) | reinterpret_cast<uintptr_t>(in.data) | reinterpret_cast<uintptr_t>(out.data);
  return withWidestUnit(all, [&]<class Unit>(Type<Unit>) {
    const int64_t units = bytes / static_cast<int64_t>(sizeof(Unit));
    const CopyBlocks<Unit> copy{in.as<const Unit>(), out.as<Unit>(), units, order};
    return forRows<1>(target, {blocks}, units, false, copy);
  });
}

/// Reduces in [outer, parts, inner] to out [outer, inner], in the order of the parts.
template <class T> struct ReduceMiddle {
  const T *in;
  T *out;
  int64_t parts, inner;

  __device__ const T *row(int64_t outer) const { return in + outer * parts * inner; }
  template <int N> __device__ void run(const T *from, int64_t outer, int64_t column) const {
    Pack<Acc<T>, N> sum{};
#pragma unroll 4
    for (int64_t p = 0; p < parts; ++p)
      addTo(sum, loadPack<N>(from + p * inner + column));
    storePack(out + outer * inner + column, convertPack<T>(sum));
  }
};

int64_t outerOf(View view, int64_t dim) {
  int64_t result = 1;
  for (int64_t i = 0; i < dim; ++i)
    result *= view.dims[static_cast<size_t>(i)];
  return result;
}

} // namespace

Status CudaKernels::runCopy(View in, View out) {
  return copyBytes(target.stream.stream, out.data, in.data, in.bytes());
}

Status CudaKernels::runSlice(View in, View out, int64_t dim, int64_t index, int64_t size) {
  if (out.elements() == 0)
    return {};
  const int64_t outer = outerOf(in, dim);
  return copyBlocks(target, in, out, outer, out.bytes() / outer, {1, size, index});
}

Status CudaKernels::runDump(View in, View out, int64_t dim, int64_t blocks) {
  if (out.elements() == 0)
    return {};
  const int64_t outer = outerOf(in, dim) * blocks, copies = out.elements() / in.elements();
  return copyBlocks(target, in, out, outer * copies, in.bytes() / outer, {copies, 1, 0});
}

Status CudaKernels::runLocalReduce(View in, View out, int64_t dim, int64_t blocks) {
  if (out.elements() == 0)
    return {};
  const int64_t outer = outerOf(out, dim) * blocks, inner = out.elements() / outer;
  const int64_t parts = in.elements() / out.elements();
  return withFloating(in.dtype, [&]<class T>(Type<T>) {
    const ReduceMiddle<T> reduce{in.as<const T>(), out.as<T>(), parts, inner};
    return forRows<kVector<T>>(target, {outer}, inner, areAligned(in.as<T>(), out.as<T>()), reduce);
  });
}

} // namespace moert::cuda
