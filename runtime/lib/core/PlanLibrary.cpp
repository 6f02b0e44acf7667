//===- PlanLibrary.cpp - a loaded plan .so --------------------------------===//

#include "core/PlanLibrary.h"

#include <dlfcn.h>

namespace moert {

PlanLibrary::~PlanLibrary() {
  if (handle)
    dlclose(handle);
}

Status PlanLibrary::find(const std::string &path, const std::string &symbol, void *&address) {
  address = dlsym(handle, symbol.c_str());
  if (address)
    return {};
  return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                       "'" + path + "' is not a plan: it does not export '" + symbol + "'");
}

Status PlanLibrary::open(const std::string &path) {
  // Without a slash dlopen would search the library path instead of the working directory. Symbols are bound when called,
  // so that a plan of another version is told apart by its metadata.
  std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!handle)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, std::string("cannot load plan: ") + dlerror());
  void *address;
  if (Status status = find(path, "moeplan_metadata", address); !status.ok())
    return status;
  metadataText = static_cast<const char *>(address);
  if (Status status = parseMetadata(metadataText, metadata); !status.ok())
    return Status::error(status.code, "'" + path + "': " + status.message);
  if (Status status = find(path, metadata.rank.symbol, address); !status.ok())
    return status;
  rankEntry = reinterpret_cast<RankProgram>(address);
  if (!metadata.reference)
    return {};
  if (Status status = find(path, metadata.reference->symbol, address); !status.ok())
    return status;
  referenceEntry = reinterpret_cast<RankProgram>(address);
  return {};
}

} // namespace moert
