//===- KernelsActivation.cu - activations and their gradients -------------===//

#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Math.cuh"
#include "cuda/Ragged.cuh"

namespace moert::cuda {
namespace {

// Activations f of one element: f(x), and its gradient f(x, g). Gated ones have value(gate, up) and gradient(gate, up,
// g), which returns a pair.

struct Relu {
  template <class A> __device__ A operator()(A x) const { return x < 0 ? A(0) : x; }
  template <class A> __device__ A operator()(A x, A g) const { return x <= 0 ? A(0) : (x > 0 ? g : x); }
};

/// The sigmoid that a value and its gradient share: exp(-x) and 1 / (1 + exp(-x)), of x as heldOf or lowerOf gives it.
template <class T> struct Logistic {
  using A = Acc<T>;
  A e, s;

  explicit __device__ Logistic(A x) : e(expOf<T>(-x)), s(quotientOf<T>(A(1), 1 + e)) {}
  /// x s. f32 and f64 are rounded once.
  __device__ A times(A x) const {
    if constexpr (isNarrowType<T>)
      return x * s;
    else
      return x / (1 + e);
  }
  /// Derivative of s, in a form that stays exact for s near 1.
  __device__ A slope() const { return e * s * s; }
};

/// x, bounded so that exp(-x) is neither infinite nor 0.
template <class A> __device__ A lowerOf(A x) { return atLeast(x, -kLimit<A>); }
template <class A> __device__ A heldOf(A x) { return atMost(lowerOf(x), kLimit<A>); }

template <class T> struct Sigmoid {
  using A = Acc<T>;
  __device__ A operator()(A x) const { return Logistic<T>(lowerOf(x)).s; }
  __device__ A operator()(A x, A g) const { return g * Logistic<T>(heldOf(x)).slope(); }
};

/// ln(1 + exp(x)).
template <class T> struct Softplus {
  using A = Acc<T>;
  __device__ A operator()(A x) const { return atLeast(x, A(0)) + std::log1p(expOf<T>(-heldOf(x < 0 ? -x : x))); }
  __device__ A operator()(A x, A g) const { return g * Logistic<T>(lowerOf(x)).s; }
};

template <class T> struct Silu {
  using A = Acc<T>;
  __device__ A operator()(A x) const { return Logistic<T>(lowerOf(x)).times(lowerOf(x)); }
  __device__ A slope(const Logistic<T> &of, A x) const { return of.s + heldOf(x) * of.slope(); }
  __device__ A operator()(A x, A g) const { return g * slope(Logistic<T>(heldOf(x)), x); }
};

/// Phi(x) = erfc(-x / sqrt 2) / 2, which unlike 1 + erf stays exact in the left tail.
struct Gelu {
  template <class A> __device__ A held(A x) const {
    const A limit = sizeof(A) == 4 ? A(12.5) : A(37);
    return atLeast(x, -limit);
  }
  template <class A> __device__ A phi(A x) const { return A(0.5) * std::erfc(-x * A(0.70710678118654752440)); }
  template <class A> __device__ A operator()(A x) const { return held(x) * phi(held(x)); }
  template <class A> __device__ A operator()(A x, A g) const {
    const A from = -held(-held(x));
    return g * (phi(from) + from * A(0.39894228040143267794) * std::exp(A(-0.5) * from * from));
  }
};

/// The form with tanh: x s(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3), since 1 + tanh(u) is 2 s(2 u).
template <class T> struct GeluTanh {
  using A = Acc<T>;
  __device__ A lower(A x) const {
    const A bound = sizeof(A) == 4 ? A(10) : A(20);
    return atLeast(x, -bound);
  }
  __device__ Logistic<T> logistic(A held) const {
    return Logistic<T>(heldOf(A(1.59576912160573071176) * (held + A(0.044715) * held * held * held)));
  }
  __device__ A operator()(A x) const { return logistic(-lower(-lower(x))).times(lower(x)); }
  __device__ A operator()(A x, A g) const {
    const A held = -lower(-lower(x));
    const Logistic<T> of = logistic(held);
    const A inner = A(1.59576912160573071176) * (1 + 3 * A(0.044715) * held * held);
    return g * (of.s + held * of.slope() * inner);
  }
};

template <class A> struct Pair {
  A gate, up;
};

template <class T> struct Swiglu {
  using A = Acc<T>;
  __device__ A value(A gate, A up) const { return Silu<T>()(gate) * up; }
  __device__ Pair<A> gradient(A gate, A up, A g) const {
    const Logistic<T> of(heldOf(gate));
    return {g * up * Silu<T>().slope(of, gate), g * of.times(lowerOf(gate))};
  }
};

template <class T> struct ClampedSwiglu {
  using A = Acc<T>;
  double alpha, bound;

  __device__ A heldGate(A gate) const { return atLeast(atMost(gate, A(bound)), quotientOf<T>(-kLimit<A>, A(alpha))); }
  __device__ A heldUp(A up) const { return atMost(atLeast(up, A(-bound)), A(bound)); }
  __device__ Logistic<T> logistic(A held) const { return Logistic<T>(heldOf(A(alpha) * held)); }
  __device__ A value(A gate, A up) const {
    const A x = heldGate(gate);
    return logistic(x).times(x) * (heldUp(up) + 1);
  }
  __device__ Pair<A> gradient(A gate, A up, A g) const {
    const A x = heldGate(gate), u = heldUp(up);
    const Logistic<T> of = logistic(x);
    const A toGate = g * (u + 1) * (of.s + A(alpha) * x * of.slope()), toUp = g * x * of.s;
    return {gate > A(bound) ? A(0) : toGate, up > A(bound) ? A(0) : (up < A(-bound) ? A(0) : toUp)};
  }
};

// --- Gated kinds -------------------------------------------------------------

/// Applies a gated kind. Elements are pairs, which are accessed by vectors if the other operands are. A single pair of
/// f64 is also a vector.
template <class F, class T> struct Gated {
  F function;
  const T *in;
  T *out;

  template <int N> __device__ void run(int64_t at) const {
    using A = Acc<T>;
    const Pack<T, 2 * N> pairs = loadPack<2 * N, T, isVector<T, N>>(in + 2 * at);
    Pack<T, N> result;
#pragma unroll
    for (int i = 0; i < N; ++i)
      result.values[i] =
          convert<T>(function.value(convert<A>(pairs.values[2 * i]), convert<A>(pairs.values[2 * i + 1])));
    storePack(out + at, result);
  }
};

template <class F, class T> struct GatedGrad {
  F function;
  const T *in, *grad;
  T *out;

  template <int N> __device__ void run(int64_t at) const {
    using A = Acc<T>;
    Pack<T, 2 * N> pairs = loadPack<2 * N, T, isVector<T, N>>(in + 2 * at);
    const Pack<T, N> grads = loadPack<N>(grad + at);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Pair<A> pair = function.gradient(convert<A>(pairs.values[2 * i]), convert<A>(pairs.values[2 * i + 1]),
                                             convert<A>(grads.values[i]));
      pairs.values[2 * i] = convert<T>(pair.gate);
      pairs.values[2 * i + 1] = convert<T>(pair.up);
    }
    storePack<2 * N, T, isVector<T, N>>(out + 2 * at, pairs);
  }
};

/// Computes the value, or with `grad` the gradient.
template <class F, class T>
Status launchGated(F function, const Target &target, Extent extent, const T *in, const T *grad, T *out) {
  const bool isAligned = areAligned(in, grad, out);
  return grad ? forElements<kVector<T>>(target, extent, isAligned, GatedGrad<F, T>{function, in, grad, out})
              : forElements<kVector<T>>(target, extent, isAligned, Gated<F, T>{function, in, out});
}

// --- All kinds ---------------------------------------------------------------

bool isGated(int64_t kind) { return kind == MOERT_SWIGLU || kind == MOERT_SWIGLU_CLAMPED; }

template <class F, class T>
Status launchPlain(const Target &target, Extent extent, const T *in, const T *grad, T *out) {
  return grad ? map(target, extent, F(), out, in, grad) : map(target, extent, F(), out, in);
}

template <class T>
Status launchKind(ActivationForm form, const Target &target, Extent extent, const T *in, const T *grad, T *out) {
  switch (form.kind) {
  case MOERT_RELU:
    return launchPlain<Relu>(target, extent, in, grad, out);
  case MOERT_GELU:
    return launchPlain<Gelu>(target, extent, in, grad, out);
  case MOERT_SILU:
    return launchPlain<Silu<T>>(target, extent, in, grad, out);
  case MOERT_SWIGLU:
    return launchGated(Swiglu<T>(), target, extent, in, grad, out);
  case MOERT_SWIGLU_CLAMPED:
    return launchGated(ClampedSwiglu<T>{form.alpha, form.limit}, target, extent, in, grad, out);
  case MOERT_GELU_TANH:
    return launchPlain<GeluTanh<T>>(target, extent, in, grad, out);
  case MOERT_SOFTPLUS:
    return launchPlain<Softplus<T>>(target, extent, in, grad, out);
  default:
    return launchPlain<Sigmoid<T>>(target, extent, in, grad, out);
  }
}

Status launchAny(const Target &target, View in, View grad, View counts, View out, ActivationForm form) {
  // Gated kinds count columns in pairs.
  const int64_t columns = in.dims[static_cast<size_t>(in.rank) - 1] / (isGated(form.kind) ? 2 : 1);
  Extent extent{in.elements() / (isGated(form.kind) ? 2 : 1)};
  if (counts) {
    const int64_t *offsets = nullptr;
    MOERT_RETURN_IF_ERROR(expertOffsets(target, counts, in.dims[0], offsets));
    extent.used = offsets + counts.dims[1];
    extent.factor = columns;
  }
  return withFloating(in.dtype, [&]<class T>(Type<T>) {
    return launchKind<T>(form, target, extent, in.as<const T>(), grad.as<const T>(), out.as<T>());
  });
}

} // namespace

Status CudaKernels::runActivation(View in, View counts, View out, ActivationForm form) {
  return launchAny(target, in, {}, counts, out, form);
}

Status CudaKernels::runActivationGrad(View in, View grad, View counts, View out, ActivationForm form) {
  return launchAny(target, in, grad, counts, out, form);
}

} // namespace moert::cuda
