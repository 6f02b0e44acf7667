//===- PlanCalls.cpp - what the calls of a plan are bound to --------------===//

#include "core/PlanCalls.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

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

} // namespace

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

} // namespace moert
