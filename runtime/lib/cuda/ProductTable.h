//===- ProductTable.h - products, and the measured choices of their ways --===//
//
// Products of matrices, and the fastest methods and algorithms for them. These depend on the device and on the sizes,
// so moe-calibrate --products measures them. All ranks read the same table, because different algorithms round
// differently.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_PRODUCTTABLE_H
#define MOERT_CUDA_PRODUCTTABLE_H

#include "core/View.h"

#include <array>
#include <compare>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert::cuda {

// --- Dense products ----------------------------------------------------------

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

/// Measured algorithms, in place of those that cuBLASLt guesses.
class DenseChoices {
public:
  struct Entry {
    ProductShape product;
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

// --- Products of experts -----------------------------------------------------

/// Products of all experts e, whose rows are offsets[e] to offsets[e+1]. Matrices are row-major and dense.
struct RaggedProduct {
  /// Forward: c [R,n] = a [R,k] op(b[e]), b [E,k,n] or, transposed, [E,n,k]. The gradient of rows is such a product.
  /// WeightGradient: c [E,k,n] = a_e^T b_e of a [R,k] and b [R,n]. With `accumulate` the product is added to c.
  enum class Pass { Forward, WeightGradient };
  Pass pass = Pass::Forward;
  int32_t dtype = 0;
  int64_t experts = 0, rows = 0, n = 0, k = 0; ///< rows: of the buffers, R
  bool transposeB = false, accumulate = false;
  bool isWide = false; ///< c has f32, a and b 16 bits. Only gradients of weights
  const void *a = nullptr, *b = nullptr;
  void *c = nullptr;

  int32_t resultType() const { return isWide ? int32_t(MOERT_F32) : dtype; }
  constexpr bool isWeightGradient() const { return pass == Pass::WeightGradient; }
  bool operator==(const RaggedProduct &) const = default;
};

/// Methods of computing ragged products.
enum class RaggedMethod {
  Tiles, ///< own kernel, 16-bit types. Reads offsets on the device
  /// CUTLASS's grouped kernel of some devices, 16-bit types, tiles of 256 x 128. Reads offsets on the device
  CutlassCooperative,
  CutlassWide,     ///< the same with tiles of 128 x 256
  CutlassPingpong, ///< the same with tiles of 128 x 128
  CublasGrouped,   ///< one call of cuBLAS for all experts. The host reads the offsets
  CublasLt1,       ///< a call of cuBLASLt for each expert, on one stream. The host reads the offsets
  CublasLt2,       ///< the same on two streams
  CublasLt4,       ///< the same on four streams
};
constexpr RaggedMethod kRaggedMethods[] = {RaggedMethod::Tiles,         RaggedMethod::CutlassCooperative,
                                           RaggedMethod::CutlassWide,   RaggedMethod::CutlassPingpong,
                                           RaggedMethod::CublasGrouped, RaggedMethod::CublasLt1,
                                           RaggedMethod::CublasLt2,     RaggedMethod::CublasLt4};
/// Name of a method: "tiles", "cutlass-pingpong", "cublas-grouped", "cublaslt-1", ..
const char *methodName(RaggedMethod method);
std::optional<RaggedMethod> findMethod(std::string_view name);
/// Names of all methods, with commas and an "or" before the last one.
std::string methodNames();

/// Measured methods.
class RaggedChoices {
public:
  using CanCompute = std::function<bool(RaggedMethod)>;
  struct Entry {
    RaggedProduct product;             ///< without addresses
    std::vector<RaggedMethod> methods; ///< the chosen method, then the measured ones from the fastest to the slowest
  };

  RaggedChoices() = default;
  explicit RaggedChoices(std::vector<Entry> entries) : entries(std::move(entries)) {}

  /// Finds the entry of the same type, pass and transpose whose sizes are nearest, and returns its fastest method that
  /// can compute the product. Empty if no entry or no method suits.
  std::optional<RaggedMethod> choose(const RaggedProduct &product, const CanCompute &canCompute) const;

private:
  std::vector<Entry> entries;
};

// --- The table ---------------------------------------------------------------

/// Reads the JSON file that moe-calibrate --products writes. An error names the file and the place in it.
Status readProducts(const std::string &file, RaggedChoices &ragged, DenseChoices &dense);

} // namespace moert::cuda

#endif // MOERT_CUDA_PRODUCTTABLE_H
