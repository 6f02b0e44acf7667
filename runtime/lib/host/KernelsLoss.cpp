//===- KernelsLoss.cpp - the cross entropy of labels and logits ------------===//
//
// The logits are by far the largest value of a step, so each call reads them once.
//
//===----------------------------------------------------------------------===//
#include "host/KernelSupport.h"

namespace moert::host {
namespace {

/// Sum of exp(x - reference), where reference is the largest x so far.
template <class T> struct RunningSum {
  T reference = -std::numeric_limits<T>::infinity(), sum = 0;

  /// Adds `part`, a sum of exp(x - largest).
  void add(T largest, T part) {
    if (largest > reference) {
      sum *= isInfinite(reference) ? 1 : expOfDifference(reference, largest);
      reference = largest;
    } else if (!isInfinite(reference)) {
      part *= isInfinite(largest) ? 1 : expOfDifference(largest, reference);
    }
    sum += part;
  }
};

/// Takes the columns in blocks that stay in the first-level cache between their maximum and their sum.
template <class T> T logsumexp(const T *x, int64_t columns, T limit) {
  RunningSum<Wide<T>> running;
  T powers[kSumPart];
  for (int64_t begin = 0; begin < columns; begin += kSumPart) {
    const int64_t count = std::min(kSumPart, columns - begin);
    const T largest = maximum(x + begin, count);
    running.add(largest, expPart(x + begin, powers, count, isInfinite(largest) ? T(0) : largest, limit));
  }
  // If all are -inf the sum is zero; NaN reaches the result through the sum.
  if (isInfinite(running.reference) && running.sum == running.sum)
    return static_cast<T>(running.reference);
  return static_cast<T>(logOfSum(running.reference, running.sum));
}

/// label - first if this part has the label, else -1.
int64_t columnOf(int32_t label, int64_t first, int64_t size) {
  const int64_t column = label - first;
  return label >= 0 && column >= 0 && column < size ? column : -1;
}

} // namespace

void rowLogsumexp(Checker &, View x, View out) {
  withFloating(x.dtype, [&]<class T>(T) {
    const T limit = opaque(expLimit<T>);
    for (int64_t s = 0; s < x.dims[0]; ++s)
      out.as<T>()[s] = logsumexp(x.as<const T>() + s * x.dims[1], x.dims[1], limit);
  });
}

void rowLogsumexpGrad(Checker &, View x, View lse, View grads, View out) {
  withFloating(x.dtype, [&]<class T>(T) {
    const T limit = opaque(expLimit<T>);
    const int64_t columns = x.dims[1];
    for (int64_t s = 0; s < x.dims[0]; ++s) {
      const T *in = x.as<const T>() + s * columns, below = lse.as<const T>()[s], grad = grads.as<const T>()[s];
      T *to = out.as<T>() + s * columns;
      MOERT_SIMD
      for (int64_t j = 0; j < columns; ++j)
        to[j] = grad * expOfDifference(in[j], below, limit);
    }
  });
}

void pick(Checker &check, View x, View labels, View out, Part part) {
  const int64_t rows = x.dims[0], columns = x.dims[1];
  checkIndices(check, "labels", labels, kAnyNegative, part, columns);
  if (!check.ok())
    return;
  withFloating(x.dtype, [&]<class T>(T) {
    for (int64_t s = 0; s < rows; ++s) {
      const int64_t column = columnOf(labels.as<int32_t>()[s], part.index() * columns, columns);
      out.as<T>()[s] = column < 0 ? T(0) : x.as<T>()[s * columns + column];
    }
  });
}

void pickGrad(Checker &check, View labels, View grads, View addend, View out, Part part) {
  const int64_t rows = out.dims[0], columns = out.dims[1];
  checkIndices(check, "labels", labels, kAnyNegative, part, columns);
  if (!check.ok())
    return;
  startFrom(addend, out);
  withFloating(out.dtype, [&]<class T>(T) {
    for (int64_t s = 0; s < rows; ++s) {
      const int64_t column = columnOf(labels.as<int32_t>()[s], part.index() * columns, columns);
      if (column >= 0)
        out.as<T>()[s * columns + column] += grads.as<T>()[s];
    }
  });
}

void labelSum(Checker &, View rows, View labels, View sum) {
  withFloating(rows.dtype, [&]<class T>(T) {
    Wide<T> total = 0;
    for (int64_t s = 0; s < rows.dims[0]; ++s)
      if (labels.as<int32_t>()[s] >= 0)
        total += static_cast<Wide<T>>(rows.as<T>()[s]);
    *sum.as<T>() = static_cast<T>(total);
  });
}

void labelCount(Checker &, View labels, View count) {
  const int32_t *first = labels.as<const int32_t>();
  const auto used = std::count_if(first, first + labels.elements(), [](int32_t label) { return label >= 0; });
  withFloating(count.dtype, [&]<class T>(T) { *count.as<T>() = static_cast<T>(used); });
}

void labelSumGrad(Checker &, View labels, View grad, View out) {
  withFloating(out.dtype, [&]<class T>(T) {
    for (int64_t s = 0; s < out.dims[0]; ++s)
      out.as<T>()[s] = labels.as<int32_t>()[s] >= 0 ? *grad.as<T>() : T(0);
  });
}

void divide(Checker &, View a, View b, View out) {
  withFloating(a.dtype, [&]<class T>(T) {
    const T divisor = *b.as<T>();
    *out.as<T>() = divisor == 0 ? T(0) : *a.as<T>() / divisor;
  });
}

} // namespace moert::host
