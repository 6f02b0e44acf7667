//===- Backends.h - the backends of CUDA ----------------------------------===//
#ifndef MOERT_CUDA_BACKENDS_H
#define MOERT_CUDA_BACKENDS_H

#include "core/Device.h"

namespace moert::cuda {

/// The rank of this process on a GPU of its own.
Status createDirect(std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
                    const BackendOptions &options, Backend &backend);

/// The rank of this process on the current GPU, among the work of a caller, whose streams and communicators it uses.
Status createCaller(std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
                    const BackendOptions &options, Backend &backend);

/// All ranks in this process, on one GPU: for checking plans.
Status createLoopback(std::span<const Program> programs, const std::vector<Group> &groups, int64_t world,
                      const BackendOptions &options, Backend &backend);

} // namespace moert::cuda

#endif // MOERT_CUDA_BACKENDS_H
