//===- NvtxLog.cpp - a profiler that prints the names of ranges -----------===//
//
// NVTX loads the library that NVTX_INJECTION64_PATH names, and asks which of its functions the library implements. The
// numbers are those of nvtx3/nvtxDetail/nvtxTypes.h.
//
//===----------------------------------------------------------------------===//

#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <deque>
#include <string>

namespace {

constexpr int kCallbacksTable = 1, kDomainFunctions = 5;
constexpr unsigned kRangePush = 4, kRegisterString = 10, kCreateDomain = 12;

struct Callbacks {
  size_t size;
  int (*functionsOf)(int module, void ****functions, unsigned *count);
};

std::deque<std::string> strings;

nvtxDomainHandle_t createDomain(const char *name) {
  return reinterpret_cast<nvtxDomainHandle_t>(&strings.emplace_back(name));
}
nvtxStringHandle_t registerString(nvtxDomainHandle_t, const char *text) {
  return reinterpret_cast<nvtxStringHandle_t>(&strings.emplace_back(text));
}
int pushRange(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
  std::printf("%s: %s\n", reinterpret_cast<std::string *>(domain)->c_str(),
              reinterpret_cast<std::string *>(event->message.registered)->c_str());
  return 0;
}

} // namespace

extern "C" int InitializeInjectionNvtx2(const void *(*tableOf)(uint32_t)) {
  auto *callbacks = static_cast<const Callbacks *>(tableOf(kCallbacksTable));
  void ***functions = nullptr;
  unsigned count = 0;
  if (!callbacks || !callbacks->functionsOf(kDomainFunctions, &functions, &count) || count <= kCreateDomain)
    return 0;
  *functions[kRangePush] = reinterpret_cast<void *>(pushRange);
  *functions[kRegisterString] = reinterpret_cast<void *>(registerString);
  *functions[kCreateDomain] = reinterpret_cast<void *>(createDomain);
  return 1;
}
