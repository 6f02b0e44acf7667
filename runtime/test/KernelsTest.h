//===- KernelsTest.h - tensors and comparisons for the kernel tests --------===//
//
// Test buffers are vectors of exactly the view's size, so that AddressSanitizer finds every access outside.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_TEST_KERNELSTEST_H
#define MOERT_TEST_KERNELSTEST_H

#include "host/Kernels.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace moert::host {

template <class T> constexpr int32_t dtypeOf() {
  if constexpr (std::is_same_v<T, double>)
    return MOERT_F64;
  else if constexpr (std::is_same_v<T, float>)
    return MOERT_F32;
  else
    return MOERT_I32;
}

/// A tensor that owns its elements.
template <class T> struct Tensor {
  std::vector<int64_t> dims;
  std::vector<T> data;

  explicit Tensor(std::vector<int64_t> shape, T value = T(0)) : dims(std::move(shape)) {
    int64_t count = 1;
    for (int64_t dim : dims)
      count *= dim;
    data.assign(count, value);
  }
  Tensor(std::vector<int64_t> shape, std::vector<T> values) : dims(std::move(shape)), data(std::move(values)) {}

  T &operator[](int64_t i) { return data[i]; }
  T operator[](int64_t i) const { return data[i]; }
  int64_t size() const { return static_cast<int64_t>(data.size()); }

  View view() {
    View result;
    // An empty tensor has an address, too.
    static T empty;
    result.data = data.empty() ? &empty : data.data();
    result.dtype = dtypeOf<T>();
    result.rank = static_cast<int64_t>(dims.size());
    for (size_t i = 0; i < dims.size(); ++i)
      result.dims[i] = dims[i];
    return result;
  }
};

/// Normally distributed values of a fixed seed.
template <class T> Tensor<T> randomTensor(std::vector<int64_t> dims, int seed, double deviation = 1.0) {
  Tensor<T> tensor(std::move(dims));
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal(0, deviation);
  for (T &value : tensor.data)
    value = static_cast<T>(normal(engine));
  return tensor;
}

/// Rounding error that sums of a few hundred terms may have.
template <class T> constexpr double tolerance() { return std::is_same_v<T, double> ? 1e-12 : 1e-4; }

#define EXPECT_OK(expression)                                                                                          \
  do {                                                                                                                 \
    Status moertStatus = (expression);                                                                                 \
    EXPECT_TRUE(moertStatus.ok()) << moertStatus.message;                                                              \
  } while (false)

/// Expects the call to fail with `code` and a message that contains `text`.
inline void expectError(const Status &status, int32_t code, const std::string &text) {
  EXPECT_EQ(status.code, code) << status.message;
  EXPECT_NE(status.message.find(text), std::string::npos) << status.message;
}

/// Expects |got - expected| <= tolerance * max(1, |expected|). NaN equals NaN.
template <class T, class U>
void expectNear(const std::vector<T> &got, const std::vector<U> &expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    double a = static_cast<double>(got[i]), b = static_cast<double>(expected[i]);
    if (std::isnan(a) && std::isnan(b))
      continue;
    ASSERT_LE(std::abs(a - b), tolerance * std::max(1.0, std::abs(b))) << "element " << i << ": " << a << " for " << b;
  }
}

inline double inner(const std::vector<double> &a, const std::vector<double> &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

/// Expects `gradient` to agree with central differences of `loss` by each element of `x`, to 1e-6.
inline void expectGradient(Tensor<double> &x, const std::vector<double> &gradient,
                           const std::function<double()> &loss) {
  ASSERT_EQ(x.data.size(), gradient.size());
  const double h = 1e-5;
  for (size_t i = 0; i < gradient.size(); ++i) {
    double kept = x.data[i];
    x.data[i] = kept + h;
    double above = loss();
    x.data[i] = kept - h;
    double below = loss();
    x.data[i] = kept;
    ASSERT_NEAR(gradient[i], (above - below) / (2 * h), 1e-6 * std::max(1.0, std::abs(gradient[i]))) << "element " << i;
  }
}

template <class T> std::vector<double> doubles(const Tensor<T> &tensor) {
  return {tensor.data.begin(), tensor.data.end()};
}

using FloatingTypes = ::testing::Types<float, double>;

} // namespace moert::host

#endif // MOERT_TEST_KERNELSTEST_H
