//===- KernelsNorm.cpp - layer and RMS norms, inverse roots ----------------===//
//
// Norms are bound by memory: a block of columns is read from memory once, and later loops find it in the cache.
//
//===----------------------------------------------------------------------===//
#include "host/KernelSupport.h"

namespace moert::host {
namespace {

/// n(x) = (x - mean) * factor.
template <class T> struct Moments {
  T mean, factor;
};

template <class T> Wide<T> sumOf(const T *x, int64_t count) {
  Wide<T> result = 0;
  for (int64_t begin = 0; begin < count; begin += kSumPart) {
    const int64_t end = std::min(begin + kSumPart, count);
    T sum = 0;
    MOERT_SIMD_SUM(sum)
    for (int64_t i = begin; i < end; ++i)
      sum += x[i];
    result += static_cast<Wide<T>>(sum);
  }
  return result;
}

template <class T> Wide<T> squaresOf(const T *x, T mean, int64_t count) {
  Wide<T> result = 0;
  for (int64_t begin = 0; begin < count; begin += kSumPart) {
    const int64_t end = std::min(begin + kSumPart, count);
    T sum = 0;
    MOERT_SIMD_SUM(sum)
    for (int64_t i = begin; i < end; ++i)
      sum += (x[i] - mean) * (x[i] - mean);
    result += static_cast<Wide<T>>(sum);
  }
  return result;
}

/// Takes a second pass for the variance, because the mean of squares less the squared mean would cancel.
template <class T> Moments<T> momentsOf(const T *x, int64_t count, int64_t kind, double eps) {
  if (kind == MOERT_NO_NORM)
    return {0, 1};
  const auto size = static_cast<Wide<T>>(count);
  const T mean = kind == MOERT_LAYER_NORM ? static_cast<T>(sumOf(x, count) / size) : T(0);
  return {mean, static_cast<T>(1 / squareRoot(squaresOf(x, mean, count) / size + eps))};
}

/// Means of h = grads gamma, and of n(x) h.
template <class T> struct Means {
  T plain, normed;
};

template <class T> Means<T> meansOf(const T *x, const T *gamma, const T *grads, Moments<T> m, int64_t count) {
  Wide<T> plain = 0, normed = 0;
  for (int64_t begin = 0; begin < count; begin += kSumPart) {
    const int64_t end = std::min(begin + kSumPart, count);
    T sum = 0, dot = 0;
    _Pragma("omp simd reduction(+ : sum, dot)") for (int64_t i = begin; i < end; ++i) {
      const T h = grads[i] * gamma[i];
      sum += h;
      dot += h * ((x[i] - m.mean) * m.factor);
    }
    plain += static_cast<Wide<T>>(sum);
    normed += static_cast<Wide<T>>(dot);
  }
  const auto size = static_cast<Wide<T>>(count);
  return {static_cast<T>(plain / size), static_cast<T>(normed / size)};
}

template <class T> void addFour(const T *x, const T *grads, Wide<T> *sum, int64_t count, int64_t kind, double eps) {
  const T *x1 = x + count, *x2 = x1 + count, *x3 = x2 + count;
  const T *g1 = grads + count, *g2 = g1 + count, *g3 = g2 + count;
  const Moments<T> m0 = momentsOf(x, count, kind, eps), m1 = momentsOf(x1, count, kind, eps),
                   m2 = momentsOf(x2, count, kind, eps), m3 = momentsOf(x3, count, kind, eps);
  MOERT_SIMD
  for (int64_t i = 0; i < count; ++i) {
    const T first = (x[i] - m0.mean) * m0.factor * grads[i] + (x1[i] - m1.mean) * m1.factor * g1[i];
    const T second = (x2[i] - m2.mean) * m2.factor * g2[i] + (x3[i] - m3.mean) * m3.factor * g3[i];
    sum[i] += static_cast<Wide<T>>(first + second);
  }
}

/// Adds n(x) * grads of all blocks to `sum`. Up to four are added in T before they join it, which saves conversions and
/// loses two roundings.
template <class T>
void normWgradBlocks(const T *x, const T *grads, Wide<T> *sum, int64_t blocks, int64_t count, int64_t kind,
                     double eps) {
  int64_t b = 0;
  for (; b + 4 <= blocks; b += 4)
    addFour(x + b * count, grads + b * count, sum, count, kind, eps);
  for (; b < blocks; ++b) {
    const T *in = x + b * count, *grad = grads + b * count;
    const Moments<T> m = momentsOf(in, count, kind, eps);
    MOERT_SIMD
    for (int64_t i = 0; i < count; ++i)
      sum[i] += static_cast<Wide<T>>((in[i] - m.mean) * m.factor * grad[i]);
  }
}

} // namespace

void norm(Checker &, View x, View gamma, View beta, View out, int64_t kind, double eps) {
  const int64_t count = gamma.dims[0], blocks = x.elements() / count;
  withFloating(x.dtype, [&]<class T>(T) {
    const T *factors = gamma.as<const T>(), *shifts = beta.as<const T>();
    for (int64_t b = 0; b < blocks; ++b) {
      const T *in = x.as<const T>() + b * count;
      T *to = out.as<T>() + b * count;
      const Moments<T> m = momentsOf(in, count, kind, eps);
      if (shifts) {
        MOERT_SIMD
        for (int64_t i = 0; i < count; ++i)
          to[i] = (in[i] - m.mean) * m.factor * factors[i] + shifts[i];
      } else {
        MOERT_SIMD
        for (int64_t i = 0; i < count; ++i)
          to[i] = (in[i] - m.mean) * m.factor * factors[i];
      }
    }
  });
}

void normGrad(Checker &, View x, View gamma, View grads, View out, int64_t kind, double eps) {
  const int64_t count = gamma.dims[0], blocks = x.elements() / count;
  withFloating(x.dtype, [&]<class T>(T) {
    const T *factors = gamma.as<const T>();
    for (int64_t b = 0; b < blocks; ++b) {
      const T *in = x.as<const T>() + b * count, *grad = grads.as<const T>() + b * count;
      T *to = out.as<T>() + b * count;
      const Moments<T> m = momentsOf(in, count, kind, eps);
      // The gradient is factor (h - mean(h) - n mean(h n)), h = grads gamma. RMS norms subtract no mean, and no norm
      // subtracts nothing.
      const Means<T> means = kind == MOERT_NO_NORM ? Means<T>{0, 0} : meansOf(in, factors, grad, m, count);
      const T shift = kind == MOERT_LAYER_NORM ? means.plain : T(0);
      MOERT_SIMD
      for (int64_t i = 0; i < count; ++i)
        to[i] = m.factor * (grad[i] * factors[i] - shift - (in[i] - m.mean) * m.factor * means.normed);
    }
  });
}

void normWgrad(Checker &, View x, View grads, View addend, View out, int64_t kind, double eps) {
  const int64_t count = out.dims[0], blocks = x.elements() / count;
  withFloating(x.dtype, [&]<class T>(T) {
    struct Tag;
    auto *sum = scratch<Tag, Wide<T>>(count);
    for (int64_t i = 0; i < count; ++i)
      sum[i] = addend ? static_cast<Wide<T>>(addend.as<const T>()[i]) : Wide<T>(0);
    normWgradBlocks(x.as<const T>(), grads.as<const T>(), sum, blocks, count, kind, eps);
    for (int64_t i = 0; i < count; ++i)
      out.as<T>()[i] = static_cast<T>(sum[i]);
  });
}

void inverseRoot(Checker &, View in, View out, double scale, double eps) {
  withFloating(in.dtype, [&]<class T>(T) {
    const T *x = in.as<const T>(), factor = T(scale), least = T(eps);
    setElements<T>(out, [=](int64_t i) { return 1 / squareRoot(factor * x[i] + least); });
  });
}

void inverseRootGrad(Checker &, View root, View grads, View out, double scale) {
  withFloating(root.dtype, [&]<class T>(T) {
    const T *y = root.as<const T>(), *grad = grads.as<const T>(), factor = T(-scale / 2);
    setElements<T>(out, [=](int64_t i) { return factor * (y[i] * y[i] * y[i]) * grad[i]; });
  });
}

void clamp(Checker &, View in, View out, double limit) {
  withFloating(in.dtype, [&]<class T>(T) {
    setElements<T>(out, [x = in.as<const T>(), bound = Bound<T>(limit)](int64_t i) { return bound.nearest(x[i]); });
  });
}

void clampGrad(Checker &, View in, View grads, View out, double limit) {
  withFloating(in.dtype, [&]<class T>(T) {
    const T *x = in.as<const T>(), *grad = grads.as<const T>();
    setElements<T>(out, [=, bound = Bound<T>(limit)](int64_t i) { return bound.contains(x[i]) ? grad[i] : T(0); });
  });
}

} // namespace moert::host
