//===- RaggedGroups.h - ragged products as grouped kernels read them ------===//
//
// Grouped kernels read the shapes and addresses of all experts' products from arrays of the device, which a small
// kernel fills. The products of a layer share their counts and come again in each step: so those that a step has seen
// are all filled by one launch in the next.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_RAGGEDGROUPS_H
#define MOERT_CUDA_RAGGEDGROUPS_H

#include "cuda/RaggedProducts.h"

#include <map>
#include <tuple>

namespace moert::cuda {

/// Arrays of the device.
struct GroupArrays {
  const int32_t *shapes = nullptr;                     ///< [E][3]: m, n and k of the expert's product
  const void *const *a = nullptr, *const *b = nullptr; ///< [E]
  void *const *c = nullptr;                            ///< [E]
  const int64_t *leadingA = nullptr, *leadingB = nullptr, *leadingC = nullptr; ///< [E]: elements between rows in memory
};

/// A weight gradient without rows is a product of so many rows of zeros.
inline constexpr int64_t kZeroRows = 8;

/// Of one rank.
class RaggedGroups {
public:
  /// Forgets products where there are too many: a caller may move its memory again and again.
  void beginStep();
  /// The arrays of a product with these counts, which the stream of the target may read.
  Status arraysOf(const Target &target, const RaggedProduct &product, View counts, GroupArrays &arrays);

private:
  /// The products that have the same counts.
  struct List {
    std::vector<RaggedProduct> products;
    size_t filled = 0; ///< how many of them the last launch for all filled
  };
  std::mutex mutex;
  /// By counts, experts and rows of the buffers.
  std::map<std::tuple<const void *, int64_t, int64_t>, List> lists;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_RAGGEDGROUPS_H
