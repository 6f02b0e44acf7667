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

public:
  /// A range of NVTX: the thread enqueues one call between its beginning and its end.
  class Range {
  public:
    Range(const Registered *names, size_t program, int32_t op);
    ~Range();
    Range(const Range &) = delete;
    Range &operator=(const Range &) = delete;

  private:
    const Registered *names; ///< null if no profiler listens
  };

  CallNames() = default;
  CallNames(std::span<const Program> programs, const std::vector<Group> &groups);
  Range range(size_t program, int32_t op) const { return {names.get(), program, op}; }

private:
  std::shared_ptr<const Registered> names; ///< null if no profiler listens
};

} // namespace moert::cuda

#endif // MOERT_CUDA_CALLNAMES_H
