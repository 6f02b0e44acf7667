//===- KernelsOptimizer.cpp - gradient clipping, SGD and Adam --------------===//
//
// Optimizers are bound by memory: each step is one pass over the parameters and their state.
//
//===----------------------------------------------------------------------===//
#include "host/KernelSupport.h"

namespace moert::host {
namespace {

/// Adds four squares in T before they join the sum, which saves conversions and loses at most three roundings. So f32
/// values below 3e-23 count as 0, because their squares are 0 in f32.
template <class T> Wide<T> squaresOf(const T *in, int64_t count) {
  const int64_t part = count / 4;
  const T *second = in + part, *third = second + part, *fourth = third + part;
  Wide<T> sum = 0;
  MOERT_SIMD_SUM(sum)
  for (int64_t i = 0; i < part; ++i)
    sum +=
        static_cast<Wide<T>>((in[i] * in[i] + second[i] * second[i]) + (third[i] * third[i] + fourth[i] * fourth[i]));
  for (int64_t i = 4 * part; i < count; ++i)
    sum += static_cast<Wide<T>>(in[i] * in[i]);
  return sum;
}

/// factor * grad, or 0 if the factor is 0: clipping then leaves out gradients that are not finite.
template <class T> MOERT_INLINE T used(T grad, T factor) { return factor == 0 ? T(0) : factor * grad; }

/// Factor for gradients of this sum of squares.
double clipping(double squares, double most) {
  return std::isfinite(squares) ? std::min(1.0, most / (std::sqrt(squares) + 1e-6)) : 0;
}
Field clipping(Field squares, double most) {
  const Field factor = most / (host::squareRoot(squares) + 1e-6);
  return Bound<Field>(1).isBelow(factor) ? 1 : factor;
}

template <class T> T factorOf(View factor) { return factor ? *factor.as<const T>() : T(1); }

} // namespace

void sumSquares(Checker &, View in, View out) {
  withFloating(in.dtype,
               [&]<class T>(T) { *out.as<T>() = static_cast<T>(squaresOf(in.as<const T>(), in.elements())); });
}

void clipFactor(Checker &, View sumSquares, View out, double most) {
  withFloating(out.dtype, [&]<class T>(T) {
    *out.as<T>() = static_cast<T>(clipping(static_cast<Wide<T>>(*sumSquares.as<const T>()), most));
  });
}

void squareRoot(Checker &, View in, View out) {
  withFloating(in.dtype, [&]<class T>(T) { *out.as<T>() = host::squareRoot(*in.as<const T>()); });
}

void sgd(Checker &, View param, View grad, View velocity, View rate, View factor, View paramOut, View velocityOut,
         double momentum, double decay) {
  withFloating(param.dtype, [&]<class T>(T) {
    const T *p = param.as<const T>(), *grads = grad.as<const T>(), *v = velocity.as<const T>();
    const T scale = factorOf<T>(factor), by = *rate.as<T>(), kept = T(momentum), decays = T(decay);
    T *toP = paramOut.as<T>(), *toV = velocityOut.as<T>();
    const int64_t count = param.elements();
    MOERT_SIMD
    for (int64_t i = 0; i < count; ++i) {
      const T g = used(grads[i], scale) + decays * p[i];
      const T moved = kept * v[i] + g;
      toP[i] = p[i] - by * moved;
      toV[i] = moved;
    }
  });
}

void adam(Checker &check, View param, View grad, View first, View second, View rate, View step, View factor,
          View paramOut, View firstOut, View secondOut, const AdamOptions &options) {
  const int64_t steps = int64_t(*step.as<const int32_t>()) + 1;
  check.that(steps >= 1, "expected 'step' of 0 or more but got ", steps - 1);
  if (!check.ok())
    return;
  withFloating(param.dtype, [&]<class T>(T) {
    const auto learning = static_cast<Wide<T>>(*rate.as<const T>());
    const auto t = static_cast<double>(steps);
    const T beta1 = T(options.beta1), rest1 = T(1 - options.beta1);
    const T beta2 = T(options.beta2), rest2 = T(1 - options.beta2);
    const T scale = factorOf<T>(factor), eps = T(options.eps), kept = T(1 - learning * options.decay);
    const T by = T(learning / (1 - std::pow(options.beta1, t)));
    const T secondFactor = T(1 / (1 - std::pow(options.beta2, t)));
    const T *p = param.as<const T>(), *grads = grad.as<const T>();
    const T *firsts = first.as<const T>(), *seconds = second.as<const T>();
    T *toP = paramOut.as<T>(), *toFirst = firstOut.as<T>(), *toSecond = secondOut.as<T>();
    const int64_t count = param.elements();
    MOERT_SIMD
    for (int64_t i = 0; i < count; ++i) {
      const T g = used(grads[i], scale);
      const T m = beta1 * firsts[i] + rest1 * g;
      const T v = beta2 * seconds[i] + rest2 * g * g;
      const T moved = by * m / (host::squareRoot(v * secondFactor) + eps);
      toP[i] = kept * p[i] - moved;
      toFirst[i] = m;
      toSecond[i] = v;
    }
  });
}

} // namespace moert::host
