//===- Plan.cpp - handles of the C API that close themselves --------------===//

#include "run/Plan.h"

#include <algorithm>
#include <filesystem>

namespace moert::run {

Status checked(int32_t code) { return code == MOERT_OK ? Status{} : Status::error(code, moert_last_error()); }

static Status openHandle(const std::string &path, std::shared_ptr<moert_plan> &handle,
                         std::vector<Metadata> &variants) {
  moert_plan_t opened = nullptr;
  if (Status status = checked(moert_plan_open(path.c_str(), &opened)); !status.ok())
    return status;
  handle.reset(opened, moert_plan_close);
  return parseMetadata(moert_plan_metadata(opened), variants);
}

Status Plan::open(const std::string &path, int64_t batch, int64_t sequence, Plan &plan) {
  std::vector<Metadata> variants;
  if (Status status = openHandle(path, plan.handle, variants); !status.ok())
    return status;
  if (hasShapes(variants)) {
    const Metadata &first = variants.front();
    if (Status status = checked(moert_plan_choose(plan.handle.get(), batch ? batch : first.batch,
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

Status Plan::openVariants(const std::string &path, std::vector<Plan> &plans) {
  std::shared_ptr<moert_plan> handle;
  std::vector<Metadata> variants;
  if (Status status = openHandle(path, handle, variants); !status.ok())
    return status;
  for (Metadata &metadata : variants)
    plans.push_back({handle, static_cast<int64_t>(plans.size()), std::move(metadata)});
  return {};
}

Status checkRanks(int64_t ranks, const Metadata &metadata) {
  if (!ranks || ranks == metadata.world)
    return {};
  return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "the plan was compiled for " + std::to_string(metadata.world) +
                                                         " ranks, but --ranks asks for " + std::to_string(ranks) +
                                                         "; leave --ranks out or compile the plan again");
}

Status checkEmulated(const std::string &name, const Metadata &metadata) {
  auto isTimed = [](const Op &op) { return op.seconds > 0; };
  auto hasTimes = [&](const Program &program) { return std::any_of(program.ops.begin(), program.ops.end(), isTimed); };
  const std::vector<Program> &programs = metadata.programs;
  if (metadata.cluster.empty() || std::none_of(programs.begin(), programs.end(), hasTimes))
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                         "the plan has no modelled times of transfers to emulate; compile it with --cluster=NAME");
  if (name == metadata.cluster || std::filesystem::path(name).stem() == metadata.cluster)
    return {};
  return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "the plan was compiled for cluster '" + metadata.cluster +
                                                         "', but --emulate-links names '" + name +
                                                         "'; compile it with --cluster=" + name);
}

} // namespace moert::run
