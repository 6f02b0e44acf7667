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

template <class T>
void sgdStep(const T *param, const T *grad, const T *velocity, T *paramOut, T *velocityOut, int64_t count, T factor,
             T rate, T momentum, T decay) {
  MOERT_SIMD
  for (int64_t i = 0; i < count; ++i) {
    const T g = used(grad[i], factor) + decay * param[i];
    const T moved = momentum * velocity[i] + g;
    paramOut[i] = param[i] - rate * moved;
    velocityOut[i] = moved;
  }
}

/// Factors that all elements of a step of Adam share.
template <class T> struct AdamFactors {
  T factor, beta1, beta2, eps;
  T kept;         ///< 1 - rate decay
  T rate;         ///< rate / (1 - beta1^t)
  T secondFactor; ///< 1 / (1 - beta2^t)
  T rest1, rest2; ///< 1 - beta
};

template <class T>
void adamStep(const T *param, const T *grad, const T *first, const T *second, T *paramOut, T *firstOut, T *secondOut,
              int64_t count, AdamFactors<T> with) {
  MOERT_SIMD
  for (int64_t i = 0; i < count; ++i) {
    const T g = used(grad[i], with.factor);
    const T m = with.beta1 * first[i] + with.rest1 * g;
    const T v = with.beta2 * second[i] + with.rest2 * g * g;
    const T moved = with.rate * m / (squareRoot(v * with.secondFactor) + with.eps);
    paramOut[i] = with.kept * param[i] - moved;
    firstOut[i] = m;
    secondOut[i] = v;
  }
}

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
    sgdStep(param.as<const T>(), grad.as<const T>(), velocity.as<const T>(), paramOut.as<T>(), velocityOut.as<T>(),
            param.elements(), factorOf<T>(factor), *rate.as<T>(), T(momentum), T(decay));
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
    AdamFactors<T> with;
    with.factor = factorOf<T>(factor);
    with.beta1 = T(options.beta1);
    with.beta2 = T(options.beta2);
    with.eps = T(options.eps);
    with.kept = T(1 - learning * options.decay);
    with.rate = T(learning / (1 - std::pow(options.beta1, t)));
    with.secondFactor = T(1 / (1 - std::pow(options.beta2, t)));
    with.rest1 = T(1 - options.beta1);
    with.rest2 = T(1 - options.beta2);
    adamStep(param.as<const T>(), grad.as<const T>(), first.as<const T>(), second.as<const T>(), paramOut.as<T>(),
             firstOut.as<T>(), secondOut.as<T>(), param.elements(), with);
  });
}

} // namespace moert::host
