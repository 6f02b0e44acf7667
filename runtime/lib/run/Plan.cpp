//===- Plan.cpp - handles of the C API that close themselves --------------===//

#include "run/Plan.h"

namespace moert::run {

Status checked(int32_t code) { return code == MOERT_OK ? Status{} : Status::error(code, moert_last_error()); }

Status Plan::open(const std::string &path, int64_t batch, int64_t sequence, Plan &plan) {
  moert_plan_t handle = nullptr;
  if (Status status = checked(moert_plan_open(path.c_str(), &handle)); !status.ok())
    return status;
  plan.handle.reset(handle);
  std::vector<Metadata> variants;
  if (Status status = parseMetadata(moert_plan_metadata(handle), variants); !status.ok())
    return status;
  if (hasShapes(variants)) {
    const Metadata &first = variants.front();
    if (Status status = checked(moert_plan_choose(handle, batch ? batch : first.batch,
                                                  sequence ? sequence : first.sequence, &plan.variant));
        !status.ok())
      return status;
  } else if (batch || sequence) {
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                         "expected --batch and --seq with a plan of several shapes only; this one has one shape");
  }
  plan.metadata = std::move(variants[static_cast<size_t>(plan.variant)]);
  return {};
}

} // namespace moert::run
