//===- Module.h - how backends are found ----------------------------------===//
//
// A backend registers itself. One that needs more than every machine has, MPI or CUDA, is a shared library
// libmoert-NAME.so beside libmoert.so, loaded when it is asked for.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_MODULE_H
#define MOERT_CORE_MODULE_H

#include "core/Device.h"

namespace moert {

/// createBackend of the backends in a module.
using CreateBackend = Status(const std::string &name, std::span<const Program> programs,
                             const std::vector<Group> &groups, int64_t world, const BackendOptions &options,
                             Backend &backend);

/// Makes a backend of this library itself known by its name. Each has a static object that does.
struct BackendRegistration {
  BackendRegistration(const char *name, CreateBackend *create);
};

/// What a module exports. Where the version is another, so may be what is behind Device.h.
struct BackendModule {
  int32_t version;
  CreateBackend *create;
};
/// Goes up with every change of what modules see of the runtime.
constexpr int32_t kModuleVersion = 10;
constexpr const char *kModuleSymbol = "moert_backend_module";

} // namespace moert

#define MOERT_BACKEND_MODULE(function)                                                                                 \
  extern "C" __attribute__((visibility("default")))                                                                    \
  const moert::BackendModule moert_backend_module = {moert::kModuleVersion, function};

#endif // MOERT_CORE_MODULE_H
