//===- Backend.cpp - the backends of this runtime, by name ----------------===//

#include "core/Module.h"

#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <unistd.h>

namespace moert {
namespace {

/// Backends in this library, by name.
std::map<std::string, CreateBackend *> &ownBackends() {
  static std::map<std::string, CreateBackend *> backends;
  return backends;
}

/// A backend in its own library, and the software that the library is built with.
struct KnownModule {
  const char *name, *needs;
};
constexpr KnownModule kKnownModules[] = {{"mpi", "MPI"}, {"cuda", "CUDA"}, {"cuda-loopback", "CUDA"}};

/// The module of a backend; both of CUDA's backends are in one.
std::string moduleOf(const std::string &backend) { return backend.substr(0, backend.find('-')); }

/// Folder of the library that contains this code.
std::string ownFolder() {
  Dl_info info;
  std::string path = ::dladdr(reinterpret_cast<void *>(&ownFolder), &info) && info.dli_fname ? info.dli_fname : "";
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// Finds the file of a backend's module, in the folder MOERT_BACKENDS if that is set, or beside this library. Empty if
/// there is none.
std::string findModule(const std::string &name) {
  std::vector<std::string> folders = {ownFolder()};
  if (const char *folder = std::getenv("MOERT_BACKENDS"))
    folders.insert(folders.begin(), folder);
  for (const std::string &folder : folders) {
    std::string path = folder + "/libmoert-" + moduleOf(name) + ".so";
    if (::access(path.c_str(), F_OK) == 0)
      return path;
  }
  return "";
}

std::string nameOwnBackends() {
  std::string names;
  for (const auto &[name, create] : ownBackends())
    names += (names.empty() ? "" : ", ") + name;
  return names;
}

Status loadModule(const KnownModule &known, CreateBackend *&create) {
  const std::string name = known.name, path = findModule(name);
  if (path.empty()) {
    std::string available = nameOwnBackends();
    for (const KnownModule &other : kKnownModules)
      available += findModule(other.name).empty() ? "" : std::string(", ") + other.name;
    return Status::error(MOERT_ERROR_UNSUPPORTED, "backend '", name, "' is not in this runtime, since ", known.needs,
                         " was missing when it was built; available: ", available);
  }
  // The library stays open: its threads end with the process.
  void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "backend '", name, "' cannot be loaded: ", ::dlerror());
  auto *module = static_cast<const BackendModule *>(::dlsym(library, kModuleSymbol));
  if (!module || module->version != kModuleVersion)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "'", path, "' belongs to another version of this runtime");
  create = module->create;
  return {};
}

} // namespace

BackendRegistration::BackendRegistration(const char *name, CreateBackend *create) { ownBackends()[name] = create; }

Status createBackend(const std::string &name, std::span<const Program> programs, const std::vector<Group> &groups,
                     int64_t world, const BackendOptions &options, Backend &backend) {
  if (auto own = ownBackends().find(name); own != ownBackends().end())
    return own->second(name, programs, groups, world, options, backend);
  for (const KnownModule &known : kKnownModules)
    if (name == known.name) {
      CreateBackend *create = nullptr;
      MOERT_RETURN_IF_ERROR(loadModule(known, create));
      return create(name, programs, groups, world, options, backend);
    }
  std::string expected = nameOwnBackends();
  for (const KnownModule &known : kKnownModules)
    expected += (&known == std::end(kKnownModules) - 1 ? " or " : ", ") + std::string(known.name);
  return invalid("unknown backend '", name, "', expected ", expected);
}

} // namespace moert
