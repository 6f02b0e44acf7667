//===- Adapt.h - plans that frameworks can run ------------------*- C++ -*-===//
#ifndef MOE_LIB_FRAMEWORKS_ADAPT_H
#define MOE_LIB_FRAMEWORKS_ADAPT_H

#include "moe/Frameworks/Advice.h"

#include <functional>

namespace mlir::moe {

/// A feature that a framework lacks, and the change that removes it from a plan; null if MoePlan has no such plan.
struct Adaptation {
  Omission omission;
  std::function<void(Candidate &)> apply;
  std::function<void(Candidate &)> other = nullptr; ///< another change, which may be better; may be null
};

/// The adaptations of a plan, but for cuts inside blocks: each is for the plan that those before it leave.
std::vector<Adaptation> adaptToMegatron(const PlannedJob &job);
std::vector<Adaptation> adaptToTorchtitan(const PlannedJob &job, const llvm::VersionTuple &version);

/// Parts of the model that arguments of Megatron-LM do not describe.
std::vector<std::string> findMegatronGaps(const ModelConfig &model);

/// An argument of Megatron-LM, which lib/Import/MegatronFlags.cpp lists.
struct Setting {
  StringRef flag;                  ///< without dashes
  SmallVector<std::string> values; ///< none: a switch
  std::string bridgeValue = {};    ///< Python for Megatron-Bridge, if it is not the value of the flag
  bool inBridge = true;            ///< false if another setting says it to Megatron-Bridge
};

struct SettingGroup {
  std::string title;
  std::string remark = {}; ///< behind the title
  std::vector<Setting> settings = {};

  void add(StringRef flag) { settings.push_back({flag, {}}); }
  void add(StringRef flag, const Twine &value) { settings.push_back({flag, {value.str()}}); }
  void add(StringRef flag, int64_t value) { add(flag, Twine(value)); }
  void addIf(bool present, StringRef flag) {
    if (present)
      add(flag);
  }
};

/// Settings that run `advice.runnable`.
std::vector<SettingGroup> getPlanSettings(const Advice &advice, const PlannedJob &job);
/// Value of CUDA_DEVICE_MAX_CONNECTIONS that Megatron-LM asks for on devices before Blackwell; 0 if it accepts any.
int getConnections(const Candidate &plan);
/// Settings that describe the model, as far as there are arguments for it.
std::vector<SettingGroup> getModelSettings(const ModelConfig &model, int64_t sequence);

/// Version of Megatron-LM's core that reads the settings: the target's own, or that of its Megatron-Bridge.
llvm::VersionTuple getCoreVersion(const FrameworkTarget &target);
/// Parts of the model that `version` of Megatron's core computes in another way.
std::vector<std::string> findVersionGaps(const ModelConfig &model, const llvm::VersionTuple &version);
/// Removes settings that `version` does not have, and returns them with the version that has them.
std::vector<std::string> removeNewSettings(std::vector<SettingGroup> &groups, const llvm::VersionTuple &version,
                                           const PlannedJob &job);

/// Write the part of a file after its comments, for writeArguments().
void writeMegatron(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os);
void writeMegatronBridge(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os);
void writeTorchtitan(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_LIB_FRAMEWORKS_ADAPT_H
