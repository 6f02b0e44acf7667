//===- CallNames.h - calls in NVIDIA's tools ------------------------------===//
#ifndef MOERT_CUDA_CALLNAMES_H
#define MOERT_CUDA_CALLNAMES_H

#include "core/Metadata.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define MOERT_HAS_NVTX 1
#endif

#include <span>
#include <string>
#include <vector>

namespace moert::cuda {

/// "all_to_all 'layer0' on group 'ep'".
std::string callName(const Op &op, const std::vector<Group> &groups);

/// The names of all calls of programs in NVTX's domain "moe", where a profiler listens; where none does, or the runtime
/// is built without NVTX's headers, this costs nothing.
class CallNames {
public:
  /// Between its beginning and its end the thread enqueues what a call does.
  class Range {
  public:
    ~Range() { names.pop(); }
    Range(const Range &) = delete;
    Range &operator=(const Range &) = delete;

  private:
    friend class CallNames;
    explicit Range(const CallNames &names) : names(names) {}
    const CallNames &names;
  };

  CallNames() = default;
  CallNames(std::span<const Program> programs, const std::vector<Group> &groups);
  Range range(size_t program, int32_t op) const {
    push(program, op);
    return Range(*this);
  }

private:
  void push(size_t program, int32_t op) const;
  void pop() const;

#if MOERT_HAS_NVTX
  nvtxDomainHandle_t domain = nullptr;                ///< null where nobody listens
  std::vector<std::vector<nvtxStringHandle_t>> names; ///< by program, then by op
#endif
};

} // namespace moert::cuda

#endif // MOERT_CUDA_CALLNAMES_H
