//===- CallNames.cpp - calls in NVIDIA's tools ----------------------------===//

#include "cuda/CallNames.h"

namespace moert::cuda {

std::string callName(const Op &op, const std::vector<Group> &groups) {
  std::string name = op.name;
  if (!op.label.empty())
    name += " '" + op.label + "'";
  if (op.group >= 0)
    name += " on group '" + groups[static_cast<size_t>(op.group)].name + "'";
  return name;
}

#if MOERT_HAS_NVTX

/// The process's own: NVTX keeps domains until it ends.
static nvtxDomainHandle_t theDomain() {
  static nvtxDomainHandle_t domain = nvtxDomainCreateA("moe");
  return domain;
}

CallNames::CallNames(std::span<const Program> programs, const std::vector<Group> &groups) : domain(theDomain()) {
  if (!domain)
    return;
  for (const Program &program : programs) {
    std::vector<nvtxStringHandle_t> &handles = names.emplace_back();
    for (const Op &op : program.ops)
      handles.push_back(nvtxDomainRegisterStringA(domain, callName(op, groups).c_str()));
  }
}

void CallNames::push(size_t program, int32_t op) const {
  if (!domain)
    return;
  const std::vector<nvtxStringHandle_t> &handles = names[program];
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = static_cast<size_t>(op) < handles.size() ? handles[static_cast<size_t>(op)] : nullptr;
  nvtxDomainRangePushEx(domain, &event);
}

void CallNames::pop() const {
  if (domain)
    nvtxDomainRangePop(domain);
}

#else

CallNames::CallNames(std::span<const Program>, const std::vector<Group> &) {}
void CallNames::push(size_t, int32_t) const {}
void CallNames::pop() const {}

#endif

} // namespace moert::cuda
