//===- CallNames.h - calls in NVIDIA's tools ------------------------------===//
#ifndef MOERT_CUDA_CALLNAMES_H
#define MOERT_CUDA_CALLNAMES_H

#include "core/Metadata.h"

#include <memory>
#include <span>

namespace moert::cuda {

/// The names of all calls of programs in NVTX's domain "moe", where a profiler listens; where none does, or the runtime
/// is built without NVTX's headers, this costs nothing. A name is like "all_to_all 'layer0' on group 'ep'".
class CallNames {
  struct Registered;

public:
  /// Between its beginning and its end the thread enqueues what a call does.
  class Range {
  public:
    Range(const Registered *names, size_t program, int32_t op);
    ~Range();
    Range(const Range &) = delete;
    Range &operator=(const Range &) = delete;

  private:
    const Registered *names; ///< null where nothing is said
  };

  CallNames() = default;
  CallNames(std::span<const Program> programs, const std::vector<Group> &groups);
  Range range(size_t program, int32_t op) const { return {names.get(), program, op}; }

private:
  std::shared_ptr<const Registered> names; ///< null where nobody listens
};

} // namespace moert::cuda

#endif // MOERT_CUDA_CALLNAMES_H
