//===- CallNames.h - calls in NVIDIA's tools ------------------------------===//
#ifndef MOERT_CUDA_CALLNAMES_H
#define MOERT_CUDA_CALLNAMES_H

#include "core/Metadata.h"

#include <memory>
#include <span>

namespace moert::cuda {

/// Names of all calls of programs in NVTX's domain "moe". A name is like "all_to_all 'layer0' on group 'ep'". The names
/// cost nothing if no profiler listens or the runtime is built without NVTX's headers.
class CallNames {
  struct Registered;
  struct End {
    void operator()(const Registered *names) const;
  };

public:
  /// A range of NVTX: the thread enqueues one call between its beginning and its end. Null if no profiler listens.
  using Range = std::unique_ptr<const Registered, End>;

  CallNames() = default;
  CallNames(std::span<const Program> programs, const std::vector<Group> &groups);
  Range range(size_t program, int32_t op) const;

private:
  std::shared_ptr<const Registered> names; ///< null if no profiler listens
};

} // namespace moert::cuda

#endif // MOERT_CUDA_CALLNAMES_H
