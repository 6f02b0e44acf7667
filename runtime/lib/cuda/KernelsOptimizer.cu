//===- KernelsOptimizer.cu - sums of squares, SGD and Adam ----------------===//
//
// Optimizers are bound by memory: a step reads and writes the parameters and their state once.
//
//===----------------------------------------------------------------------===//
#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Reduce.cuh"

#include <cmath>

namespace moert::cuda {
namespace {

// --- Sums of squares ---------------------------------------------------------

/// Sums the squares of each block, in double.
template <int N, class T>
__global__ void __launch_bounds__(kThreads) squaresKernel(const T *in, int64_t count, double *partial) {
  double sum = 0;
  auto add = [&](auto pack) {
    for (auto value : pack.values) {
      const double x = convert<double>(value);
      sum += x * x;
    }
  };
  const int64_t packs = count / N;
  for (int64_t i = globalThread(); i < packs; i += globalThreads())
    add(loadPack<N>(in + i * N));
  for (int64_t i = packs * N + globalThread(); i < count; i += globalThreads())
    add(loadPack<1>(in + i));
  sum = blockSum(sum);
  if (threadIdx.x == 0)
    partial[blockIdx.x] = sum;
}

// --- Steps -------------------------------------------------------------------

/// A number on the device, of one of the floating types.
struct DeviceScalar {
  const void *data;
  int32_t dtype;

  explicit DeviceScalar(View view) : data(view.data), dtype(view.dtype) {}
  __device__ double get() const {
    switch (dtype) {
    case MOERT_F64:
      return *static_cast<const double *>(data);
    case MOERT_BF16:
      return convert<double>(*static_cast<const Bf16 *>(data));
    case MOERT_F16:
      return convert<double>(*static_cast<const Half *>(data));
    default:
      return *static_cast<const float *>(data);
    }
  }
  /// Value of the number, or 1 if it is absent.
  __device__ double getOrOne() const { return data ? get() : 1.0; }
};

/// factor * grad, or 0 if the factor is 0. Clipping thereby leaves out gradients that are not finite.
template <class A> __device__ A used(A grad, A factor) { return factor == 0 ? A(0) : factor * grad; }

/// A step of SGD. P is the type of parameters, G of gradients, S of the optimizer's state.
template <class P, class G, class S> struct SgdStep {
  using A = Acc<P, G, S>;
  const P *param;
  const G *grad;
  const S *velocity;
  P *paramOut;
  S *velocityOut;
  DeviceScalar rate, factor;
  double momentum, decay;

  template <int N> __device__ void run(int64_t at) const {
    const A by = static_cast<A>(factor.getOrOne()), speed = static_cast<A>(rate.get());
    Pack<P, N> p = loadPack<N>(param + at);
    const Pack<G, N> g = loadPack<N>(grad + at);
    Pack<S, N> v = loadPack<N>(velocity + at);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const A x = convert<A>(p.values[i]);
      const A moved = static_cast<A>(momentum) * convert<A>(v.values[i]) +
                      (used(convert<A>(g.values[i]), by) + static_cast<A>(decay) * x);
      p.values[i] = convert<P>(x - speed * moved);
      v.values[i] = convert<S>(moved);
    }
    storePack(paramOut + at, p);
    storePack(velocityOut + at, v);
  }
};

/// Factors that all elements of a step of Adam share.
struct AdamFactors {
  double factor;
  double kept;         ///< 1 - rate decay
  double rate;         ///< rate / (1 - beta1^t)
  double secondFactor; ///< 1 / (1 - beta2^t)
};

__global__ void adamFactorsKernel(DeviceScalar rate, DeviceScalar factor, const int32_t *step, AdamOptions options,
                                  AdamFactors *out, FaultSite site) {
  if (*step < 0) {
    raise(site, FaultKind::StepNegative, *step);
    *out = {0, 1, 0, 1};
    return;
  }
  const double t = double(*step) + 1, learning = rate.get();
  *out = {factor.getOrOne(), 1 - learning * options.decay, learning / (1 - std::pow(options.beta1, t)),
          1 / (1 - std::pow(options.beta2, t))};
}

template <class P, class G, class S> struct AdamStep {
  using A = Acc<P, G, S>;
  const P *param;
  const G *grad;
  const S *first, *second;
  P *paramOut;
  S *firstOut, *secondOut;
  const AdamFactors *factors;
  A beta1, beta2, rest1, rest2, eps;

  template <int N> __device__ void run(int64_t at) const {
    const A by = static_cast<A>(factors->factor), kept = static_cast<A>(factors->kept);
    const A rate = static_cast<A>(factors->rate), secondFactor = static_cast<A>(factors->secondFactor);
    Pack<P, N> p = loadPack<N>(param + at);
    const Pack<G, N> grads = loadPack<N>(grad + at);
    Pack<S, N> m = loadPack<N>(first + at), v = loadPack<N>(second + at);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const A g = used(convert<A>(grads.values[i]), by);
      const A mean = beta1 * convert<A>(m.values[i]) + rest1 * g;
      const A square = beta2 * convert<A>(v.values[i]) + rest2 * g * g;
      const A moved = rate * mean / (std::sqrt(square * secondFactor) + eps);
      p.values[i] = convert<P>(kept * convert<A>(p.values[i]) - moved);
      m.values[i] = convert<S>(mean);
      v.values[i] = convert<S>(square);
    }
    storePack(paramOut + at, p);
    storePack(firstOut + at, m);
    storePack(secondOut + at, v);
  }
};

/// Calls function(Type<P>(), Type<G>(), Type<S>()). With 16-bit gradients, parameters and state may be f32, each or
/// both.
template <class Function> Status withStepTypes(View param, View grad, View state, Function function) {
  return withFloating(grad.dtype, [&]<class G>(Type<G> g) {
    return withBeside<G>(param.dtype, [&]<class P>(Type<P> p) {
      return withBeside<P>(state.dtype, [&](auto s) { return function(p, g, s); });
    });
  });
}

} // namespace

Status CudaKernels::runSumSquares(View in, View out) {
  // The order of the sum depends on the number of blocks, which is the same on all devices.
  constexpr int64_t kMostBlocks = 1024;
  const int64_t count = in.elements(), blocks = std::clamp<int64_t>(divideUp(count, 16 * kThreads), 1, kMostBlocks);
  double *partial = nullptr;
  MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(blocks, partial));
  const Grid grid{.blocks = dim3(static_cast<unsigned>(blocks))};
  return withFloating(in.dtype, [&]<class T>(Type<T>) {
    auto *kernel = areAligned(in.as<T>()) ? squaresKernel<kVector<T>, T> : squaresKernel<1, T>;
    MOERT_RETURN_IF_ERROR(launch(kernel, grid, target, in.as<const T>(), count, partial));
    return withBeside<T>(out.dtype, [&]<class O>(Type<O>) { return sumTo(target, partial, blocks, out.as<O>()); });
  });
}

Status CudaKernels::runSgd(View param, View grad, View velocity, View rate, View factor, View paramOut,
                           View velocityOut, double momentum, double decay) {
  return withStepTypes(param, grad, velocity, [&]<class P, class G, class S>(Type<P>, Type<G>, Type<S>) {
    const SgdStep<P, G, S> step{param.as<const P>(),
                                grad.as<const G>(),
                                velocity.as<const S>(),
                                paramOut.as<P>(),
                                velocityOut.as<S>(),
                                DeviceScalar(rate),
                                DeviceScalar(factor),
                                momentum,
                                decay};
    return forElements<kVector<P, G, S>>(
        target, {param.elements()}, areAligned(step.param, step.grad, step.velocity, step.paramOut, step.velocityOut),
        step);
  });
}

Status CudaKernels::runAdam(View param, View grad, View first, View second, View rate, View step, View factor,
                            View paramOut, View firstOut, View secondOut, const AdamOptions &options) {
  AdamFactors *factors = nullptr;
  MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(1, factors));
  MOERT_RETURN_IF_ERROR(launch(adamFactorsKernel, Grid{.threads = dim3(1)}, target, DeviceScalar(rate),
                               DeviceScalar(factor), step.as<const int32_t>(), options, factors, target.faults()));
  return withStepTypes(param, grad, first, [&]<class P, class G, class S>(Type<P>, Type<G>, Type<S>) {
    using A = Acc<P, G, S>;
    const AdamStep<P, G, S> all{param.as<const P>(), grad.as<const G>(), first.as<const S>(),  second.as<const S>(),
                                paramOut.as<P>(),    firstOut.as<S>(),   secondOut.as<S>(),    factors,
                                A(options.beta1),    A(options.beta2),   A(1 - options.beta1), A(1 - options.beta2),
                                A(options.eps)};
    return forElements<kVector<P, G, S>>(
        target, {param.elements()},
        areAligned(all.param, all.grad, all.first, all.second, all.paramOut, all.firstOut, all.secondOut), all);
  });
}

} // namespace moert::cuda
