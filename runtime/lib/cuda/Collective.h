//===- Collective.h - computations of collectives on a device -------------===//
#ifndef MOERT_CUDA_COLLECTIVE_H
#define MOERT_CUDA_COLLECTIVE_H

#include "cuda/Context.h"

#include <span>

namespace moert::cuda {

/// Largest number of sources of sumSources.
constexpr size_t kMostSources = 64;

/// Enqueues out[i] = sources[0][i] + sources[1][i] + .. for `count` elements of `dtype`, in that order. 16-bit types
/// are summed in f32. `out` may be one of the sources.
Status sumSources(const Target &target, std::span<const void *const> sources, void *out, int64_t count, int32_t dtype);

} // namespace moert::cuda

#endif // MOERT_CUDA_COLLECTIVE_H
