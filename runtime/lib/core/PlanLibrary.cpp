//===- PlanLibrary.cpp - a loaded plan .so --------------------------------===//

#include "core/PlanLibrary.h"
#include "core/Digest.h"
#include "core/PlanCalls.h"

#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>

namespace moert {

PlanLibrary::~PlanLibrary() {
  if (handle)
    dlclose(handle);
}

Status PlanLibrary::find(const std::string &path, const std::string &symbol, void *&address) {
  address = dlsym(handle, symbol.c_str());
  if (address)
    return {};
  return invalid("'", path, "' is not a plan: it does not export '", symbol, "'");
}

Status PlanLibrary::findProgram(const std::string &path, const Program &program, ProgramEntry &entry) {
  void *address;
  Status status = find(path, program.symbol, address);
  entry = reinterpret_cast<ProgramEntry>(address);
  return status;
}

/// Whether the file is cut. dlopen maps what the program headers name, and touching a missing part would end the
/// process.
static bool isTruncated(const std::string &path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  auto size = static_cast<uint64_t>(file.tellg());
  Elf64_Ehdr header;
  file.seekg(0);
  // dlopen refuses other files.
  if (!file.read(reinterpret_cast<char *>(&header), sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return false;
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!file.read(reinterpret_cast<char *>(&segment), sizeof segment) || segment.p_offset > size ||
        segment.p_filesz > size - segment.p_offset)
      return true;
  }
  return false;
}

Status PlanLibrary::open(const std::string &path) {
  // Without a slash dlopen would search the library path instead of the working directory. Symbols are bound when
  // called, so that the metadata of a plan for another version is read first.
  std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  if (isTruncated(file))
    return invalid("cannot load plan: '", path, "' is truncated");
  handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!handle)
    return invalid("cannot load plan: ", dlerror());
  Sha256::Digest sum;
  MOERT_RETURN_IF_ERROR(digestOfFile(file, sum));
  digest = hexOf(sum);
  void *address;
  MOERT_RETURN_IF_ERROR(find(path, "moeplan_metadata", address));
  metadataText = static_cast<const char *>(address);
  if (Status status = parseMetadata(metadataText, variants); !status.ok())
    return Status::error(status.code, "'", path, "': ", status.message);
  for (const Metadata &variant : variants) {
    PlanEntries &found = entries.emplace_back();
    for (const Program &program : variant.programs)
      MOERT_RETURN_IF_ERROR(findProgram(path, program, found.ranks.emplace_back()));
    if (variant.reference)
      MOERT_RETURN_IF_ERROR(findProgram(path, *variant.reference, found.reference));
  }
  // The metadata has said that this version has the calls.
  bindCalls(handle);
  if (!hasShapes(variants))
    return {};
  Status status = find(path, "moeplan_choose", address);
  choose = reinterpret_cast<decltype(choose)>(address);
  return status;
}

} // namespace moert
