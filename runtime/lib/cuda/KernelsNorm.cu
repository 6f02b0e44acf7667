//===- KernelsNorm.cu - layer and RMS norms -------------------------------===//
//
// Norms are bound by memory. A row is a block of columns of the operands. It is read once and kept in registers if each
// thread needs at most 8 vectors.
//
//===----------------------------------------------------------------------===//
#include "cuda/CudaKernels.h"
#include "cuda/Math.cuh"
#include "cuda/Reduce.cuh"

namespace moert::cuda {
namespace {

/// Division of a row: each of `Threads` threads has `P` vectors of `N` columns. With P = 0, a thread reads its vectors
/// again whenever it needs them.
template <int Threads, int N, int P> struct RowCut {
  static constexpr int kThreadsOfRow = Threads, kWidth = N, kPacks = P;
  using Team = RowTeam<Threads>;

  /// Calls function(p, column) for the thread's vectors.
  template <class Function> __device__ __forceinline__ static void forPacks(int64_t columns, Function function) {
    if constexpr (P == 0) {
      for (int64_t column = int64_t(Team::thread()) * N; column < columns; column += Threads * N)
        function(0, column);
    } else {
#pragma unroll
      for (int p = 0; p < P; ++p)
        if (const int64_t column = (int64_t(p) * Threads + Team::thread()) * N; column < columns)
          function(p, column);
    }
  }
};

/// A thread's vectors of one row.
template <class Cut, class T> class RowPacks {
public:
  using Vector = Pack<T, Cut::kWidth>;

  __device__ __forceinline__ RowPacks(const T *row, int64_t columns) : row(row) {
    if constexpr (Cut::kPacks > 0)
      Cut::forPacks(columns, [&](int p, int64_t column) { packs[p] = loadPack<Cut::kWidth>(row + column); });
  }
  __device__ __forceinline__ Vector get(int p, int64_t column) const {
    if constexpr (Cut::kPacks > 0)
      return packs[p];
    else
      return loadPack<Cut::kWidth>(row + column);
  }

private:
  const T *row;
  Vector packs[Cut::kPacks > 0 ? Cut::kPacks : 1];
};

struct Norm {
  int64_t rows, columns;
  int64_t kind; ///< moert_norm_kind
  double eps;
};

/// Moments of a row: n(x) = (x - mean) * factor.
template <class A> struct Moments {
  A mean, factor;

  __device__ __forceinline__ A normed(A x) const { return (x - mean) * factor; }
};

/// Computes the moments. The variance needs a second pass over registers, because the mean of squares less the squared
/// mean would cancel.
template <class A, class Cut, class T> __device__ Moments<A> momentsOf(const RowPacks<Cut, T> &x, const Norm &norm) {
  if (norm.kind == MOERT_NO_NORM)
    return {0, 1};
  const A size = static_cast<A>(norm.columns);
  A sum = 0, squares = 0;
  if (norm.kind == MOERT_LAYER_NORM) {
    Cut::forPacks(norm.columns, [&](int p, int64_t column) {
      for (T value : x.get(p, column).values)
        sum += convert<A>(value);
    });
    sum = Cut::Team::sum(sum);
  }
  const A mean = sum / size;
  Cut::forPacks(norm.columns, [&](int p, int64_t column) {
    for (T value : x.get(p, column).values) {
      const A deviation = convert<A>(value) - mean;
      squares += deviation * deviation;
    }
  });
  return {mean, 1 / std::sqrt(Cut::Team::sum(squares) / size + static_cast<A>(norm.eps))};
}

/// Normalises rows. `out` may be x: a thread writes only what it alone reads.
template <class Cut, class T>
__global__ void __launch_bounds__(kThreads) normKernel(Norm norm, const T *x, const T *gamma, const T *beta, T *out) {
  using A = Acc<T>;
  constexpr int kWidth = Cut::kWidth;
  for (int64_t row = Cut::Team::first(); row < norm.rows; row += Cut::Team::stride()) {
    const RowPacks<Cut, T> in(x + row * norm.columns, norm.columns);
    const Moments<A> moments = momentsOf<A>(in, norm);
    Cut::forPacks(norm.columns, [&](int p, int64_t column) {
      Pack<T, kWidth> pack = in.get(p, column);
      const Pack<T, kWidth> by = loadPack<kWidth>(gamma + column);
      Pack<T, kWidth> plus = by;
      if (beta)
        plus = loadPack<kWidth>(beta + column);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const A value = moments.normed(convert<A>(pack.values[i])) * convert<A>(by.values[i]);
        pack.values[i] = convert<T>(beta ? value + convert<A>(plus.values[i]) : value);
      }
      storePack(out + row * norm.columns + column, pack);
    });
  }
}

/// Means of h = grads gamma and of n(x) h.
template <class A> struct Means {
  A plain, normed;
};

template <class A, class Cut, class T>
__device__ Means<A> meansOf(const RowPacks<Cut, T> &x, const RowPacks<Cut, T> &grads, const T *gamma,
                            Moments<A> moments, const Norm &norm) {
  if (norm.kind == MOERT_NO_NORM)
    return {0, 0};
  A plain = 0, normed = 0;
  Cut::forPacks(norm.columns, [&](int p, int64_t column) {
    const auto in = x.get(p, column), grad = grads.get(p, column), by = loadPack<Cut::kWidth>(gamma + column);
#pragma unroll
    for (int i = 0; i < Cut::kWidth; ++i) {
      const A h = convert<A>(grad.values[i]) * convert<A>(by.values[i]);
      plain += h;
      normed += h * moments.normed(convert<A>(in.values[i]));
    }
  });
  const A size = static_cast<A>(norm.columns);
  plain = norm.kind == MOERT_LAYER_NORM ? Cut::Team::sum(plain) : A(0);
  return {plain / size, Cut::Team::sum(normed) / size};
}

/// Computes out = factor (h - mean(h) - n mean(h n)), h = grads gamma. An RMS norm leaves out mean(h), and
/// MOERT_NO_NORM both means. `out` may be grads.
template <class Cut, class T>
__global__ void __launch_bounds__(kThreads)
    normGradKernel(Norm norm, const T *x, const T *gamma, const T *grads, T *out) {
  using A = Acc<T>;
  for (int64_t row = Cut::Team::first(); row < norm.rows; row += Cut::Team::stride()) {
    const int64_t first = row * norm.columns;
    const RowPacks<Cut, T> in(x + first, norm.columns), grad(grads + first, norm.columns);
    const Moments<A> moments = momentsOf<A>(in, norm);
    const Means<A> means = meansOf<A>(in, grad, gamma, moments, norm);
    Cut::forPacks(norm.columns, [&](int p, int64_t column) {
      auto gradient = [&](A value, A grad, A by) {
        const A h = grad * by, n = moments.normed(value);
        return moments.factor * (h - means.plain - n * means.normed);
      };
      storePack(out + first + column, mapPacks<T, A>(gradient, in.get(p, column), grad.get(p, column),
                                                     loadPack<Cut::kWidth>(gamma + column)));
    });
  }
}

/// A thread's sums of columns over rows. They are in registers, or in the thread's part of `row` if there are too many.
template <class Cut, class A> class ColumnSums {
public:
  __device__ ColumnSums(A *row, int64_t columns) : row(row) {
    Cut::forPacks(columns, [&](int p, int64_t column) {
      for (int i = 0; i < Cut::kWidth; ++i)
        get(p, column, i) = 0;
    });
  }
  __device__ __forceinline__ A &get(int p, int64_t column, int i) {
    if constexpr (Cut::kPacks > 0)
      return sums[p][i];
    else
      return row[column + i];
  }
  __device__ void store(int64_t columns) {
    if constexpr (Cut::kPacks > 0)
      Cut::forPacks(columns, [&](int p, int64_t column) {
        for (int i = 0; i < Cut::kWidth; ++i)
          row[column + i] = sums[p][i];
      });
  }

private:
  A *row;
  A sums[Cut::kPacks > 0 ? Cut::kPacks : 1][Cut::kWidth];
};

/// Adds up the rows of each team: partial [teams, columns].
template <class Cut, class T>
__global__ void __launch_bounds__(kThreads) normWgradKernel(Norm norm, const T *x, const T *grads, Acc<T> *partial) {
  using A = Acc<T>;
  ColumnSums<Cut, A> sums(partial + Cut::Team::first() * norm.columns, norm.columns);
  for (int64_t row = Cut::Team::first(); row < norm.rows; row += Cut::Team::stride()) {
    const int64_t first = row * norm.columns;
    const RowPacks<Cut, T> in(x + first, norm.columns), grad(grads + first, norm.columns);
    const Moments<A> moments = momentsOf<A>(in, norm);
    Cut::forPacks(norm.columns, [&](int p, int64_t column) {
      const auto values = in.get(p, column), by = grad.get(p, column);
#pragma unroll
      for (int i = 0; i < Cut::kWidth; ++i)
        sums.get(p, column, i) += moments.normed(convert<A>(values.values[i])) * convert<A>(by.values[i]);
    });
  }
  sums.store(norm.columns);
}

template <class B> struct StoreSum {
  const B *addend; ///< may be null
  B *out;

  __device__ void operator()(int64_t, int64_t column, double sum) const {
    out[column] = convert<B>((addend ? convert<double>(addend[column]) : 0.0) + sum);
  }
};

/// Calls function(RowCut()) with the division for rows of `columns` columns. `isAligned` says that they may be accessed
/// by 16 bytes.
template <class T, class Function> Status withCut(int64_t columns, bool isAligned, Function function) {
  constexpr int kWide = kVector<T>;
  const bool isWide = isAligned && columns % kWide == 0;
  const int64_t packs = columns / kWide;
  if (isWide && packs <= 4 * kWarp)
    return function(RowCut<kWarp, kWide, 4>());
  if (isWide && packs <= 4 * kThreads)
    return function(RowCut<kThreads, kWide, 4>());
  if (isWide && packs <= 8 * kThreads)
    return function(RowCut<kThreads, kWide, 8>());
  if (isWide)
    return function(RowCut<kThreads, kWide, 0>());
  if (columns <= 32 * kWarp)
    return function(RowCut<kWarp, 1, 0>());
  return function(RowCut<kThreads, 1, 0>());
}

template <class Cut> Grid cutGrid(const Target &target, const Norm &norm) {
  return gridOf(target, norm.rows * Cut::kThreadsOfRow);
}

} // namespace

Status CudaKernels::runNorm(View x, View gamma, View beta, View out, int64_t kind, double eps) {
  if (x.elements() == 0)
    return {};
  const Norm norm{x.elements() / gamma.dims[0], gamma.dims[0], kind, eps};
  return withFloating(x.dtype, [&]<class T>(Type<T>) {
    const bool isAligned = areAligned(x.as<T>(), gamma.as<T>(), beta.as<T>(), out.as<T>());
    return withCut<T>(norm.columns, isAligned, [&](auto cut) {
      using Cut = decltype(cut);
      return launch(normKernel<Cut, T>, cutGrid<Cut>(target, norm), target, norm, x.as<const T>(), gamma.as<const T>(),
                    beta.as<const T>(), out.as<T>());
    });
  });
}

Status CudaKernels::runNormGrad(View x, View gamma, View grads, View out, int64_t kind, double eps) {
  if (x.elements() == 0)
    return {};
  const Norm norm{x.elements() / gamma.dims[0], gamma.dims[0], kind, eps};
  return withFloating(x.dtype, [&]<class T>(Type<T>) {
    const bool isAligned = areAligned(x.as<T>(), gamma.as<T>(), grads.as<T>(), out.as<T>());
    return withCut<T>(norm.columns, isAligned, [&](auto cut) {
      using Cut = decltype(cut);
      return launch(normGradKernel<Cut, T>, cutGrid<Cut>(target, norm), target, norm, x.as<const T>(),
                    gamma.as<const T>(), grads.as<const T>(), out.as<T>());
    });
  });
}

Status CudaKernels::runNormWgrad(View x, View grads, View addend, View out, int64_t kind, double eps) {
  const Norm norm{x.elements() / out.dims[0], out.dims[0], kind, eps};
  return withFloating(x.dtype, [&]<class T>(Type<T>) {
    return withCut<T>(norm.columns, areAligned(x.as<T>(), grads.as<T>()), [&](auto cut) {
      using Cut = decltype(cut);
      Grid grid = cutGrid<Cut>(target, norm);
      // Few blocks, so that adding up their results takes little time.
      grid.blocks.x = std::min(grid.blocks.x, static_cast<unsigned>(target.device.multiProcessors) * 4);
      const int64_t teams = int64_t(grid.blocks.x) * (kThreads / Cut::kThreadsOfRow);
      Acc<T> *partial = nullptr;
      MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(teams * norm.columns, partial));
      MOERT_RETURN_IF_ERROR(
          launch(normWgradKernel<Cut, T>, grid, target, norm, x.as<const T>(), grads.as<const T>(), partial));
      return withBeside<T>(out.dtype, [&]<class B>(Type<B>) {
        return sumColumns(target, partial, 1, teams, norm.columns, StoreSum<B>{addend.as<const B>(), out.as<B>()});
      });
    });
  });
}

} // namespace moert::cuda
