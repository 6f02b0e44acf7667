//===- FamiliesRecent.cpp - families that came after DeepSeek-V3 ----------===//
//
// Most of these families route as DeepSeek-V3 or as Mixtral, and differ in attention.
//
//===----------------------------------------------------------------------===//

#include "CheckpointNames.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Routing like DeepSeek-V3's: sigmoid scores, a selection bias, a scale, shared experts, dense blocks first
//===----------------------------------------------------------------------===//

LayerKeys mlir::moe::getV3LayerKeys() {
  return {.experts = "n_routed_experts",
          .renormalize = "norm_topk_prob",
          .scale = "routed_scaling_factor",
          .groups = GroupKeys{.score = GroupScore::top2, .minSize = 2},
          .sharedCount = "n_shared_experts"};
}

static CheckpointNames getV3Names(StringRef block = names::kLlamaBlocks,
                                  llvm::ArrayRef<Rule> ofModel = names::kLlamaModel) {
  return {block, {names::kDeepseekExperts, names::kLlamaBlock, names::kQwenExperts}, ofModel};
}

/// Reads the windows. Without a list of types, the blocks from `max_window_layers` on have windows.
static void readDotsWindows(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  if (reader.find("layer_types"))
    return reader.accept({"max_window_layers"});
  auto count = static_cast<int64_t>(model.blocks.size());
  int64_t first = reader.getInteger("max_window_layers", 0, kMaxBlocks, 62);
  for (int64_t i = 0; i < std::min(first, count); ++i)
    model.blocks[i].window = 0;
}

/// dots.llm1: per-head QK norm as in Qwen3.
static Family getDots() {
  LayerKeys keys = getV3LayerKeys();
  keys.fixed.mustBe.push_back({"scoring_func", "sigmoid"});
  return {.architectures = {"Dots1ForCausalLM"},
          .modelTypes = {"dots1"},
          .layer = {.score = Score::sigmoid, .selectionBias = true},
          .layerKeys = std::move(keys),
          .model = {.attention = {.headNorm = HeadNorm::head}},
          .modelKeys = {.biases = "attention_bias",
                        .window = {.size = "sliding_window", .types = "layer_types"},
                        .sparse = {.first = "first_k_dense_replace"},
                        .readMore = readDotsWindows},
          .checkpoint = getV3Names()};
}

static void readGlmNorm(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  if (reader.getBool("use_qk_norm", false))
    model.attention.headNorm = HeadNorm::head;
}

/// GLM-4.5 and 4.6, and the text of GLM-4.5V: rotary positions in half of a head's columns. The config says whether
/// there is a per-head QK norm.
static Family getGlm(StringRef architecture, llvm::SmallVector<StringRef, 2> modelTypes, CheckpointNames checkpoint,
                     StringRef nested = {}) {
  return {.architectures = {architecture},
          .modelTypes = std::move(modelTypes),
          .layer = {.score = Score::sigmoid, .selectionBias = true},
          .layerKeys = getV3LayerKeys(),
          .modelKeys = {.inputBiases = "attention_bias",
                        .routerLoss = nested.empty() ? RouterLossKeys() : getRouterLossKeys(),
                        .rotary = {.isPartial = true},
                        .sparse = {.first = "first_k_dense_replace"},
                        .fixed = {.ignored = {"num_nextn_predict_layers", "num_mtp_layers"}},
                        .readMore = readGlmNorm},
          .checkpoint = std::move(checkpoint),
          .nested = nested};
}

/// Solar Open: GLM's experts in every block of Llama's.
static Family getSolar() {
  return {.architectures = {"SolarOpenForCausalLM"},
          .modelTypes = {"solar_open"},
          .layer = {.score = Score::sigmoid, .selectionBias = true},
          .layerKeys = getV3LayerKeys(),
          .model = {.attention = {.headDim = 128}},
          .modelKeys = {.inputBiases = "attention_bias"},
          .checkpoint = getV3Names()};
}

/// The published classes make as many shared experts as this key says, or one. Chosen scores are always renormalised.
static void readBailingLayer(JsonReader &reader, LayerSpec &layer) {
  if (!reader.find("num_shared_experts"))
    layer.sharedHidden = layer.expertHidden;
  reader.acceptIf("moe_shared_expert_intermediate_size",
                  [&](const llvm::json::Value &value) { return value.getAsInteger() == layer.expertHidden; });
}

static void readBailing(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  if (reader.getBool("use_qk_norm", true))
    model.attention.headNorm = HeadNorm::head;
  readFlag(reader, "use_bias", model.attention.outputBias);
  // The first block is dense by default.
  if (!reader.find("first_k_dense_replace")) {
    model.blocks.front().isMoe = false;
    readDenseHidden(reader, model);
  }
}

/// Ling 2 and Ring 2, and Sarvam: GLM's routing and attention under other names. transformers has no class of Ling, so
/// its defaults are those of the published class. `renormalize` is the key with which weights may not be renormalised.
static Family getBailing(llvm::SmallVector<StringRef, 2> architectures, StringRef modelType, StringRef renormalize,
                         LayerSpec layer, AttentionSpec attention) {
  layer.score = Score::sigmoid;
  layer.renormalize = layer.selectionBias = true;
  return {
      .architectures = std::move(architectures),
      .modelTypes = {modelType},
      .layer = layer,
      .layerKeys = {.renormalize = renormalize,
                    .scale = "routed_scaling_factor",
                    .groups = GroupKeys{.score = GroupScore::top2, .minSize = 2, .fitsFewExperts = true},
                    .sharedCount = "num_shared_experts",
                    .fixed = {.mustBe = {{"score_function", "sigmoid"}, {"router_type", "topN"}},
                              .ignored = {"moe_router_enable_expert_bias", "router_dtype"},
                              .ignoredAs = {{"norm_topk_prob", "true"}}},
                    .readMore = readBailingLayer},
      .model = {.attention = attention},
      .modelKeys = {.inputBiases = "use_qkv_bias",
                    .rotary = {.isPartial = true},
                    .sparse = {.first = "first_k_dense_replace"},
                    .fixed = {.mustBeFalse = {"norm_head", "use_sliding_window"},
                              .ignored = {"embedding_dropout", "output_dropout", "max_window_layers", "sliding_window",
                                          "num_nextn_predict_layers", "num_mtp_layers", "mtp_loss_scaling_factor"},
                              .ignoredAs = {{"use_rmsnorm", "true"}}},
                    .readMore = readBailing},
      .checkpoint = {names::kLlamaBlocks,
                     {names::kBailingBlock, names::kDeepseekExperts, names::kLlamaBlock, names::kQwenExperts},
                     names::kBailingModel}};
}

//===----------------------------------------------------------------------===//
// MiniMax-M2, ERNIE 4.5, Hunyuan, Granite
//===----------------------------------------------------------------------===//

/// Checks keys that have the same value in all published configurations.
static void readMiniMaxLayer(JsonReader &reader, LayerSpec &) {
  reader.getInteger("shared_intermediate_size", 0, 0, 0);
  for (StringRef key : {"use_qk_norm", "use_routing_bias"})
    if (!reader.getBool(key, true))
      reader.fail(key, "true");
  // 0 means linear attention.
  if (reader.find("attn_type_list"))
    reader.getIntegers("attn_type_list", 1, 1);
}

/// MiniMax-M2: Mixtral's block with sigmoid scores and a selection bias, one norm of all queries and one of all keys,
/// rotary positions of a part of a head's columns.
static Family getMiniMax() {
  return {.architectures = {"MiniMaxM2ForCausalLM"},
          .modelTypes = {"minimax_m2"},
          .layer = {.score = Score::sigmoid, .renormalize = true, .selectionBias = true},
          .layerKeys = {.expertHidden = "intermediate_size",
                        .experts = "num_local_experts",
                        .fixed = {.mustBe = {{"scoring_func", "sigmoid"}, {"qk_norm_type", "per_layer"}},
                                  .ignored = {"use_mtp", "num_mtp_modules", "mtp_transformer_layers"}},
                        .readMore = readMiniMaxLayer},
          .model = {.attention = {.headDim = 128, .headNorm = HeadNorm::projection}},
          .modelKeys = {.jitter = "router_jitter_noise",
                        .routerLoss = getRouterLossKeys(),
                        .rotary = {.isPartial = true, .columns = "rotary_dim"}},
          .checkpoint = {names::kLlamaBlocks, {names::kLlamaBlock, names::kMixtralExperts}, names::kLlamaModel}};
}

/// Every `moe_layer_interval`-th block of those from `moe_layer_start_index` to `moe_layer_end_index` is MoE.
static void readErnieBlocks(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  auto count = static_cast<int64_t>(model.blocks.size());
  int64_t last = reader.getInteger("moe_layer_end_index", -1, kMaxBlocks, -1);
  for (int64_t i = last + 1; last >= 0 && i < count; ++i)
    model.blocks[i].isMoe = false;
  readDenseHidden(reader, model);
}

/// The model divides the chosen scores by their sum, or by this number if it is larger.
static void readErnieLayer(JsonReader &reader, LayerSpec &) {
  constexpr double leastSum = 1e-6;
  if (reader.getNumber("moe_norm_min", kNotNegative, 0) > leastSum)
    reader.fail("moe_norm_min", "at most 1e-6, since MoePlan divides scores by their sum,");
}

/// ERNIE 4.5: chosen by softmax plus a selection bias; pairs of rotary positions are neighbours.
static Family getErnie() {
  return {.architectures = {"Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM"},
          .modelTypes = {"ernie4_5_moe"},
          .layer = {.renormalize = true, .selectionBias = true},
          .layerKeys = {.experts = "moe_num_experts",
                        .topK = "moe_k",
                        .sharedCount = "moe_num_shared_experts",
                        .readMore = readErnieLayer},
          .model = {.attention = {.rotary = RotarySpec{.interleaved = true}}},
          .modelKeys = {.attentionDropout = {},
                        .routerLoss = getRouterLossKeys(),
                        .sparse = {.step = "moe_layer_interval", .first = "moe_layer_start_index"},
                        .fixed = {.mustBeFalse = {"use_bias"}},
                        .readMore = readErnieBlocks},
          .checkpoint = {names::kLlamaBlocks,
                         {names::kErnieExperts, names::kDeepseekExperts, names::kLlamaBlock, names::kQwenExperts},
                         names::kLlamaModel}};
}

/// transformers takes the size of experts and of the one shared expert from `intermediate_size`.
static void readHunyuanLayer(JsonReader &reader, LayerSpec &layer) {
  layer.sharedHidden = layer.expertHidden;
  // These keys may have a list, with a number for each block.
  auto acceptNumber = [&](StringRef key, int64_t number) {
    auto is = [=](const llvm::json::Value &value) { return value.getAsInteger() == number; };
    reader.acceptIf(key, [&](const llvm::json::Value &value) {
      return value.getAsArray() ? llvm::all_of(*value.getAsArray(), is) : is(value);
    });
  };
  acceptNumber("moe_intermediate_size", layer.expertHidden);
  acceptNumber("num_shared_expert", 1);
}

/// Hunyuan: norms of heads' queries and keys behind their rotary positions.
static Family getHunyuan() {
  return {.architectures = {"HunYuanMoEV1ForCausalLM"},
          .modelTypes = {"hunyuan_v1_moe"},
          .layer = {.renormalize = true},
          .layerKeys = {.expertHidden = "intermediate_size",
                        .topK = "moe_topk",
                        .fixed = {.ignored = {"capacity_factor", "n_group", "topk_group"},
                                  .ignoredAs = {{"use_mixed_mlp_moe", "true"},
                                                {"moe_layer_num_skipped", "0"},
                                                {"moe_drop_tokens", "false"},
                                                {"moe_random_routing_dropped_token", "false"},
                                                {"norm_topk_prob", "true"},
                                                {"routed_scaling_factor", "1"},
                                                {"group_limited_greedy", "false"}}},
                        .readMore = readHunyuanLayer},
          .model = {.attention = {.headNorm = HeadNorm::head, .normAfterRotary = true}},
          .modelKeys = {.biases = "attention_bias",
                        .rotary = {.hasAlpha = true},
                        .fixed = {.mustBeFalse = {"mlp_bias", "use_cla"},
                                  .ignored = {"eod_token_id", "attention_head_dim"},
                                  .ignoredAs = {{"use_qk_norm", "true"}, {"use_rotary_pos_emb", "true"}}}},
          .checkpoint = {names::kLlamaBlocks,
                         {names::kHunyuanBlock, names::kHunyuanShared, names::kLlamaBlock, names::kQwenExperts},
                         names::kLlamaModel}};
}

/// Hunyuan 3: DeepSeek-V3's routing without groups, and norms of heads' queries and keys.
static Family getHunyuanV3() {
  return {.architectures = {"HYV3ForCausalLM"},
          .modelTypes = {"hy_v3"},
          .layer = {.score = Score::sigmoid, .renormalize = true, .selectionBias = true},
          .layerKeys = {.scale = "router_scaling_factor",
                        .sharedCount = "num_shared_experts",
                        .fixed = {.ignored = {"enable_moe_fp32_combine"}}},
          .model = {.attention = {.headNorm = HeadNorm::head}},
          .modelKeys = {.biases = "attention_bias",
                        .sparse = {.types = "mlp_layer_types"},
                        .fixed = {.mustBeFalse = {"mlp_bias"}, .ignored = {"num_nextn_predict_layers"}}},
          .checkpoint = {names::kLlamaBlocks,
                         {names::kHunyuanV3Experts, names::kHunyuanShared, names::kLlamaBlock, names::kQwenExperts},
                         names::kLlamaModel}};
}

/// Granite multiplies embeddings, residual branches and attention scores by constants, and divides the logits by one.
static void readGraniteScales(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  readNumber(reader, "attention_multiplier", kPositive, model.attention.scale);
  readNumber(reader, "embedding_multiplier", kPositive, model.embeddingScale);
  readNumber(reader, "residual_multiplier", kPositive, model.residualScale);
  model.headScale = 1 / reader.getNumber("logits_scaling", kPositive, 1);
}

static void readGraniteShared(JsonReader &reader, LayerSpec &layer) {
  layer.sharedHidden = reader.getInteger("shared_intermediate_size", 0, kMaxSize, 0);
}

/// Granite-MoE: Mixtral's routing, and in a newer class a shared expert.
static Family getGranite(StringRef architecture, StringRef modelType) {
  return {
      .architectures = {architecture},
      .modelTypes = {modelType},
      .layer = {.renormalize = true},
      .layerKeys = {.expertHidden = "intermediate_size", .experts = "num_local_experts", .readMore = readGraniteShared},
      .modelKeys = {.biases = "attention_bias", .routerLoss = getRouterLossKeys(), .readMore = readGraniteScales},
      .checkpoint = {names::kLlamaBlocks, {names::kLlamaBlock, names::kGraniteExperts}, names::kLlamaModel}};
}

//===----------------------------------------------------------------------===//
// Llama 4
//===----------------------------------------------------------------------===//

/// Returns for each block whether it sees chunks of positions; by default those with rotary positions do.
static std::vector<bool> readLlama4Chunks(JsonReader &reader, const std::vector<bool> &rotary) {
  StringRef key = "layer_types";
  std::vector<std::string> types = reader.getStrings(key);
  if (!reader.find(key))
    return rotary;
  if (types.size() != rotary.size())
    reader.fail(key, "a type for each of the " + Twine(rotary.size()) + " blocks");
  std::vector<bool> chunked;
  for (auto [i, type] : llvm::enumerate(types)) {
    chunked.push_back(type == "chunked_attention");
    if (!chunked.back() && type != "full_attention")
      reader.fail((key + "[" + Twine(i) + "]").str(), R"(one of "full_attention", "chunked_attention")");
  }
  chunked.resize(rotary.size());
  return chunked;
}

/// Reads the kinds of blocks. Blocks without rotary positions see all tokens, and their queries grow with the position.
/// The others see chunks of positions, and have norms of heads.
static void readLlama4Blocks(JsonReader &reader, ModelSpec &model) {
  auto count = static_cast<int64_t>(model.blocks.size());
  int64_t every = reader.getInteger("no_rope_layer_interval", 1, kMaxBlocks, 4);
  int64_t chunk = reader.getInteger("attention_chunk_size", 1, kMaxVocabulary);
  std::vector<int64_t> given = reader.getIntegers("no_rope_layers", 0, 1);
  std::vector<int64_t> sparse = reader.getIntegers("moe_layers", 0, kMaxBlocks);
  if (!given.empty() && static_cast<int64_t>(given.size()) < count)
    return reader.fail("no_rope_layers", "0 or 1 for each of the " + Twine(count) + " blocks");
  std::vector<bool> rotary;
  for (int64_t i = 0; i < count; ++i)
    rotary.push_back(given.empty() ? (i + 1) % every != 0 : given[i] == 1);
  std::vector<bool> chunked = readLlama4Chunks(reader, rotary);
  for (int64_t i = 0; i < count; ++i) {
    BlockSpec &block = model.blocks[i];
    block.rotary = block.headNorm = rotary[i];
    block.chunk = chunked[i] ? chunk : 0;
    if (reader.find("moe_layers"))
      block.isMoe = llvm::is_contained(sparse, i);
  }
}

static void readLlama4(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  readLlama4Blocks(reader, model);
  if (reader.getBool("use_qk_norm", true))
    model.attention.headNorm = HeadNorm::plain;
  if (llvm::any_of(model.blocks, [](const BlockSpec &block) { return !block.isMoe; }))
    readSize(reader, "intermediate_size_mlp", kMaxSize, model.denseHidden);
  reader.accept({"intermediate_size_mlp"}); // unread if all blocks have experts
  // Configurations have a flag, or a number that means the flag.
  const llvm::json::Value *tuned = reader.find("attn_temperature_tuning");
  bool isTuned = !tuned || tuned->getAsBoolean().value_or(tuned->getAsInteger().value_or(1) != 0);
  double scale = reader.getNumber("attn_scale", kNotNegative, 0.1);
  model.attention.temperatureSpan = reader.getNumber("floor_scale", kPositive, 8192);
  model.attention.temperature = isTuned ? scale : 0;
}

static void readLlama4Shared(JsonReader &, LayerSpec &layer) { layer.sharedHidden = layer.expertHidden; }

/// Llama 4's text model: the sigmoid of an expert's logit multiplies its input; there is one shared expert.
static Family getLlama4(StringRef architecture, StringRef nested, StringRef block, llvm::ArrayRef<Rule> ofModel) {
  return {
      .architectures = {architecture},
      .modelTypes = nested.empty() ? llvm::SmallVector<StringRef, 2>{"llama4_text"}
                                   : llvm::SmallVector<StringRef, 2>{"llama4_text", "llama4"},
      .layer = {.topK = 1, .score = Score::sigmoid, .weighInputs = true},
      .layerKeys = {.expertHidden = "intermediate_size", .experts = "num_local_experts", .readMore = readLlama4Shared},
      .model = {.attention = {.headDim = 128, .normAfterRotary = true, .rotary = RotarySpec{.interleaved = true}}},
      .modelKeys = {.biases = "attention_bias",
                    .window = {.types = "layer_types"},
                    .sparse = {.step = "interleave_moe_layer_step"},
                    .denseHidden = {},
                    .fixed = {.ignored = {"for_llm_compressor", "router_aux_loss_coef"},
                              .ignoredAs = {{"router_jitter_noise", "0"}}},
                    .readMore = readLlama4},
      .checkpoint = {block, {names::kLlama4Dense, names::kLlamaBlock, names::kLlama4Experts}, ofModel},
      .nested = nested};
}

//===----------------------------------------------------------------------===//
// Qwen's multimodal models, and those with linear attention
//===----------------------------------------------------------------------===//

/// Qwen3-VL's text model: for text alone its three kinds of positions are one.
static Family getQwen3Vl() {
  return {.architectures = {"Qwen3VLMoeForConditionalGeneration"},
          .modelTypes = {"qwen3_vl_moe_text", "qwen3_vl_moe"},
          .layer = {.renormalize = true},
          .layerKeys = {.fixed = {.ignoredAs = {{"norm_topk_prob", "true"}}}},
          .model = {.attention = {.headNorm = HeadNorm::head}},
          .modelKeys = {.biases = "attention_bias",
                        .routerLoss = getRouterLossKeys(),
                        .sparse = {.step = "decoder_sparse_step", .denseList = "mlp_only_layers"}},
          .checkpoint = {"model.language_model.layers.{i}.",
                         {names::kQwen3VlExperts, names::kLlamaBlock},
                         names::kQwen3VlModel},
          .nested = "text_config"};
}

/// Qwen3-Next and Qwen3.5: MoE layers like Qwen2's.
static Family getLinearQwen(StringRef architecture, StringRef modelType, StringRef renormalize, StringRef nested) {
  return {.architectures = {architecture},
          .modelTypes = {modelType},
          .layer = {.renormalize = true, .sharedGate = true},
          .layerKeys = {.renormalize = renormalize, .sharedHidden = "shared_expert_intermediate_size"},
          .nested = nested,
          .missing = "linear attention (gated delta rule) or gated attention"};
}

//===----------------------------------------------------------------------===//
// DBRX and Phi-3.5-MoE
//===----------------------------------------------------------------------===//

static void readDbrxLayer(JsonReader &reader, LayerSpec &layer) {
  if (reader.find("ffn_act_fn"))
    reader.getObject("ffn_act_fn").getChoice("name", {"silu"}, 0);
  layer.renormalize = !reader.isNull("moe_normalize_expert_weights");
  if (layer.renormalize && reader.getNumber("moe_normalize_expert_weights", kPositive, 1) != 1)
    reader.fail("moe_normalize_expert_weights", "1 or null");
  if (reader.find("moe_jitter_eps") && reader.getNumber("moe_jitter_eps", kNotNegative) != 0)
    reader.fail("moe_jitter_eps", "0 or null");
  if (reader.getBool("uniform_expert_assignment", false))
    reader.fail("uniform_expert_assignment", "false");
  // The model's code reads moe_loss_weight and not the other key.
  reader.accept({"hidden_size", "moe_loss_weight", "router_aux_loss_coef"});
}

static void readDbrxModel(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  model.routerLoss.balance = reader.getObject("ffn_config").getNumber("moe_loss_weight", kNotNegative, 0.01);
  readFlag(reader, "output_router_logits", model.routerLoss.isAdded);
  AttentionSpec &attention = model.attention;
  JsonReader own = reader.getObject("attn_config");
  attention.keyHeads = own.getInteger("kv_n_heads", 1, attention.heads, 1);
  if (attention.heads % attention.keyHeads != 0)
    own.fail("kv_n_heads", "a divisor of 'n_heads', " + Twine(attention.heads) + ",");
  if (own.find("clip_qkv"))
    attention.clip = own.getNumber("clip_qkv", kPositive);
  model.dropout.attention = own.getNumber("attn_pdrop", kNotNegative, 0);
  // Published configurations have the base here; those that transformers writes have it in `rope_parameters`.
  if (!reader.find("rope_parameters"))
    readNumber(own, "rope_theta", kRotaryBase, attention.rotary->base);
}

/// DBRX: layer norms without beta; queries, keys and values are bounded.
static Family getDbrx() {
  return {.architectures = {"DbrxForCausalLM", "DBRXForCausalLM"},
          .modelTypes = {"dbrx"},
          .layer = {.topK = 1},
          .layerKeys = {.hidden = "d_model",
                        .expertHidden = "ffn_hidden_size",
                        .object = "ffn_config",
                        .experts = "moe_num_experts",
                        .topK = "moe_top_k",
                        .activation = {},
                        .readMore = readDbrxLayer},
          .model = {.norm = Norm::layer, .normBias = false, .eps = 1e-5},
          .modelKeys = {.blocks = "n_layers",
                        .eps = {},
                        .heads = "n_heads",
                        .keyHeads = {},
                        .headDim = {},
                        .embeddingDropout = "emb_pdrop",
                        .attentionDropout = {},
                        .residualDropout = "resid_pdrop",
                        .fixed = {.mustBeFalse = {"tie_word_embeddings"},
                                  .ignored = {"max_seq_len", "num_key_value_heads"}},
                        .readMore = readDbrxModel},
          .checkpoint = {"transformer.blocks.{i}.", {names::kDbrxBlock}, names::kDbrxModel}};
}

static Family getPhi() {
  return {.architectures = {"PhiMoEForCausalLM", "PhimoeForCausalLM"},
          .modelTypes = {"phimoe"},
          .missingInLayers = "the routing of Phi-3.5-MoE (SparseMixer)"};
}

llvm::SmallVector<Family, 0> mlir::moe::getRecentFamilies() {
  return {getDots(),
          getGlm("Glm4MoeForCausalLM", {"glm4_moe"}, getV3Names()),
          getGlm("Glm4vMoeForConditionalGeneration", {"glm4v_moe_text", "glm4v_moe"},
                 getV3Names("model.language_model.layers.{i}.", names::kQwen3VlModel), "text_config"),
          getSolar(),
          getBailing({"BailingMoeV2ForCausalLM"}, "bailing_moe_v2", "", {.expertGroups = 8, .topGroups = 4},
                     {.headDim = 128, .rotary = RotarySpec{.base = 6e5}}),
          getBailing({"SarvamMoEForCausalLM", "Glm4MoeForCausalLM"}, "sarvam_moe", "norm_topk_prob", {}, {}),
          getMiniMax(),
          getErnie(),
          getHunyuan(),
          getHunyuanV3(),
          getGranite("GraniteMoeForCausalLM", "granitemoe"),
          getGranite("GraniteMoeSharedForCausalLM", "granitemoeshared"),
          getLlama4("Llama4ForConditionalGeneration", "text_config", "language_model.model.layers.{i}.",
                    names::kNestedLlamaModel),
          getLlama4("Llama4ForCausalLM", "", names::kLlamaBlocks, names::kLlamaModel),
          getQwen3Vl(),
          getLinearQwen("Qwen3NextForCausalLM", "qwen3_next", "norm_topk_prob", ""),
          getLinearQwen("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", "", ""),
          getLinearQwen("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", "", "text_config"),
          getDbrx(),
          getPhi()};
}
