//===- Families.h - readers of whole models, one a family -------*- C++ -*-===//
#ifndef MOE_LIB_IMPORT_FAMILIES_H
#define MOE_LIB_IMPORT_FAMILIES_H

#include "moe/Import/ModelConfig.h"
#include "moe/Support/JsonReader.h"

namespace mlir::moe {

// Each fills the model of its family from the config, after the MoE layer has been read from it.

void readMixtralModel(JsonReader &reader, const LayerSpec &layer, ModelSpec &model);
void readQwen2Model(JsonReader &reader, const LayerSpec &layer, ModelSpec &model);
void readQwen3Model(JsonReader &reader, const LayerSpec &layer, ModelSpec &model);
void readOlmoeModel(JsonReader &reader, const LayerSpec &layer, ModelSpec &model);
void readDeepseekV2Model(JsonReader &reader, const LayerSpec &layer, ModelSpec &model);
void readDeepseekV3Model(JsonReader &reader, const LayerSpec &layer, ModelSpec &model);
void readGptOssModel(JsonReader &reader, const LayerSpec &layer, ModelSpec &model);
void readSwitchModel(JsonReader &reader, const LayerSpec &layer, ModelSpec &model);
void readGpt2Model(JsonReader &reader, const LayerSpec &layer, ModelSpec &model);
void readBertModel(JsonReader &reader, const LayerSpec &layer, ModelSpec &model);

/// The activation of GPT-2 or BERT under `key`.
Activation readPlainActivation(JsonReader &reader, llvm::StringRef key, size_t defaultIndex);
/// Their names in configs, in the order of defaultIndex.
inline constexpr size_t kGelu = 0, kGeluTanh = 1;

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_FAMILIES_H
