//===- Multiply.h - product of copied matrices ----------------------------===//
#ifndef MOERT_TEST_CUDA_EMULATION_MULTIPLY_H
#define MOERT_TEST_CUDA_EMULATION_MULTIPLY_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moert::emulation {

/// Adds the product of an m x k and a k x n matrix to an m x n matrix. Rows follow each other. Only copies of operands
/// come here, so sanitizers would find no error of the tested code.
template <class Sum>
[[gnu::no_sanitize("address", "thread", "undefined")]] void addProduct(const Sum *left, const Sum *right, Sum *sums,
                                                                       int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l) {
      const Sum factor = left[i * k + l];
      for (int64_t j = 0; j < n; ++j)
        sums[i * n + j] += factor * right[l * n + j];
    }
}

/// Product of matrices whose elements left(i, l) and right(l, j) are read once, in rows.
template <class Sum, class Left, class Right>
std::vector<Sum> product(int64_t m, int64_t n, int64_t k, Left left, Right right) {
  auto copied = [](int64_t rows, int64_t columns, auto element) {
    std::vector<Sum> copy(static_cast<size_t>(rows * columns));
    Sum *to = copy.data();
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column)
        *to++ = element(row, column);
    return copy;
  };
  const std::vector<Sum> a = copied(m, k, left), b = copied(k, n, right);
  std::vector<Sum> sums(static_cast<size_t>(m * n));
  addProduct(a.data(), b.data(), sums.data(), m, n, k);
  return sums;
}

} // namespace moert::emulation

#endif // MOERT_TEST_CUDA_EMULATION_MULTIPLY_H
