//===- KernelsLoss.cu - the cross entropy of labels and logits ------------===//
//
// The logits are by far the largest value of a step. Each call reads them once.
//
//===----------------------------------------------------------------------===//
#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Math.cuh"
#include "cuda/Reduce.cuh"

namespace moert::cuda {
namespace {

// --- Logarithms of sums of exponentials --------------------------------------

/// A sum of exp(x - largest) that follows the largest x seen. The maximum ignores NaNs, which still reach the sum.
template <class A> struct RunningSum {
  A largest = -kInfinity<A>, sum = 0;

  /// Number that is subtracted from x. Infinities stay themselves.
  __device__ A reference() const { return std::isinf(largest) ? A(0) : largest; }

  template <class T, int N> __device__ void add(const Pack<T, N> &pack) {
    A most = largest;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const A x = convert<A>(pack.values[i]);
      most = x > most ? x : most;
    }
    moveTo(most);
    const A from = reference();
#pragma unroll
    for (int i = 0; i < N; ++i)
      sum += expOrZero(convert<A>(pack.values[i]) - from);
  }
  __device__ void moveTo(A most) {
    if (most > largest)
      sum *= std::exp(largest - most);
    largest = most;
  }
  __device__ A logarithm() const { return std::isinf(largest) && sum == sum ? largest : largest + std::log(sum); }
};

template <int Threads, int N, class T, class O>
__global__ void __launch_bounds__(kThreads) logsumexpKernel(const T *x, O *out, int64_t rows, int64_t columns) {
  using A = Acc<T, O>;
  using Team = RowTeam<Threads>;
  for (int64_t s = Team::first(); s < rows; s += Team::stride()) {
    const T *row = x + s * columns;
    RunningSum<A> running;
#pragma unroll 4
    for (int64_t column = int64_t(Team::thread()) * N; column < columns; column += Threads * N)
      running.add(loadPack<N>(row + column));
    running.moveTo(Team::largest(running.largest));
    running.sum = Team::sum(running.sum);
    if (Team::thread() == 0)
      out[s] = convert<O>(running.logarithm());
  }
}

/// Computes the sums. A short row has a warp, a long one a block.
template <int N, class T, class O>
Status logsumexp(const Target &target, const T *x, O *out, int64_t rows, int64_t columns) {
  if (columns <= 32 * kWarp)
    return launch(logsumexpKernel<kWarp, N, T, O>, gridOf(target, rows * kWarp), target, x, out, rows, columns);
  return launch(logsumexpKernel<kThreads, N, T, O>, gridOf(target, rows * kThreads), target, x, out, rows, columns);
}

/// Logarithm of the sum of a row, and its gradient.
template <class A> struct LseOfRow {
  A lse, grad;
};

template <class T, class O> struct LogsumexpGrad {
  using A = Acc<T, O>;
  const T *x;
  const O *lse, *grads;
  T *out;
  int64_t columns;

  __device__ LseOfRow<A> row(int64_t s) const { return {convert<A>(lse[s]), convert<A>(grads[s])}; }
  template <int N> __device__ void run(LseOfRow<A> of, int64_t s, int64_t column) const {
    const int64_t at = s * columns + column;
    auto gradient = [=](A value) { return of.grad * expOrZero(value - of.lse); };
    storePack(out + at, mapPacks<T, A>(gradient, loadPack<N>(x + at)));
  }
};

// --- Labels ------------------------------------------------------------------

/// Columns of the rows' labels in a part of the vocabulary.
struct LabelColumns {
  const int32_t *labels;
  int64_t rows, columns, first, end; ///< columns before the part, and in total
  FaultSite site;

  LabelColumns(const Target &target, View labels, int64_t columns, Part part)
      : labels(labels.as<const int32_t>()), rows(labels.dims[0]), columns(columns), first(part.index() * columns),
        end(part.parts * columns), site(target.faults()) {}

  /// Column of the row's label, or -1 if the part does not have it.
  __device__ int64_t get(int64_t row) const {
    const int64_t label = labels[row], column = label - first;
    if (label >= end)
      raise(site, FaultKind::LabelRange, end, label, row);
    return label >= 0 && column >= 0 && column < columns ? column : -1;
  }
};

template <class T, class O> struct Pick {
  LabelColumns labels;
  const T *x;
  O *out;

  template <int N> __device__ void run(int64_t s) const {
    const int64_t column = labels.get(s);
    out[s] = column < 0 ? convert<O>(0.0f) : convert<O>(x[s * labels.columns + column]);
  }
};

template <class T, class O> struct PickGrad {
  LabelColumns labels;
  const O *grads;
  T *out;

  template <int N> __device__ void run(int64_t s) const {
    using A = Acc<T, O>;
    const int64_t column = labels.get(s);
    if (column >= 0) {
      T &to = out[s * labels.columns + column];
      to = convert<T>(convert<A>(to) + convert<A>(grads[s]));
    }
  }
};

/// Summand of a row that has a label: its number, or 1.
template <class T> struct LabelledRows {
  const T *rows; ///< may be null
  const int32_t *labels;

  __device__ double get(int64_t s) const { return labels[s] < 0 ? 0 : rows ? convert<double>(rows[s]) : 1; }
};

/// Sums each block's rows, in double.
template <class T>
__global__ void __launch_bounds__(kThreads) labelSumsKernel(LabelledRows<T> rows, int64_t count, double *partial) {
  double sum = 0;
  for (int64_t s = globalThread(); s < count; s += globalThreads())
    sum += rows.get(s);
  sum = blockSum(sum);
  if (threadIdx.x == 0)
    partial[blockIdx.x] = sum;
}

template <class T, class O> Status sumLabelled(const Target &target, LabelledRows<T> rows, int64_t count, O *sum) {
  const Grid grid = gridOf(target, count);
  double *partial = nullptr;
  MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(int64_t(grid.blocks.x), partial));
  MOERT_RETURN_IF_ERROR(launch(labelSumsKernel<T>, grid, target, rows, count, partial));
  return sumTo(target, partial, grid.blocks.x, sum);
}

template <class T> struct LabelSumGrad {
  const int32_t *labels;
  const T *grad;
  T *out;

  template <int N> __device__ void run(int64_t s) const { out[s] = labels[s] >= 0 ? *grad : convert<T>(0.0f); }
};

} // namespace

Status CudaKernels::runRowLogsumexp(View x, View out) {
  const int64_t rows = x.dims[0], columns = x.dims[1];
  if (rows == 0)
    return {};
  return withFloating(x.dtype, out.dtype, [&]<class T, class O>(Type<T>, Type<O>) {
    auto *to = out.as<O>();
    if (areAligned(x.as<T>()) && columns % kVector<T> == 0)
      return logsumexp<kVector<T>>(target, x.as<const T>(), to, rows, columns);
    return logsumexp<1>(target, x.as<const T>(), to, rows, columns);
  });
}

Status CudaKernels::runRowLogsumexpGrad(View x, View lse, View grads, View out) {
  return withFloating(x.dtype, lse.dtype, [&]<class T, class O>(Type<T>, Type<O>) {
    const LogsumexpGrad<T, O> function{x.as<const T>(), lse.as<const O>(), grads.as<const O>(), out.as<T>(), x.dims[1]};
    return forRows<kVector<T>>(target, {x.dims[0]}, x.dims[1], areAligned(x.as<T>(), out.as<T>()), function);
  });
}

Status CudaKernels::runPick(View x, View labels, View out, Part part) {
  return withFloating(x.dtype, out.dtype, [&]<class T, class O>(Type<T>, Type<O>) {
    const Pick<T, O> function{LabelColumns(target, labels, x.dims[1], part), x.as<const T>(), out.as<O>()};
    return forElements<1>(target, {x.dims[0]}, false, function);
  });
}

Status CudaKernels::runPickGrad(View labels, View grads, View addend, View out, Part part) {
  if (out.elements() == 0)
    return {};
  cudaStream_t stream = target.stream.stream;
  MOERT_RETURN_IF_ERROR(addend ? copyBytes(stream, out.data, addend.data, out.bytes(), "cannot copy gradients")
                               : clearBytes(stream, out.data, out.bytes(), "cannot clear gradients"));
  return withFloating(out.dtype, grads.dtype, [&]<class T, class O>(Type<T>, Type<O>) {
    const PickGrad<T, O> function{LabelColumns(target, labels, out.dims[1], part), grads.as<const O>(), out.as<T>()};
    return forElements<1>(target, {out.dims[0]}, false, function);
  });
}

Status CudaKernels::runLabelSum(View rows, View labels, View sum) {
  return withFloating(rows.dtype, sum.dtype, [&]<class T, class O>(Type<T>, Type<O>) {
    const LabelledRows<T> labelled{rows.as<const T>(), labels.as<const int32_t>()};
    return sumLabelled(target, labelled, rows.dims[0], sum.as<O>());
  });
}

Status CudaKernels::runLabelCount(View labels, View count) {
  return withFloating(count.dtype, [&]<class T>(Type<T>) {
    return sumLabelled(target, LabelledRows<T>{nullptr, labels.as<const int32_t>()}, labels.elements(), count.as<T>());
  });
}

Status CudaKernels::runLabelSumGrad(View labels, View grad, View out) {
  return withFloating(out.dtype, [&]<class T>(Type<T>) {
    const LabelSumGrad<T> function{labels.as<const int32_t>(), grad.as<const T>(), out.as<T>()};
    return forElements<1>(target, {out.dims[0]}, false, function);
  });
}

} // namespace moert::cuda
