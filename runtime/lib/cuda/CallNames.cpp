//===- CallNames.cpp - calls in NVIDIA's tools ----------------------------===//

#include "cuda/CallNames.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define MOERT_HAS_NVTX 1
#endif

namespace moert::cuda {

#if MOERT_HAS_NVTX

struct CallNames::Registered {
  nvtxDomainHandle_t domain;
  std::vector<std::vector<nvtxStringHandle_t>> ofOps; ///< names by program, then by op
};

static std::string nameOf(const Op &op, const std::vector<Group> &groups) {
  std::string name = op.name;
  if (!op.label.empty())
    name += " '" + op.label + "'";
  if (op.group >= 0)
    name += " on group '" + groups[static_cast<size_t>(op.group)].name + "'";
  return name;
}

CallNames::CallNames(std::span<const Program> programs, const std::vector<Group> &groups) {
  // The process's domain, which NVTX keeps until the process ends. Null if no profiler listens.
  static nvtxDomainHandle_t domain = nvtxDomainCreateA("moe");
  if (!domain)
    return;
  auto made = std::make_shared<Registered>(Registered{domain, {}});
  for (const Program &program : programs) {
    std::vector<nvtxStringHandle_t> &ofProgram = made->ofOps.emplace_back();
    for (const Op &op : program.ops)
      ofProgram.push_back(nvtxDomainRegisterStringA(domain, nameOf(op, groups).c_str()));
  }
  names = std::move(made);
}

CallNames::Range CallNames::range(size_t program, int32_t op) const {
  if (!names || op < 0 || static_cast<size_t>(op) >= names->ofOps[program].size())
    return {};
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = names->ofOps[program][static_cast<size_t>(op)];
  nvtxDomainRangePushEx(names->domain, &event);
  return Range(names.get());
}

void CallNames::End::operator()(const Registered *names) const { nvtxDomainRangePop(names->domain); }

#else

struct CallNames::Registered {};
CallNames::CallNames(std::span<const Program>, const std::vector<Group> &) {}
CallNames::Range CallNames::range(size_t, int32_t) const { return {}; }
void CallNames::End::operator()(const Registered *) const {}

#endif

} // namespace moert::cuda
