//===- KernelsElementwise.cpp - activations, biases, sums and copies -------===//
//
// Activations cost one pass over memory: their loops call glibc's vector exp and erfc, and no scalar function.
//
//===----------------------------------------------------------------------===//
#include "host/KernelSupport.h"

namespace moert::host {
namespace {

// --- Activations -------------------------------------------------------------
// Each has `value(x)` and `gradient(x, g)` of one element. Gated ones take a (gate, up) pair and return a pair of
// gradients. Bounds are opaque members, read once before the loop. Arguments beyond them give the limit, also for
// infinities.

template <class T> struct Relu {
  MOERT_INLINE T value(T x) const { return x < 0 ? T(0) : x; }
  MOERT_INLINE T gradient(T x, T g) const { return x <= 0 ? T(0) : (x > 0 ? g : x); }
};

template <class T> struct Sigmoid {
  T limit = opaque(expLimit<T>);
  MOERT_INLINE T value(T x) const { return Logistic<T>(x, limit).value(); }
  MOERT_INLINE T gradient(T x, T g) const {
    const Logistic<T> logistic(x, limit);
    return g * logistic.slope(logistic.value());
  }
};

/// ln(1 + exp(x)) = max(x, 0) + ln(1 + exp(-|x|)). The last term makes up for the rounding of 1 + exp.
template <class T> struct Softplus {
  T limit = opaque(expLimit<T>);
  MOERT_INLINE T value(T x) const {
    const T power = expOfMinus(x < 0 ? -x : x, limit), sum = 1 + power;
    return atLeast(x, T(0)) + (vectorLog(sum) - ((sum - 1) - power) / sum);
  }
  MOERT_INLINE T gradient(T x, T g) const { return g * Logistic<T>(x, limit).value(); }
};
template <> struct Softplus<Field> {
  MOERT_INLINE Field value(Field x) const { return standIn(Oracle::Softplus, x); }
  MOERT_INLINE Field gradient(Field x, Field g) const { return g * standIn(Oracle::Logistic, x); }
};

template <class T> struct Silu {
  T limit = opaque(expLimit<T>);
  MOERT_INLINE T value(T x) const { return Logistic<T>(x, limit).times(atLeast(x, -limit)); }
  MOERT_INLINE T slope(T x) const {
    const T held = atMost(atLeast(x, -limit), limit);
    const Logistic<T> logistic(held, limit);
    const T s = logistic.value();
    return s + held * logistic.slope(s);
  }
  MOERT_INLINE T gradient(T x, T g) const { return g * slope(x); }
};

/// Phi(x) = erfc(-x / sqrt 2) / 2, which keeps its digits in the left tail, unlike 1 + erf.
template <class T> struct Gelu {
  T limit = opaque(limitOf<T>(12.5, 37));
  static constexpr T rootHalf = T(0.70710678118654752440), density = T(0.39894228040143267794);
  MOERT_INLINE T value(T x) const {
    T held = atLeast(x, -limit);
    return T(0.5) * held * vectorErfc(-held * rootHalf);
  }
  MOERT_INLINE T gradient(T x, T g) const {
    T held = atMost(atLeast(x, -limit), limit);
    return g * (T(0.5) * vectorErfc(-held * rootHalf) + held * density * vectorExp(T(-0.5) * held * held));
  }
};

/// x s(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3): the form with tanh, because 1 + tanh(u) is 2 s(2 u).
template <class T> struct GeluTanh {
  // Beyond the bound s is 0 or 1 except for rounding, and x^3 stays small.
  T bound = opaque(limitOf<T>(10, 20)), limit = opaque(expLimit<T>);
  static constexpr T root = T(1.59576912160573071176), cube = T(0.044715);
  MOERT_INLINE T value(T x) const {
    T held = atMost(atLeast(x, -bound), bound);
    return Logistic<T>(root * (held + cube * held * held * held), limit).times(atLeast(x, -bound));
  }
  MOERT_INLINE T gradient(T x, T g) const {
    T held = atMost(atLeast(x, -bound), bound);
    const Logistic<T> logistic(root * (held + cube * held * held * held), limit);
    const T s = logistic.value();
    return g * (s + held * logistic.slope(s) * root * (1 + 3 * cube * held * held));
  }
};

struct Gated {};

template <class T> struct Pair {
  T gate, up;
};

template <class T> struct Swiglu : Gated {
  Silu<T> silu;
  MOERT_INLINE T value(T gate, T up) const { return silu.value(gate) * up; }
  MOERT_INLINE Pair<T> gradient(T gate, T up, T g) const { return {g * up * silu.slope(gate), g * silu.value(gate)}; }
};

template <class T> struct ClampedSwiglu : Gated {
  T limit = opaque(expLimit<T>), alpha, lowest;
  Bound<T> bound;
  explicit ClampedSwiglu(ActivationForm form)
      : alpha(T(form.alpha)), lowest(isInfinite(limit) ? -limit : -limit / alpha), bound(form.limit) {}
  MOERT_INLINE T value(T gate, T up) const {
    const T x = atLeast(bound.atMost(gate), lowest);
    return Logistic<T>(alpha * x, limit).times(x) * (bound.nearest(up) + 1);
  }
  MOERT_INLINE Pair<T> gradient(T gate, T up, T g) const {
    const T x = atLeast(bound.atMost(gate), lowest), u = bound.nearest(up);
    const Logistic<T> logistic(alpha * x, limit);
    const T s = logistic.value(), toGate = g * (u + 1) * (s + alpha * x * logistic.slope(s)), toUp = g * x * s;
    return {bound.isBelow(gate) ? T(0) : toGate, bound.isBelow(up) ? T(0) : bound.isBelow(-up) ? T(0) : toUp};
  }
};

template <class T, class Function> void forward(Function f, const T *in, T *out, int64_t count) {
  MOERT_SIMD
  for (int64_t i = 0; i < count; ++i)
    if constexpr (std::is_base_of_v<Gated, Function>)
      out[i] = f.value(in[2 * i], in[2 * i + 1]);
    else
      out[i] = f.value(in[i]);
}

template <class T, class Function> void backward(Function f, const T *in, const T *grad, T *out, int64_t count) {
  MOERT_SIMD
  for (int64_t i = 0; i < count; ++i)
    if constexpr (std::is_base_of_v<Gated, Function>) {
      Pair<T> pair = f.gradient(in[2 * i], in[2 * i + 1], grad[i]);
      out[2 * i] = pair.gate;
      out[2 * i + 1] = pair.up;
    } else {
      out[i] = f.gradient(in[i], grad[i]);
    }
}

/// Calls use(f) with the activation of a form.
template <class T, class Use> void withActivation(ActivationForm form, Use use) {
  switch (form.kind) {
  case MOERT_RELU:
    return use(Relu<T>());
  case MOERT_GELU:
    return use(Gelu<T>());
  case MOERT_SILU:
    return use(Silu<T>());
  case MOERT_SWIGLU:
    return use(Swiglu<T>());
  case MOERT_SWIGLU_CLAMPED:
    return use(ClampedSwiglu<T>(form));
  case MOERT_GELU_TANH:
    return use(GeluTanh<T>());
  case MOERT_SOFTPLUS:
    return use(Softplus<T>());
  default:
    return use(Sigmoid<T>());
  }
}

/// Number of used elements of `half`, which has the shape of the activation of `in`.
int64_t usedElements(Checker &check, View in, View counts, View half) {
  return (counts ? readCounts(check, counts, in.dims[0]).back() : rowsOf(in)) * columnsOf(half);
}

// --- Biases ------------------------------------------------------------------

template <class T> void biasRows(const T *rows, const T *bias, T *out, int64_t count, int64_t columns, T scale) {
  for (int64_t r = 0; r < count; ++r) {
    const T *from = rows + r * columns;
    T *to = out + r * columns;
    MOERT_SIMD
    for (int64_t n = 0; n < columns; ++n)
      to[n] = from[n] + scale * bias[n];
  }
}

/// Sets out[n] to scale * sum of rows[:,n]. `sum` is scratch for `columns` sums. Four rows are added in T before they
/// join the sum, which halves the cost of the conversion and loses at most two roundings.
template <class T>
void sumRows(const T *rows, const T *addend, T *out, Wide<T> *sum, int64_t count, int64_t columns, Wide<T> scale) {
  std::fill_n(sum, columns, Wide<T>(0));
  int64_t r = 0;
  for (; r + 4 <= count; r += 4) {
    const T *a = rows + r * columns, *b = a + columns, *c = b + columns, *d = c + columns;
    MOERT_SIMD
    for (int64_t n = 0; n < columns; ++n)
      sum[n] += static_cast<Wide<T>>((a[n] + b[n]) + (c[n] + d[n]));
  }
  for (; r < count; ++r) {
    const T *row = rows + r * columns;
    MOERT_SIMD
    for (int64_t n = 0; n < columns; ++n)
      sum[n] += static_cast<Wide<T>>(row[n]);
  }
  if (!addend) {
    MOERT_SIMD
    for (int64_t n = 0; n < columns; ++n)
      out[n] = static_cast<T>(scale * sum[n]);
    return;
  }
  MOERT_SIMD
  for (int64_t n = 0; n < columns; ++n)
    out[n] = static_cast<T>(static_cast<Wide<T>>(addend[n]) + scale * sum[n]);
}

/// First row of each expert, in the three forms of moert_bias_add; the plain form is one expert.
std::vector<int64_t> offsetsOf(Checker &check, View rows, View counts) {
  if (counts)
    return readCounts(check, counts, rows.dims[0]);
  if (rows.rank == 2)
    return {0, rows.dims[0]};
  std::vector<int64_t> offsets{0};
  for (int64_t e = 1; e <= rows.dims[0]; ++e)
    offsets.push_back(e * rows.dims[1]);
  return offsets;
}

// --- Sums and copies ---------------------------------------------------------

template <class T> void reduceChunk(const T *in, T *out, int64_t parts, int64_t stride, int64_t count) {
  if (parts == 0)
    std::fill_n(out, count, T(0));
  else
    std::copy_n(in, count, out);
  for (int64_t p = 1; p < parts; ++p) {
    const T *part = in + p * stride;
    MOERT_SIMD
    for (int64_t i = 0; i < count; ++i)
      out[i] += part[i];
  }
}

} // namespace

void activation(Checker &check, View in, View counts, View out, ActivationForm form) {
  const int64_t count = usedElements(check, in, counts, out);
  if (!check.ok())
    return;
  withFloating(in.dtype, [&]<class T>(T) {
    withActivation<T>(form, [&](auto f) { forward(f, in.as<const T>(), out.as<T>(), count); });
  });
}

void activationGrad(Checker &check, View in, View grad, View counts, View out, ActivationForm form) {
  const int64_t count = usedElements(check, in, counts, grad);
  if (!check.ok())
    return;
  withFloating(in.dtype, [&]<class T>(T) {
    withActivation<T>(form, [&](auto f) { backward(f, in.as<const T>(), grad.as<const T>(), out.as<T>(), count); });
  });
}

void biasAdd(Checker &check, View rows, View bias, View counts, View out, double scale) {
  const std::vector<int64_t> offsets = offsetsOf(check, rows, counts);
  if (!check.ok())
    return;
  withFloating(rows.dtype, [&]<class T>(T) {
    const int64_t columns = columnsOf(rows);
    for (size_t e = 0; e + 1 < offsets.size(); ++e)
      biasRows(rows.as<const T>() + offsets[e] * columns, bias.as<const T>() + e * columns,
               out.as<T>() + offsets[e] * columns, offsets[e + 1] - offsets[e], columns, T(scale));
  });
}

void biasGrad(Checker &check, View grads, View counts, View addend, View out, double scale) {
  const std::vector<int64_t> offsets = offsetsOf(check, grads, counts);
  if (!check.ok())
    return;
  withFloating(grads.dtype, [&]<class T>(T) {
    struct Tag;
    const int64_t columns = columnsOf(grads);
    auto *sum = scratch<Tag, Wide<T>>(columns);
    for (size_t e = 0; e + 1 < offsets.size(); ++e)
      sumRows(grads.as<const T>() + offsets[e] * columns, addend ? addend.as<const T>() + e * columns : nullptr,
              out.as<T>() + e * columns, sum, offsets[e + 1] - offsets[e], columns, scale);
  });
}

void add(Checker &, View a, View b, View out) {
  withFloating(a.dtype, [&]<class T>(T) {
    setElements<T>(out, [x = a.as<const T>(), y = b.as<const T>()](int64_t i) { return x[i] + y[i]; });
  });
}

void scale(Checker &, View in, View out, double factor) {
  withFloating(in.dtype, [&]<class T>(T) {
    setElements<T>(out, [from = in.as<const T>(), by = T(factor)](int64_t i) { return by * from[i]; });
  });
}

void copy(Checker &check, View in, View out) {
  if (in.bytes() > 0 && in.data != out.data)
    std::memmove(out.data, in.data, in.bytes());
}

void slice(Checker &check, View in, View out, int64_t dim, int64_t index, int64_t size) {
  if (out.elements() == 0)
    return;
  const int64_t outer = product(in, 0, dim);
  const int64_t block = product(out, dim, out.rank) * static_cast<int64_t>(dtypeSize(in.dtype));
  for (int64_t o = 0; o < outer; ++o)
    std::memcpy(out.as<char>() + o * block, in.as<char>() + (o * size + index) * block, block);
}

void dump(Checker &check, View in, View out, int64_t dim, int64_t blocks) {
  if (out.elements() == 0)
    return;
  const int64_t copies = copiesAlong(in, out, dim);
  const int64_t outer = product(in, 0, dim) * blocks;
  const int64_t block = in.bytes() / outer;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t c = 0; c < copies; ++c)
      std::memcpy(out.as<char>() + (o * copies + c) * block, in.as<char>() + o * block, block);
}

void localReduce(Checker &, View in, View out, int64_t dim, int64_t blocks) {
  if (out.elements() == 0)
    return;
  const int64_t copies = copiesAlong(out, in, dim), outer = product(out, 0, dim) * blocks;
  const int64_t inner = out.elements() / outer;
  // Chunks of the sums stay in the first-level cache. The copies are summed in their order.
  constexpr int64_t chunk = 2048;
  withFloating(in.dtype, [&]<class T>(T) {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t begin = 0; begin < inner; begin += chunk)
        reduceChunk(in.as<const T>() + o * copies * inner + begin, out.as<T>() + o * inner + begin, copies, inner,
                    std::min(chunk, inner - begin));
  });
}

} // namespace moert::host
