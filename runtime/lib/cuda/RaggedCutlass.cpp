//===- RaggedCutlass.cpp - choice of CUTLASS's kernel for a product -------===//

#include "cuda/RaggedGroups.h"

#include <climits>

#ifndef MOERT_HAS_CUTLASS_90
#define MOERT_HAS_CUTLASS_90 0
#endif
#ifndef MOERT_HAS_CUTLASS_100
#define MOERT_HAS_CUTLASS_100 0
#endif
#ifndef MOERT_CUTLASS_100_IS_FAMILY
#define MOERT_CUTLASS_100_IS_FAMILY 0
#endif

namespace moert::cuda {
namespace {

/// Whether a device runs the kernels of compute capability 10.0: all of its family, if nvcc compiled them for it.
constexpr bool isLike100(int capability) {
  return capability == 100 || (MOERT_CUTLASS_100_IS_FAMILY && capability / 10 == 10);
}

/// Whether this build has CUTLASS's kernels for a compute capability. They use instructions that other devices lack.
constexpr bool hasKernels(int capability) {
  return (MOERT_HAS_CUTLASS_90 && capability == 90) || (MOERT_HAS_CUTLASS_100 && isLike100(capability));
}

template <int32_t Dtype, int Capability>
Status multiplyTyped(const Target &target, const RaggedProduct &product, const GroupArrays &arrays, Tile tile) {
  using cutlass_groups::multiply;
  switch (tile) {
  case Tile::Tall:
    return multiply<Dtype, Tile::Tall, Capability>(target, product, arrays);
  case Tile::Wide:
    return multiply<Dtype, Tile::Wide, Capability>(target, product, arrays);
  case Tile::Small:
    break;
  }
  return multiply<Dtype, Tile::Small, Capability>(target, product, arrays);
}

template <int Capability>
Status multiplyOn(const Target &target, const RaggedProduct &product, const GroupArrays &arrays, Tile tile) {
  if constexpr (hasKernels(Capability))
    return product.dtype == MOERT_BF16 ? multiplyTyped<MOERT_BF16, Capability>(target, product, arrays, tile)
                                       : multiplyTyped<MOERT_F16, Capability>(target, product, arrays, tile);
  return Status::error(MOERT_ERROR_UNSUPPORTED, "this build has no CUTLASS for the device");
}

} // namespace

bool hasCutlassFor(const DeviceContext &device) { return hasKernels(device.capability); }

/// Whether CUTLASS can compute the product. It loads by 16 bytes and counts in 32 bits.
bool canUseCutlass(const Target &target, const RaggedProduct &product) {
  auto isAligned = [](const void *data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
  constexpr int64_t kPack = 8;
  return hasCutlassFor(target.device) && isNarrow(product.dtype) && product.n % kPack == 0 && product.k % kPack == 0 &&
         product.k > 0 && std::max({product.n, product.k, product.rows}) <= INT_MAX && isAligned(product.a) &&
         isAligned(product.b) && isAligned(product.c);
}

Status multiplyByCutlass(const Target &target, const RaggedProduct &product, View counts, Tile tile) {
  GroupArrays arrays;
  MOERT_RETURN_IF_ERROR(target.stream.groups->arraysOf(target, product, counts, arrays));
  return target.device.capability == 90 ? multiplyOn<90>(target, product, arrays, tile)
                                        : multiplyOn<100>(target, product, arrays, tile);
}

} // namespace moert::cuda
