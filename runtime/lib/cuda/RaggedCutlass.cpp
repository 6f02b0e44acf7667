//===- RaggedCutlass.cpp - which of CUTLASS's kernels computes a product --===//

#include "cuda/RaggedCutlass.h"

#include <climits>

namespace moert::cuda {

/// CUTLASS loads by 16 bytes and counts in 32 bits. Its kernels are for compute capability 9.0 alone.
bool canUseCutlass(const Target &target, const RaggedProduct &product) {
#if MOERT_HAS_CUTLASS
  auto isAligned = [](const void *data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
  constexpr int64_t kPack = 8;
  return target.device.capability == 90 && isNarrow(product.dtype) && product.n % kPack == 0 &&
         product.k % kPack == 0 && product.k > 0 && std::max({product.n, product.k, product.rows}) <= INT_MAX &&
         isAligned(product.a) && isAligned(product.b) && isAligned(product.c);
#else
  static_cast<void>(target);
  static_cast<void>(product);
  return false;
#endif
}

Status multiplyByCutlass(const Target &target, const RaggedProduct &product, View counts, bool isPingpong) {
#if MOERT_HAS_CUTLASS
  using namespace cutlass_groups;
  GroupArrays arrays;
  MOERT_RETURN_IF_ERROR(target.stream.groups->arraysOf(target, product, counts, arrays));
  if (product.dtype == MOERT_BF16)
    return isPingpong ? multiplyBf16Pingpong(target, product, arrays)
                      : multiplyBf16Cooperative(target, product, arrays);
  return isPingpong ? multiplyF16Pingpong(target, product, arrays) : multiplyF16Cooperative(target, product, arrays);
#else
  static_cast<void>(target);
  static_cast<void>(product);
  static_cast<void>(counts);
  static_cast<void>(isPingpong);
  return Status::error(MOERT_ERROR_UNSUPPORTED, "this build has no CUTLASS");
#endif
}

} // namespace moert::cuda
