//===- DenseChoices.h - measured choices of dense products' algorithms ----===//
//
// Choices of cuBLASLt's algorithms for dense products. cuBLASLt guesses the fastest algorithm, and moe-calibrate
// --products measures it. All ranks read the same table, because different algorithms round differently.
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

/// The product c [m,n] = op(a) op(b), row-major and dense, with op(a) [m,k] and op(b) [k,n]. With `accumulate` the
/// product is added to c. `batches` products follow each other in memory. Any size may be 0.
struct ProductShape {
  int32_t dtype = 0; ///< moert_dtype of a and b
  int64_t m = 0, n = 0, k = 0;
  bool transposeA = false, transposeB = false;
  bool accumulate = false;
  int64_t batches = 1;
  bool isWide = false; ///< c has f32, a and b 16 bits

  int32_t resultType() const { return isWide ? int32_t(MOERT_F32) : dtype; }
  auto operator<=>(const ProductShape &) const = default;
};

/// An algorithm of cuBLASLt. Only the same version of cuBLASLt knows it.
struct ProductAlgorithm {
  size_t version = 0;             ///< cublasLtGetVersion
  std::array<uint64_t, 8> data{}; ///< the data of cublasLtMatmulAlgo_t

  bool operator==(const ProductAlgorithm &) const = default;
  /// Returns the version, a colon, and the data as 128 hexadecimal digits.
  std::string text() const;
  /// Reads the text of an algorithm. Empty if the text is no algorithm.
  static std::optional<ProductAlgorithm> parse(const std::string &text);
};

/// Number of doublings from the smaller number to the larger one.
double doublings(double a, double b);

class DenseChoices {
public:
  struct Entry {
    ProductShape shape;
    ProductAlgorithm algorithm;
  };

  DenseChoices() = default;
  explicit DenseChoices(std::vector<Entry> entries) : entries(std::move(entries)) {}

  /// Finds the entry of the same type and transposes whose sizes are nearest, at most one doubling away in total. Null
  /// if there is none, and for a product that accumulates, has several batches, or has a result of f32.
  const ProductAlgorithm *choose(const ProductShape &shape) const;

private:
  std::vector<Entry> entries;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_DENSECHOICES_H
