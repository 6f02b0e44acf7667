//===- FamiliesDense.cpp - families without experts -----------------------===//
//
// The planner handles data, tensor and pipeline parallelism of these whole models, too.
//
//===----------------------------------------------------------------------===//

#include "CheckpointNames.h"

using namespace mlir::moe;

static CheckpointNames getDenseNames() { return {"model.layers.{i}.", {names::kLlamaBlock}, names::kLlamaModel}; }

static LayerKeys getLayerKeys() { return {.expertHidden = {}, .experts = {}}; }

/// Llama 1 to 3, and Solar's dense models.
static Family getLlama() {
  return {.architectures = {"LlamaForCausalLM"},
          .modelTypes = {"llama"},
          .layerKeys = getLayerKeys(),
          .modelKeys = {.biases = "attention_bias", .fixed = {.mustBeFalse = {"mlp_bias"}}},
          .checkpoint = getDenseNames()};
}

/// Reads the window, 4096 by default; null means none.
static void readMistralWindow(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  int64_t window = reader.isNull("sliding_window") ? 0 : reader.getInteger("sliding_window", 1, kMaxVocabulary, 4096);
  for (BlockSpec &block : model.blocks)
    block.window = window;
}

static Family getMistral() {
  return {.architectures = {"MistralForCausalLM"},
          .modelTypes = {"mistral"},
          .layerKeys = getLayerKeys(),
          .modelKeys = {.readMore = readMistralWindow},
          .checkpoint = getDenseNames()};
}

/// Qwen2: biases of q, k and v.
static Family getDenseQwen2() {
  return {.architectures = {"Qwen2ForCausalLM"},
          .modelTypes = {"qwen2"},
          .layerKeys = getLayerKeys(),
          .model = {.attention = {.inputBiases = true}},
          .modelKeys = {.headDim = {}, .fixed = refuseQwenWindow()},
          .checkpoint = getDenseNames()};
}

/// Qwen3: a norm of each head's queries and keys.
static Family getDenseQwen3() {
  return {.architectures = {"Qwen3ForCausalLM"},
          .modelTypes = {"qwen3"},
          .layerKeys = getLayerKeys(),
          .model = {.attention = {.headDim = 128, .headNorm = HeadNorm::head}},
          .modelKeys = {.biases = "attention_bias", .fixed = refuseQwenWindow()},
          .checkpoint = getDenseNames()};
}

llvm::SmallVector<Family, 0> mlir::moe::getDenseFamilies() {
  return {getLlama(), getMistral(), getDenseQwen2(), getDenseQwen3()};
}
