//===- PlanLibrary.cpp - a loaded plan .so --------------------------------===//

#include "core/PlanLibrary.h"
#include "core/Digest.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <link.h>
#include <map>
#include <mutex>
#include <sys/stat.h>

namespace moert {
namespace {

/// Relocations of a library's calls, with the tables that they refer to.
struct CallTable {
  const Elf64_Sym *symbols = nullptr;
  const char *names = nullptr;
  const Elf64_Rela *begin = nullptr;
  Elf64_Xword bytes = 0;
  bool isBound = false; ///< bound when the library was loaded, and perhaps read-only since

  const Elf64_Rela *end() const { return begin + bytes / sizeof *begin; }
};

/// Reads the dynamic section, whose addresses glibc has made absolute.
CallTable readCalls(const link_map &library) {
  CallTable calls;
  for (const Elf64_Dyn *entry = library.l_ld; entry->d_tag != DT_NULL; ++entry) {
    auto *address = reinterpret_cast<const void *>(entry->d_un.d_ptr);
    switch (entry->d_tag) {
    case DT_SYMTAB:
      calls.symbols = static_cast<const Elf64_Sym *>(address);
      break;
    case DT_STRTAB:
      calls.names = static_cast<const char *>(address);
      break;
    case DT_JMPREL:
      calls.begin = static_cast<const Elf64_Rela *>(address);
      break;
    case DT_PLTRELSZ:
      calls.bytes = entry->d_un.d_val;
      break;
    case DT_BIND_NOW:
      calls.isBound = true;
      break;
    case DT_FLAGS:
      calls.isBound |= (entry->d_un.d_val & DF_BIND_NOW) != 0;
      break;
    }
  }
  return calls;
}

bool isCall(const Elf64_Rela &relocation) {
#if defined(__x86_64__)
  return ELF64_R_TYPE(relocation.r_info) == R_X86_64_JUMP_SLOT;
#elif defined(__aarch64__)
  return ELF64_R_TYPE(relocation.r_info) == R_AARCH64_JUMP_SLOT;
#else
  return false;
#endif
}

/// Binds the calls of the plan `handle` (dlopen) to functions of the whole process, or to those of this library. A plan
/// names no library, so dlopen alone finds them only if libmoert is visible to the whole process. It is not visible if
/// an extension of Python loaded it, and must not be: its BLAS would replace the BLAS of PyTorch. Calls that are not
/// found stay as they are.
void bindCalls(void *handle) {
  link_map *library = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &library) != 0)
    return;
  CallTable calls = readCalls(*library);
  if (!calls.begin || !calls.symbols || !calls.names || calls.isBound)
    return;
  for (const Elf64_Rela *call = calls.begin; call != calls.end(); ++call) {
    if (!isCall(*call))
      continue;
    const char *name = calls.names + calls.symbols[ELF64_R_SYM(call->r_info)].st_name;
    if (void *function = dlsym(RTLD_DEFAULT, name))
      *reinterpret_cast<void **>(library->l_addr + call->r_offset) = function;
  }
}

} // namespace

PlanLibrary::~PlanLibrary() {
  if (handle)
    dlclose(handle);
}

Status PlanLibrary::find(const std::string &path, const std::string &symbol, void *&address) {
  address = dlsym(handle, symbol.c_str());
  return invalidUnless(address != nullptr, "'", path, "' is not a plan: it does not export '", symbol, "'");
}

Status PlanLibrary::findProgram(const std::string &path, const Program &program, ProgramEntry &entry) {
  void *address;
  Status status = find(path, program.symbol, address);
  entry = reinterpret_cast<ProgramEntry>(address);
  return status;
}

/// Name of an architecture of ELF files.
static std::string nameMachine(int machine) {
  return machine == EM_X86_64 ? "x86-64" : machine == EM_AARCH64 ? "AArch64" : "machine " + std::to_string(machine);
}

/// Finds what is wrong with the file of a plan. dlopen maps what the program headers name, and touching a missing part
/// would end the process. dlopen also says that a library for another architecture does not exist.
static std::string findFault(const std::string &path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  auto size = static_cast<uint64_t>(file.tellg());
  Elf64_Ehdr header, own;
  file.seekg(0);
  // dlopen refuses other files.
  if (!file.read(reinterpret_cast<char *>(&header), sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return "";
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!file.read(reinterpret_cast<char *>(&segment), sizeof segment) || segment.p_offset > size ||
        segment.p_filesz > size - segment.p_offset)
      return "is truncated";
  }
  std::ifstream program("/proc/self/exe", std::ios::binary);
  if (program.read(reinterpret_cast<char *>(&own), sizeof own) && own.e_machine != header.e_machine)
    return "is for " + nameMachine(header.e_machine) + ", but this machine is " + nameMachine(own.e_machine) +
           ": compile it here, or by moe-compile --target-cpu elsewhere";
  return "";
}

/// Finds a name for `file` under which dlopen loads this file. dlopen knows open libraries by name: if the file was
/// replaced, it would give the old one. Each further file of a name gets one more "./" in it.
Status PlanLibrary::chooseName(const std::string &file, std::string &name) {
  struct Opened {
    dev_t device;
    ino_t number;
    std::string digest;
    std::weak_ptr<void> user;
  };
  static std::mutex mutex;
  static std::map<std::string, std::vector<Opened>> all;
  struct stat facts;
  if (stat(file.c_str(), &facts) != 0)
    return invalid("cannot load plan: '", file, "': ", std::strerror(errno));
  std::lock_guard lock(mutex);
  std::vector<Opened> &opened = all[file];
  auto same = std::find_if(opened.begin(), opened.end(),
                           [&](const Opened &one) { return one.device == facts.st_dev && one.number == facts.st_ino; });
  if (same == opened.end())
    same = opened.insert(same, {facts.st_dev, facts.st_ino, digest, {}});
  else if (same->digest != digest && !same->user.expired())
    return invalid("'", file,
                   "' was overwritten while its plan is open: close the plan, or write the new one to another "
                   "file and rename that");
  user = std::make_shared<char>();
  same->digest = digest;
  same->user = user;
  const size_t at = file.rfind('/') + 1;
  name = file.substr(0, at);
  for (auto one = opened.begin(); one != same; ++one)
    name += "./";
  name += file.substr(at);
  return {};
}

Status PlanLibrary::open(const std::string &path) {
  // Without a slash dlopen would search the library path instead of the working directory. Symbols are bound when
  // called, so that the metadata of a plan for another version is read first.
  std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  if (std::string fault = findFault(file); !fault.empty())
    return invalid("cannot load plan: '", path, "' ", fault);
  Sha256::Digest sum;
  if (Status status = digestOfFile(file, sum); !status.ok())
    return invalid("cannot load plan: ", status.message);
  digest = hexOf(sum);
  std::string name;
  MOERT_RETURN_IF_ERROR(chooseName(file, name));
  handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!handle)
    return invalid("cannot load plan: ", dlerror());
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
  // Binds calls after the check of the ABI version in the metadata: now all of them exist.
  bindCalls(handle);
  if (!hasShapes(variants))
    return {};
  Status status = find(path, "moeplan_choose", address);
  choose = reinterpret_cast<decltype(choose)>(address);
  return status;
}

} // namespace moert
