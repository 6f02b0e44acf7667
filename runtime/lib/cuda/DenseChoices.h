//===- DenseChoices.h - measured choices of dense products' algorithms ----===//
//
// cuBLASLt guesses which of its algorithms is the fastest for a product. moe-calibrate --products measures that. All
// ranks read the same table, since ranks that chose differently would round differently.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_DENSECHOICES_H
#define MOERT_CUDA_DENSECHOICES_H

#include "core/View.h"

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moert::cuda {

/// c [m,n] = op(a) op(b), row-major and dense, with op(a) [m,k], op(b) [k,n]; with `accumulate` that is added to c.
/// `batches` of them follow each other. Any size may be 0.
struct ProductShape {
  int32_t dtype = 0; ///< moert_dtype of a and b
  int64_t m = 0, n = 0, k = 0;
  bool transposeA = false, transposeB = false;
  bool accumulate = false;
  int64_t batches = 1;
  bool isWide = false; ///< c is of f32, a and b of 16 bits

  int32_t resultType() const { return isWide ? int32_t(MOERT_F32) : dtype; }
  auto operator<=>(const ProductShape &) const = default;
};

/// One of cuBLASLt's algorithms, which only the same version of cuBLASLt knows.
struct ProductAlgorithm {
  size_t version = 0;             ///< cublasLtGetVersion
  std::array<uint64_t, 8> data{}; ///< of cublasLtMatmulAlgo_t

  bool operator==(const ProductAlgorithm &) const = default;
  /// The version, a colon, and the data as 128 hexadecimal digits.
  std::string text() const;
  /// Nothing where the text is no algorithm's.
  static std::optional<ProductAlgorithm> parse(const std::string &text);
};

/// How many times the smaller of two numbers must be doubled to be the larger one.
double doublings(double a, double b);

class DenseChoices {
public:
  struct Entry {
    ProductShape shape;
    ProductAlgorithm algorithm;
  };

  DenseChoices() = default;
  explicit DenseChoices(std::vector<Entry> entries) : entries(std::move(entries)) {}

  /// By the entry of the same type and transposes whose sizes are nearest, at most one doubling away in all; null where
  /// there is none. A product that accumulates, of several batches, or with a result of f32, has none.
  const ProductAlgorithm *choose(const ProductShape &shape) const;

private:
  std::vector<Entry> entries;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_DENSECHOICES_H
