//===- KernelsDropout.cu - dropout ----------------------------------------===//

#include "core/Positions.h"
#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Philox.cuh"

namespace moert::cuda {
namespace {

/// Applies dropout to rows. x begins at (`firstRow`, `firstColumn`) of the whole value.
template <class T, class Mask> struct DropRows {
  const T *x;
  T *out;
  const int32_t *step;
  int64_t seed, columns, firstRow, firstColumn;
  double p;
  SequenceOrder order; ///< order of the rows of divided sequences

  __device__ Mask row(int64_t) const { return Mask(seed, *step, p); }
  /// Drops N columns. If N > 1, the first column is a multiple of 4 in the whole value.
  template <int N> __device__ void run(const Mask &mask, int64_t r, int64_t column) const {
    using A = Acc<T>;
    Pack<T, N> pack = loadPack<N>(x + r * columns + column);
    const int64_t at = firstColumn + column;
    const int64_t place = order.parts > 1 ? wholeRow(order, firstRow + r) : firstRow + r;
#pragma unroll
    for (int block = 0; block < (N + 3) / 4; ++block) {
      const DropoutWords words = dropoutWords(mask, place, at / 4 + block);
#pragma unroll
      for (int i = 4 * block; i < 4 * (block + 1) && i < N; ++i) {
        const uint32_t word = words.at(N == 1 ? static_cast<int>(at % 4) : i % 4);
        pack.values[i] = convert<T>(mask.template factor<A>(word) * convert<A>(pack.values[i]));
      }
    }
    storePack(out + r * columns + column, pack);
  }
};

} // namespace

Status CudaKernels::runDropout(View x, View step, View out, int64_t seed, Part rows, Part columns, Noise noise,
                               SequenceOrder order) {
  const int64_t firstColumn = columns.index() * x.dims[1];
  return withFloating(x.dtype, [&]<class T>(Type<T>) {
    auto run = [&]<class Mask>(Type<Mask>) {
      const DropRows<T, Mask> drop{x.as<const T>(),
                                   out.as<T>(),
                                   step.as<const int32_t>(),
                                   seed,
                                   x.dims[1],
                                   rows.index() * x.dims[0],
                                   firstColumn,
                                   noise.p,
                                   order};
      // A block of random words covers 4 columns.
      constexpr int kWidth = std::max(kVector<T>, 4);
      const bool isAligned = areAligned(x.as<T>(), out.as<T>()) && firstColumn % 4 == 0;
      return forRows<kWidth>(target, {x.dims[0]}, x.dims[1], isAligned, drop);
    };
    return noise.jitter ? run(Type<JitterMask>()) : run(Type<DropoutMask>());
  });
}

} // namespace moert::cuda
