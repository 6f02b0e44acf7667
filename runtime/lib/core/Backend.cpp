//===- Backend.cpp - the backends of this runtime, by name ----------------===//

#include "host/HostBackend.h"

namespace moert {

Status createBackend(const std::string &name, std::span<const Program> programs, const std::vector<Group> &groups,
                     int64_t world, const BackendOptions &options, Backend &backend) {
  if (name == "host") {
    backend = host::createHostBackend(programs, groups, world, options);
    return {};
  }
  if (name == "mpi" || name == "cuda" || name == "cuda-loopback")
    return Status::error(MOERT_ERROR_UNSUPPORTED,
                         "backend '" + name + "' is not built in this runtime; available: host");
  return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                       "unknown backend '" + name + "', expected host, mpi, cuda or cuda-loopback");
}

} // namespace moert
