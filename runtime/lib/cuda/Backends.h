//===- Backends.h - the backends of CUDA ----------------------------------===//
#ifndef MOERT_CUDA_BACKENDS_H
#define MOERT_CUDA_BACKENDS_H

#include "core/Device.h"

namespace moert::cuda {

/// Creates the backend of one rank, on a GPU of its own.
Status createDirect(std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
                    const BackendOptions &options, Backend &backend);

/// Creates the backend of one rank in a caller's process. It uses the current GPU, and the caller's streams and
/// communicators.
Status createCaller(std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
                    const BackendOptions &options, Backend &backend);

/// Creates all ranks in this process, on one GPU. This backend checks plans.
Status createLoopback(std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
                      const BackendOptions &options, Backend &backend);

} // namespace moert::cuda

#endif // MOERT_CUDA_BACKENDS_H
