//===- Settings.h - arguments that describe a job ---------------*- C++ -*-===//
#ifndef MOE_LIB_FRAMEWORKS_SETTINGS_H
#define MOE_LIB_FRAMEWORKS_SETTINGS_H

#include "moe/Frameworks/Advice.h"

namespace mlir::moe {

/// An argument of Megatron-LM, which lib/Import/MegatronFlags.cpp lists.
struct Setting {
  StringRef flag;                  ///< without dashes
  SmallVector<std::string> values; ///< none: a switch
  std::string bridgeValue = {};    ///< Python for Megatron-Bridge, if it is not the value of the flag
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
/// Settings that describe the model, as far as there are arguments for it.
std::vector<SettingGroup> getModelSettings(const ModelConfig &model, int64_t sequence);

} // namespace mlir::moe

#endif // MOE_LIB_FRAMEWORKS_SETTINGS_H
