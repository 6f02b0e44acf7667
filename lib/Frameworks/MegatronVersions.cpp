//===- MegatronVersions.cpp - what versions of Megatron-LM lack -----------===//
//
// test/Unit/Inputs/megatron-flags.tsv has the arguments of each version.
//
//===----------------------------------------------------------------------===//
#include "Adapt.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::moe;
using llvm::VersionTuple;

namespace {
/// A setting that older versions refuse.
struct NewSetting {
  StringLiteral flag;
  StringLiteral value; ///< empty: any
  VersionTuple since;
  bool inWideTypesOnly = false; ///< the setting is not new for bf16
};
} // namespace

/// Source: parsers of megatron/training/arguments.py in core_v0.15 to core_v0.19, and their validate_args().
static const NewSetting kNewSettings[] = {{"moe-shared-expert-gate", "", VersionTuple(0, 16)},
                                          {"moe-flex-dispatcher-backend", "ncclep", VersionTuple(0, 19)},
                                          {"moe-flex-dispatcher-backend", "", VersionTuple(0, 16)},
                                          {"cuda-graph-scope", "", VersionTuple(0, 16)},
                                          {"moe-grouped-gemm", "", VersionTuple(0, 16), /*inWideTypesOnly=*/true}};

VersionTuple mlir::moe::getCoreVersion(const FrameworkTarget &target) {
  // 3rdparty/Megatron-LM of Megatron-Bridge v0.2 and v0.6.
  if (target.framework == Framework::MegatronBridge)
    return target.version < VersionTuple(0, 6) ? VersionTuple(0, 16) : VersionTuple(0, 19);
  return target.version;
}

std::vector<std::string> mlir::moe::findVersionGaps(const ModelConfig &model, const VersionTuple &version) {
  const std::optional<LatentSpec> &latent = model.model->attention.latent;
  // megatron/core/transformer/mla_qk_norm_config.py, _resolve_mla_qk_layernorm().
  if (!latent || latent->queryRank > 0 || version < VersionTuple(0, 19))
    return {};
  return {"queries from a token without a norm of their own (--qk-layernorm, which the keys need, adds one since "
          "core_v0.19)"};
}

std::vector<std::string> mlir::moe::removeNewSettings(std::vector<SettingGroup> &groups, const VersionTuple &version,
                                                      const PlannedJob &job) {
  std::vector<std::string> removed;
  for (SettingGroup &group : groups)
    llvm::erase_if(group.settings, [&](const Setting &setting) {
      const NewSetting *found = llvm::find_if(kNewSettings, [&](const NewSetting &one) {
        bool isValue = one.value.empty() || llvm::is_contained(setting.values, one.value.str());
        return one.flag == setting.flag && isValue && version < one.since &&
               !(one.inWideTypesOnly && job.dtype == "bf16");
      });
      if (found == std::end(kNewSettings))
        return false;
      removed.push_back(("--" + setting.flag + (found->value.empty() ? "" : " " + found->value) +
                         (found->inWideTypesOnly ? " in " + job.dtype : "") + ", which Megatron-LM has since core_v" +
                         found->since.getAsString())
                            .str());
      return true;
    });
  return removed;
}
