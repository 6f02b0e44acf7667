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

/// A backend in its own library, the software that the library is built with, the extra of the Python package that has
/// it, and what to do if a library that it needs is missing.
struct KnownModule {
  const char *name, *needs, *extra, *remedy;
};
constexpr const char *kInstallMpi =
    "install the MPI that it was built with (Open MPI in moeplan[mpi]), or load its module";
constexpr const char *kInstallCuda =
    "install cuBLAS (pip install nvidia-cublas), or name its folder in LD_LIBRARY_PATH";
constexpr KnownModule kKnownModules[] = {{"mpi", "MPI", "mpi", kInstallMpi},
                                         {"cuda", "CUDA", "cuda13", kInstallCuda},
                                         {"cuda-loopback", "CUDA", "cuda13", kInstallCuda}};

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
    return Status::error(MOERT_ERROR_UNSUPPORTED, "backend '", name, "' is not in this runtime: build it where ",
                         known.needs, " is, or add it to the Python package by pip install moeplan[", known.extra,
                         "]; available: ", available);
  }
  // The library stays open: its threads end with the process.
  void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "backend '", name, "' cannot be loaded: ", ::dlerror(), "; ",
                         known.remedy);
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
