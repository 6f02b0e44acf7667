//===- Settings.h - arguments that describe a job ---------------*- C++ -*-===//
#ifndef MOE_LIB_FRAMEWORKS_SETTINGS_H
#define MOE_LIB_FRAMEWORKS_SETTINGS_H

#include "moe/Frameworks/Advice.h"

namespace mlir::moe {

/// An argument of Megatron-LM, and the field of Megatron-Bridge's configuration that means the same.
struct Setting {
  StringRef flag;                  ///< without dashes
  SmallVector<std::string> values; ///< none: a switch
  StringRef field = {};            ///< "model.sequence_parallel"; empty: there is none
  std::string fieldValue = {};     ///< in Python, where it is not that of the flag
};

struct SettingGroup {
  std::string title;
  std::vector<Setting> settings;
  std::string remark = {}; ///< behind the title
};

/// What runs `advice.runnable`.
std::vector<SettingGroup> getPlanSettings(const Advice &advice, const PlannedJob &job);
/// What describes the model, as far as there are arguments for it.
std::vector<SettingGroup> getModelSettings(const ModelConfig &model, int64_t sequence);

} // namespace mlir::moe

#endif // MOE_LIB_FRAMEWORKS_SETTINGS_H
