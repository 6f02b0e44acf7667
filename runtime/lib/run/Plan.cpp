//===- Plan.cpp - handles of the C API that close themselves --------------===//

#include "run/Plan.h"

namespace moert::run {

Status checked(int32_t code) { return code == MOERT_OK ? Status{} : Status::error(code, moert_last_error()); }

Status Plan::open(const std::string &path, Plan &plan) {
  moert_plan_t handle = nullptr;
  if (Status status = checked(moert_plan_open(path.c_str(), &handle)); !status.ok())
    return status;
  plan.handle.reset(handle);
  return parseMetadata(moert_plan_metadata(handle), plan.metadata);
}

} // namespace moert::run
