//===- DenseChoices.cpp - measured choices of dense products' algorithms --===//

#include "cuda/DenseChoices.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace moert::cuda {

constexpr size_t kDigits = 16; ///< Hexadecimal digits of one number of the data.

std::string ProductAlgorithm::text() const {
  std::string text = std::to_string(version) + ":";
  for (uint64_t number : data) {
    char digits[kDigits + 1];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
    text += digits;
  }
  return text;
}

std::optional<ProductAlgorithm> ProductAlgorithm::parse(const std::string &text) {
  ProductAlgorithm algorithm;
  auto read = [](const char *begin, const char *end, int base, auto &number) {
    const auto [last, error] = std::from_chars(begin, end, number, base);
    return error == std::errc() && last == end;
  };
  const size_t colon = text.find(':');
  if (colon == std::string::npos || text.size() - colon - 1 != kDigits * algorithm.data.size())
    return std::nullopt;
  bool isRead = read(text.data(), text.data() + colon, 10, algorithm.version);
  const char *at = text.data() + colon + 1;
  for (uint64_t &number : algorithm.data) {
    isRead = isRead && read(at, at + kDigits, 16, number);
    at += kDigits;
  }
  return isRead ? std::optional(algorithm) : std::nullopt;
}

double doublings(double a, double b) { return std::abs(std::log2(std::max(a, 1.0) / std::max(b, 1.0))); }

const ProductAlgorithm *DenseChoices::choose(const ProductShape &shape) const {
  const ProductAlgorithm *nearest = nullptr;
  double least = 1;
  for (const auto &[known, algorithm] : entries) {
    if (known.dtype != shape.dtype || known.transposeA != shape.transposeA || known.transposeB != shape.transposeB ||
        known.accumulate != shape.accumulate || known.batches != shape.batches || known.isWide != shape.isWide)
      continue;
    auto between = [](int64_t a, int64_t b) { return doublings(static_cast<double>(a), static_cast<double>(b)); };
    const double distance = between(known.m, shape.m) + between(known.n, shape.n) + between(known.k, shape.k);
    if (distance > least || (nearest && distance == least))
      continue;
    nearest = &algorithm;
    least = distance;
  }
  return nearest;
}

} // namespace moert::cuda
