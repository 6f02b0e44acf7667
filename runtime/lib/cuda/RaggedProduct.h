//===- RaggedProduct.h - a product of experts, and its methods ------------===//
#ifndef MOERT_CUDA_RAGGEDPRODUCT_H
#define MOERT_CUDA_RAGGEDPRODUCT_H

#include "core/View.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moert::cuda {

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
  bool isWeightGradient() const { return pass == Pass::WeightGradient; }
  bool operator==(const RaggedProduct &) const = default;
};

/// Methods of computing ragged products.
enum class RaggedMethod {
  Tiles, ///< own kernel, 16-bit types. Reads offsets on the device
  /// CUTLASS's grouped kernel of some devices, 16-bit types, tiles of 256 x 128. Reads offsets on the device
  CutlassCooperative,
  CutlassPingpong, ///< the same with tiles of 128 x 128
  CublasGrouped,   ///< one call of cuBLAS for all experts. The host reads the offsets
  CublasLt1,       ///< a call of cuBLASLt for each expert, on one stream. The host reads the offsets
  CublasLt2,       ///< the same on two streams
  CublasLt4,       ///< the same on four streams
};
constexpr RaggedMethod kRaggedMethods[] = {RaggedMethod::Tiles,           RaggedMethod::CutlassCooperative,
                                           RaggedMethod::CutlassPingpong, RaggedMethod::CublasGrouped,
                                           RaggedMethod::CublasLt1,       RaggedMethod::CublasLt2,
                                           RaggedMethod::CublasLt4};
/// Name of a method: "tiles", "cutlass-pingpong", "cublas-grouped", "cublaslt-1", ..
const char *methodName(RaggedMethod method);
std::optional<RaggedMethod> findMethod(std::string_view name);
/// Names of all methods, with commas and an "or" before the last one.
std::string methodNames();

} // namespace moert::cuda

#endif // MOERT_CUDA_RAGGEDPRODUCT_H
