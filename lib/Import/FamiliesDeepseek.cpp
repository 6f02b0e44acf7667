//===- FamiliesDeepseek.cpp - families with DeepSeek's blocks -------------===//
//
// Shared experts, groups of experts, dense blocks before the MoE ones, latent attention.
//
//===----------------------------------------------------------------------===//

#include "CheckpointNames.h"

using namespace mlir::moe;
using llvm::StringRef;

/// The blocks before number `first_k_dense_replace` are dense.
static constexpr SparseKeys kBlocks = {.first = "first_k_dense_replace"};

/// With a `moe_layer_freq` other than 1, DeepSeek's own code makes more blocks dense, but transformers does not. The
/// blocks that predict further tokens are no part of the model, and the selection bias balances without a loss.
static FixedKeys getFixedKeys() {
  return {.mustBeFalse = {"mlp_bias"},
          .mustBeOne = {"moe_layer_freq"},
          .ignored = {"qk_head_dim", "num_nextn_predict_layers", "seq_aux"}};
}

/// Checks the size of a head, for which transformers' classes write the number of rotary columns.
static void readHeadDim(JsonReader &reader, const ModelSpec &model) {
  int64_t columns = model.attention.latent->rotaryDim;
  if (reader.getInteger("head_dim", 1, kMaxSize, columns) != columns)
    reader.fail("head_dim", "'qk_rope_head_dim', " + llvm::Twine(columns) + ",");
}

static CheckpointNames getNames(StringRef block = names::kLlamaBlocks,
                                llvm::ArrayRef<Rule> ofModel = names::kLlamaModel) {
  return {block, {names::kLatentAttention, names::kDeepseekExperts, names::kLlamaBlock, names::kQwenExperts}, ofModel};
}

/// DeepSeek's own code adds the loss if its coefficient is not 0.
static void readV1(JsonReader &, const LayerSpec &, ModelSpec &model) {
  model.routerLoss.isAdded = model.routerLoss.balance > 0;
}

/// DeepSeekMoE: Llama's attention; softmax; weights are not renormalised unless the config says so. transformers has no
/// class of it.
static Family getV1() {
  return {.architectures = {"DeepseekForCausalLM"},
          .modelTypes = {"deepseek"},
          .layerKeys = {.experts = "n_routed_experts",
                        .renormalize = "norm_topk_prob",
                        .sharedCount = "n_shared_experts",
                        .fixed = {.mustBe = {{"scoring_func", "softmax"}}}},
          .model = {.routerLoss = {.balance = 0.001, .isOverLayers = false}},
          .modelKeys = {.biases = "attention_bias",
                        .routerLoss = {.balance = "aux_loss_alpha"},
                        .sparse = kBlocks,
                        .fixed = {.mustBeFalse = {"mlp_bias"}, .mustBeOne = {"moe_layer_freq"}, .ignored = {"seq_aux"}},
                        .readMore = readV1},
          .checkpoint = {names::kLlamaBlocks,
                         {names::kDeepseekExperts, names::kLlamaBlock, names::kQwenExperts},
                         names::kLlamaModel}};
}

/// DeepSeek's own code adds the loss if the configuration has its coefficient. transformers never adds it.
static void readV2(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  readHeadDim(reader, model);
  model.routerLoss.isAdded = model.routerLoss.balance > 0;
  model.routerLoss.isOverLayers = false;
}

/// DeepSeek-V2: softmax; weights are scaled and not renormalised.
static Family getV2() {
  return {.architectures = {"DeepseekV2ForCausalLM"},
          .modelTypes = {"deepseek_v2"},
          .layer = {.expertGroups = 0, .topGroups = 0},
          .layerKeys = {.experts = "n_routed_experts",
                        .scale = "routed_scaling_factor",
                        .groups = GroupKeys{.onlyKey = "topk_method",
                                            .onlyValue = "group_limited_greedy",
                                            .otherValue = "greedy"},
                        .sharedCount = "n_shared_experts",
                        .fixed = {.mustBeFalse = {"norm_topk_prob"}, .mustBe = {{"scoring_func", "softmax"}}}},
          .model = {.attention = {.latent = LatentSpec()}},
          .modelKeys = {.biases = "attention_bias",
                        .routerLoss = {.balance = "aux_loss_alpha"},
                        .sparse = kBlocks,
                        .fixed = getFixedKeys(),
                        .readMore = readV2},
          .checkpoint = getNames()};
}

static void readV3(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  readHeadDim(reader, model);
  reader.accept({"aux_loss_alpha"}); // without a loss
  readFlag(reader, "rope_interleave", model.attention.latent->interleaved);
}

/// Publishers' files have the size of a head's cached vectors as `head_dim`.
static void readSarvam(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  reader.accept({"head_dim", "q_head_dim", "aux_loss_alpha"});
  readFlag(reader, "rope_interleave", model.attention.latent->interleaved);
}

/// DeepSeek-V3: sigmoid scores, balanced by a selection bias instead of a loss. The two best experts of a group score
/// it. Weights are scaled; renormalisation is an option. `nested` is the object of its keys in multimodal models.
static Family getV3(StringRef architecture, llvm::SmallVector<StringRef, 2> modelTypes, SparseKeys sparse,
                    CheckpointNames checkpoint, StringRef nested = {}, decltype(ModelKeys::readMore) read = readV3) {
  return {.architectures = {architecture},
          .modelTypes = std::move(modelTypes),
          .layer = {.score = Score::sigmoid, .selectionBias = true},
          .layerKeys = {.experts = "n_routed_experts",
                        .renormalize = "norm_topk_prob",
                        .scale = "routed_scaling_factor",
                        .groups = GroupKeys{.score = GroupScore::top2, .minSize = 2},
                        .sharedCount = "n_shared_experts",
                        .fixed = {.mustBe = {{"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}}}},
          .model = {.attention = {.latent = LatentSpec()}},
          .modelKeys = {.biases = "attention_bias", .sparse = sparse, .fixed = getFixedKeys(), .readMore = read},
          .checkpoint = std::move(checkpoint),
          .nested = nested};
}

llvm::SmallVector<Family, 0> mlir::moe::getDeepseekFamilies() {
  return {getV1(), getV2(), getV3("DeepseekV3ForCausalLM", {"deepseek_v3", "kimi_k2"}, kBlocks, getNames()),
          getV3("KimiK25ForConditionalGeneration", {"deepseek_v3", "kimi_k25"}, kBlocks,
                getNames("language_model.model.layers.{i}.", names::kNestedLlamaModel), "text_config"),
          // GLM-4.7-Flash: the experts are GLM-4.5's.
          getV3("Glm4MoeLiteForCausalLM", {"glm4_moe_lite"}, {.types = "mlp_layer_types"}, getNames()),
          getV3("SarvamMLAForCausalLM", {"sarvam_mla"}, kBlocks, getNames(), {}, readSarvam)};
}
