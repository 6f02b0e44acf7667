//===- KernelsHeads.cu - heads with columns that all share ----------------===//

#include "core/Shapes.h"
#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"

namespace moert::cuda {
namespace {

/// Appends the shared columns to each head. A row is a head of a token.
template <class T> struct AppendColumns {
  const T *x, *shared;
  T *out;
  HeadShape shape;

  __device__ int64_t row(int64_t r) const { return r / shape.heads; }
  template <int N> __device__ void run(int64_t token, int64_t r, int64_t column) const {
    const T *from =
        column < shape.own ? x + r * shape.own + column : shared + token * shape.shared + column - shape.own;
    storePack(out + r * (shape.own + shape.shared) + column, loadPack<N>(from));
  }
};

/// Computes gradients. A row is a token: its heads' own columns, then the shared ones.
template <class T> struct AppendColumnsGrad {
  const T *grads;
  T *gradX, *gradShared;
  HeadShape shape;

  __device__ const T *row(int64_t token) const { return grads + token * shape.heads * (shape.own + shape.shared); }
  template <int N> __device__ void run(const T *from, int64_t token, int64_t column) const {
    const int64_t all = shape.own + shape.shared, owned = shape.heads * shape.own;
    if (column < owned) {
      const int64_t head = column / shape.own;
      storePack(gradX + token * owned + column, loadPack<N>(from + column + head * shape.shared));
      return;
    }
    Pack<Acc<T>, N> sums{};
#pragma unroll 4
    for (int64_t head = 0; head < shape.heads; ++head)
      addTo(sums, loadPack<N>(from + head * all + shape.own + column - owned));
    storePack(gradShared + token * shape.shared + column - owned, convertPack<T>(sums));
  }
};

/// Whether vectors of `width` do not cross from own to shared columns.
bool isCutBy(const HeadShape &shape, int64_t width) { return shape.own % width == 0 && shape.shared % width == 0; }

} // namespace

Status CudaKernels::runAppendToHeads(View x, View shared, View out) {
  const HeadShape shape(x, shared, out);
  return withFloating(out.dtype, [&]<class T>(Type<T>) {
    const AppendColumns<T> append{x.as<const T>(), shared.as<const T>(), out.as<T>(), shape};
    return forRows<kVector<T>>(target, {out.dims[0] * shape.heads}, shape.own + shape.shared,
                               areAligned(x.as<T>(), shared.as<T>(), out.as<T>()) && isCutBy(shape, kVector<T>),
                               append);
  });
}

Status CudaKernels::runAppendToHeadsGrad(View grads, View gradX, View gradShared) {
  const HeadShape shape(gradX, gradShared, grads);
  return withFloating(grads.dtype, [&]<class T>(Type<T>) {
    const AppendColumnsGrad<T> split{grads.as<const T>(), gradX.as<T>(), gradShared.as<T>(), shape};
    return forRows<kVector<T>>(
        target, {grads.dims[0]}, shape.heads * shape.own + shape.shared,
        areAligned(grads.as<T>(), gradX.as<T>(), gradShared.as<T>()) && isCutBy(shape, kVector<T>), split);
  });
}

} // namespace moert::cuda
