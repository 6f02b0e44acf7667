//===- KernelsElementwise.cu - sums, scales, casts and scalars ------------===//

#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"

#include <cmath>

namespace moert::cuda {
namespace {

struct Add {
  template <class A> __device__ A operator()(A a, A b) const { return a + b; }
};
struct Scale {
  double factor;
  template <class A> __device__ A operator()(A x) const { return static_cast<A>(factor) * x; }
};
struct Identity {
  template <class A> __device__ A operator()(A x) const { return x; }
};
struct InverseRoot {
  double scale, eps;
  template <class A> __device__ A operator()(A x) const {
    return A(1) / std::sqrt(static_cast<A>(scale) * x + static_cast<A>(eps));
  }
};
struct InverseRootGrad {
  double factor;
  template <class A> __device__ A operator()(A root, A grad) const {
    return static_cast<A>(factor) * (root * root * root) * grad;
  }
};
struct Clamp {
  double limit;
  template <class A> __device__ A operator()(A x) const {
    const A most = static_cast<A>(limit);
    return x > most ? most : x < -most ? -most : x;
  }
};
struct ClampGrad {
  double limit;
  template <class A> __device__ A operator()(A x, A grad) const {
    const A most = static_cast<A>(limit);
    return x >= -most && x <= most ? grad : A(0);
  }
};
struct SquareRoot {
  template <class A> __device__ A operator()(A x) const { return std::sqrt(x); }
};
struct Divide {
  template <class A> __device__ A operator()(A a, A b) const { return b == 0 ? A(0) : a / b; }
};
/// Factor of clipping, in double because the sum of squares may be large.
struct ClipFactor {
  double most;
  template <class A> __device__ A operator()(A sumSquares) const {
    const double sum = sumSquares, factor = most / (std::sqrt(sum) + 1e-6);
    return std::isfinite(sum) ? static_cast<A>(factor < 1 ? factor : 1.0) : A(0);
  }
};

/// Computes out = function(in...), all of one type.
template <class Function, class... Views>
Status mapAlike(const Target &target, Function function, View out, Views... in) {
  return withFloating(out.dtype, [&]<class T>(Type<T>) {
    return map(target, {out.elements()}, function, out.as<T>(), static_cast<const T *>(in.template as<T>())...);
  });
}

// --- Constants and indices ---------------------------------------------------

template <class T> struct Fill {
  T *out;
  T value;

  template <int N> __device__ void run(int64_t at) const { storePack(out + at, uniformPack<N>(value)); }
};

template <class T> Status fillWith(const Target &target, View out, T value) {
  return forElements<kVector<T>>(target, {out.elements()}, areAligned(out.as<T>()), Fill<T>{out.as<T>(), value});
}

/// Both operands are below 2^31.
__global__ void __launch_bounds__(kThreads)
    positionsKernel(int32_t *out, int64_t count, uint32_t period, RowPlaces places) {
  for (int64_t s = globalThread(); s < count; s += globalThreads())
    out[s] = static_cast<int32_t>(places.at(static_cast<int64_t>(static_cast<uint64_t>(s) % period)));
}

/// Unsigned sums may overflow. The sum in double precision shows whether they did.
__global__ void __launch_bounds__(kThreads)
    affineKernel(const int32_t *in, int32_t *out, int64_t count, int64_t factor, int64_t offset, FaultSite site) {
  for (int64_t i = globalThread(); i < count; i += globalThreads()) {
    const int64_t index = in[i];
    const auto value = static_cast<int64_t>(static_cast<uint64_t>(factor) * static_cast<uint64_t>(index) +
                                            static_cast<uint64_t>(offset));
    const double about = static_cast<double>(factor) * static_cast<double>(index) + static_cast<double>(offset);
    if (value != static_cast<int32_t>(value) || about < -4e9 || about > 4e9)
      raise(site, FaultKind::IndexWide, index, i);
    else
      out[i] = static_cast<int32_t>(value);
  }
}

} // namespace

Status CudaKernels::runAdd(View a, View b, View out) { return mapAlike(target, Add(), out, a, b); }

Status CudaKernels::runScale(View in, View out, double factor) { return mapAlike(target, Scale{factor}, out, in); }

Status CudaKernels::runInverseRoot(View in, View out, double scale, double eps) {
  return mapAlike(target, InverseRoot{scale, eps}, out, in);
}

Status CudaKernels::runInverseRootGrad(View root, View grads, View out, double scale) {
  return mapAlike(target, InverseRootGrad{-scale / 2}, out, root, grads);
}

Status CudaKernels::runClamp(View in, View out, double limit) { return mapAlike(target, Clamp{limit}, out, in); }

Status CudaKernels::runClampGrad(View in, View grads, View out, double limit) {
  return mapAlike(target, ClampGrad{limit}, out, in, grads);
}

Status CudaKernels::runSquareRoot(View in, View out) { return mapAlike(target, SquareRoot(), out, in); }

Status CudaKernels::runDivide(View a, View b, View out) { return mapAlike(target, Divide(), out, a, b); }

Status CudaKernels::runClipFactor(View sumSquares, View out, double most) {
  return mapAlike(target, ClipFactor{most}, out, sumSquares);
}

Status CudaKernels::runCast(View in, View out) {
  return withFloating(in.dtype, [&]<class From>(Type<From>) {
    return withFloating(out.dtype, [&]<class To>(Type<To>) {
      return map(target, {out.elements()}, Identity(), out.as<To>(), in.as<const From>());
    });
  });
}

Status CudaKernels::runFill(View out, double value) {
  if (out.dtype == MOERT_I32)
    return fillWith(target, out, static_cast<int32_t>(value));
  return withFloating(out.dtype, [&]<class T>(Type<T>) { return fillWith(target, out, convert<T>(value)); });
}

Status CudaKernels::runPositions(View out, int64_t period, SequenceCut cut) {
  if (out.elements() == 0)
    return {};
  return launch(positionsKernel, gridOf(target, out.elements()), target, out.as<int32_t>(), out.elements(),
                static_cast<uint32_t>(period), RowPlaces(period, cut));
}

Status CudaKernels::runIndexAffine(View in, View out, int64_t factor, int64_t offset) {
  if (out.elements() == 0)
    return {};
  return launch(affineKernel, gridOf(target, out.elements()), target, in.as<const int32_t>(), out.as<int32_t>(),
                out.elements(), factor, offset, target.faults());
}

} // namespace moert::cuda
