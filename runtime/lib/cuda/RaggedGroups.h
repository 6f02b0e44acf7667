//===- RaggedGroups.h - ragged products as grouped kernels read them ------===//
//
// Grouped kernels read the shapes and addresses of all experts' products from arrays on the device, which a small
// kernel fills. The products of a layer share their counts and return in each step. One launch therefore fills the
// arrays of all products that the previous step had.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_RAGGEDGROUPS_H
#define MOERT_CUDA_RAGGEDGROUPS_H

#include "cuda/RaggedProducts.h"

#include <map>
#include <tuple>

namespace moert::cuda {

/// Arrays on the device.
struct GroupArrays {
  const int32_t *shapes = nullptr;                     ///< [E][3]: m, n and k of the expert's product
  const void *const *a = nullptr, *const *b = nullptr; ///< [E]
  void *const *c = nullptr;                            ///< [E]
  const int64_t *leadingA = nullptr, *leadingB = nullptr, *leadingC = nullptr; ///< [E]: elements between rows in memory
};

/// Rows of zeros that a weight gradient without rows multiplies.
inline constexpr int64_t kZeroRows = 8;

/// The grouped products of one rank.
class RaggedGroups {
public:
  /// Forgets products if there are too many, because a caller may move its memory again and again.
  void beginStep();
  /// Returns the arrays of a product with these counts. The target's stream may read them.
  Status arraysOf(const Target &target, const RaggedProduct &product, View counts, GroupArrays &arrays);

private:
  /// Products that have the same counts.
  struct List {
    std::vector<RaggedProduct> products;
    size_t filled = 0; ///< number of products that the last common launch filled
  };
  std::mutex mutex;
  /// by counts, experts and rows of the buffers
  std::map<std::tuple<const void *, int64_t, int64_t>, List> lists;
};

// --- Grouped kernels of CUTLASS ----------------------------------------------

namespace cutlass_groups {

/// Enqueues a product on a device of that compute capability, 90 or 100. canUseCutlass must allow its operands.
template <int32_t Dtype, Tile Size, int Capability>
Status multiply(const Target &target, const RaggedProduct &product, const GroupArrays &arrays);

} // namespace cutlass_groups
} // namespace moert::cuda

#endif // MOERT_CUDA_RAGGEDGROUPS_H
