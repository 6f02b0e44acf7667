//===- Collective.h - what collectives compute on a device ----------------===//
#ifndef MOERT_CUDA_COLLECTIVE_H
#define MOERT_CUDA_COLLECTIVE_H

#include "cuda/Context.h"

#include <span>

namespace moert::cuda {

/// As many sources as sumSources takes.
constexpr size_t kMostSources = 64;

/// out[i] = sources[0][i] + sources[1][i] + .. for `count` elements of `dtype`, in that order, 16-bit types in f32; out
/// may be one of the sources.
Status sumSources(const Target &target, std::span<const void *const> sources, void *out, int64_t count, int32_t dtype);

} // namespace moert::cuda

#endif // MOERT_CUDA_COLLECTIVE_H
