//===- Module.h - how backends are found ----------------------------------===//
//
// A backend registers itself. A backend that needs MPI or CUDA is a shared library libmoert-NAME.so beside libmoert.so,
// which is loaded when it is asked for.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_MODULE_H
#define MOERT_CORE_MODULE_H

#include "core/Device.h"

namespace moert {

/// Function that makes one of a module's backends; see createBackend.
using CreateBackend = Status(const std::string &name, std::span<const Program> programs,
                             const std::vector<Group> &groups, int64_t world, const BackendOptions &options,
                             Backend &backend);

/// Registers a backend of this library by its name, through a static object.
struct BackendRegistration {
  BackendRegistration(const char *name, CreateBackend *create);
};

/// The symbol that a module exports. If the version differs, Device.h may differ too.
struct BackendModule {
  int32_t version;
  CreateBackend *create;
};
/// Raised whenever something changes that modules see of the runtime.
constexpr int32_t kModuleVersion = 10;
constexpr const char *kModuleSymbol = "moert_backend_module";

} // namespace moert

#define MOERT_BACKEND_MODULE(function)                                                                                 \
  extern "C" __attribute__((visibility("default")))                                                                    \
  const moert::BackendModule moert_backend_module = {moert::kModuleVersion, function};

#endif // MOERT_CORE_MODULE_H
