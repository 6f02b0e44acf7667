//===- FamiliesLlama.cpp - families with Llama's block --------------------===//
//
// Norms before the branches, rotary positions, gated feed-forward blocks or experts.
//
//===----------------------------------------------------------------------===//

#include "CheckpointNames.h"

using namespace mlir::moe;

/// Mixtral: Mistral's block, in which every block has the window if there is one. The softmax over the chosen experts'
/// logits equals the renormalised whole softmax.
static Family getMixtral() {
  return {.architectures = {"MixtralForCausalLM"},
          .modelTypes = {"mixtral"},
          .layer = {.renormalize = true},
          .layerKeys = {.expertHidden = "intermediate_size", .experts = "num_local_experts"},
          .modelKeys = {.jitter = "router_jitter_noise",
                        .routerLoss = getRouterLossKeys(),
                        .window = {.size = "sliding_window"}},
          .checkpoint = {names::kLlamaBlocks, {names::kLlamaBlock, names::kMixtralExperts}, names::kLlamaModel}};
}

/// Refuses windows: versions of Qwen's code differ in the blocks that have them.
static FixedKeys refuseQwenWindow() {
  return {.mustBeFalse = {"use_sliding_window"}, .ignored = {"sliding_window", "max_window_layers"}};
}

/// The blocks of `mlp_only_layers` are dense, and so are all but each `decoder_sparse_step`-th.
static SparseKeys getQwenBlocks() { return {.step = "decoder_sparse_step", .denseList = "mlp_only_layers"}; }

/// Qwen2-MoE: biases of q, k and v; one shared expert, scaled by the sigmoid of a gate of its own.
static Family getQwen2() {
  return {.architectures = {"Qwen2MoeForCausalLM"},
          .modelTypes = {"qwen2_moe"},
          .layer = {.sharedGate = true},
          .layerKeys = {.renormalize = "norm_topk_prob", .sharedHidden = "shared_expert_intermediate_size"},
          .model = {.attention = {.inputBiases = true}},
          .modelKeys = {.inputBiases = "qkv_bias",
                        .routerLoss = getRouterLossKeys(),
                        .sparse = getQwenBlocks(),
                        .fixed = refuseQwenWindow()},
          .checkpoint = {names::kLlamaBlocks, {names::kLlamaBlock, names::kQwenExperts}, names::kLlamaModel}};
}

/// Qwen3-MoE: a norm of each head's queries and keys.
static Family getQwen3() {
  return {.architectures = {"Qwen3MoeForCausalLM"},
          .modelTypes = {"qwen3_moe"},
          .layerKeys = {.renormalize = "norm_topk_prob"},
          .model = {.attention = {.headNorm = HeadNorm::head}},
          .modelKeys = {.biases = "attention_bias",
                        .routerLoss = getRouterLossKeys(),
                        .sparse = getQwenBlocks(),
                        .fixed = refuseQwenWindow()},
          .checkpoint = {names::kLlamaBlocks, {names::kLlamaBlock, names::kQwenExperts}, names::kLlamaModel}};
}

/// Reads the bound of queries, keys and values; a missing key means none.
static void readOlmoeClip(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  if (reader.find("clip_qkv"))
    model.attention.clip = reader.getNumber("clip_qkv", kPositive);
}

/// OLMoE: one norm over all queries and one over all keys of a token; bounds of queries, keys and values follow.
static Family getOlmoe() {
  return {.architectures = {"OlmoeForCausalLM"},
          .modelTypes = {"olmoe"},
          .layerKeys = {.expertHidden = "intermediate_size", .renormalize = "norm_topk_prob"},
          .model = {.attention = {.headNorm = HeadNorm::projection, .clipAfterNorm = true}},
          .modelKeys = {.biases = "attention_bias", .routerLoss = getRouterLossKeys(), .readMore = readOlmoeClip},
          .checkpoint = {names::kLlamaBlocks, {names::kLlamaBlock, names::kQwenExperts}, names::kLlamaModel}};
}

static void readClamp(JsonReader &reader, LayerSpec &layer) {
  // The name of OpenAI's own code, beside that of transformers.
  reader.acceptIf("experts_per_token",
                  [&](const llvm::json::Value &value) { return value.getAsInteger() == layer.topK; });
  readNumber(reader, "swiglu_alpha", kPositive, layer.activationAlpha);
  readNumber(reader, "swiglu_limit", kPositive, layer.activationLimit);
}

static constexpr ActivationName kGptOssActivations[] = {{"silu", Activation::swiglu_clamped},
                                                        {"swish", Activation::swiglu_clamped}};

/// gpt-oss: sinks, biases everywhere, a window on every other block from the first on, a clamped activation, and the
/// softmax over the chosen experts' logits as in Mixtral.
static Family getGptOss() {
  return {
      .architectures = {"GptOssForCausalLM"},
      .modelTypes = {"gpt_oss"},
      .layer = {.activation = Activation::swiglu_clamped, .renormalize = true, .gateBias = true, .expertBiases = true},
      .layerKeys = {.expertHidden = "intermediate_size",
                    .experts = "num_local_experts",
                    .activations = kGptOssActivations,
                    .fixed = {.ignored = {"initial_context_length"}}, // a key of OpenAI's own code
                    .readMore = readClamp},
      .model = {.attention = {.inputBiases = true, .outputBias = true, .sinks = true}},
      .modelKeys = {.biases = "attention_bias",
                    .routerLoss = getRouterLossKeys(),
                    .window = {.size = "sliding_window", .isNeeded = true, .every = 2, .types = "layer_types"}},
      .checkpoint = {names::kLlamaBlocks, {names::kLlamaBlock, names::kGptOssExperts}, names::kLlamaModel}};
}

llvm::SmallVector<Family, 0> mlir::moe::getLlamaFamilies() {
  return {getMixtral(), getQwen2(), getQwen3(), getOlmoe(), getGptOss()};
}

//===----------------------------------------------------------------------===//
// Whole models without experts, for which the planner handles data, tensor and pipeline parallelism
//===----------------------------------------------------------------------===//

static CheckpointNames getDenseNames() { return {names::kLlamaBlocks, {names::kLlamaBlock}, names::kLlamaModel}; }

static LayerKeys getLayerKeys() { return {.expertHidden = {}, .experts = {}}; }

/// Llama 1 to 3, and Solar's dense models.
static Family getLlama() {
  return {.architectures = {"LlamaForCausalLM"},
          .modelTypes = {"llama"},
          .layerKeys = getLayerKeys(),
          .modelKeys = {.biases = "attention_bias", .fixed = {.mustBeFalse = {"mlp_bias"}}},
          .checkpoint = getDenseNames()};
}

static Family getMistral() {
  return {.architectures = {"MistralForCausalLM"},
          .modelTypes = {"mistral"},
          .layerKeys = getLayerKeys(),
          .modelKeys = {.window = {.size = "sliding_window"}},
          .checkpoint = getDenseNames()};
}

/// Qwen2: biases of q, k and v.
static Family getDenseQwen2() {
  return {.architectures = {"Qwen2ForCausalLM"},
          .modelTypes = {"qwen2"},
          .layerKeys = getLayerKeys(),
          .model = {.attention = {.inputBiases = true}},
          .modelKeys = {.fixed = refuseQwenWindow()},
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
