//===- FamiliesMixed.cpp - families whose blocks differ in attention ------===//
//
// Some blocks have a window, and may then have heads, positions or sinks of their own.
//
//===----------------------------------------------------------------------===//

#include "CheckpointNames.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

static constexpr WindowKeys kWindows = {.size = "sliding_window", .types = "layer_types"};

/// Number of `attention` among those of the model, to which it is added.
static int64_t addAttention(ModelSpec &model, const AttentionSpec &attention) {
  if (attention == model.attention)
    return 0;
  auto *found = llvm::find(model.otherAttentions, attention);
  if (found == model.otherAttentions.end())
    found = &model.otherAttentions.emplace_back(attention);
  return found - model.otherAttentions.begin() + 1;
}

/// Keeps the windows of the blocks for which `slides`, if the configuration has no list of types.
static void keepWindows(JsonReader &reader, ModelSpec &model, llvm::function_ref<bool(int64_t)> slides) {
  if (reader.find("layer_types"))
    return;
  for (auto [i, block] : llvm::enumerate(model.blocks))
    if (!slides(static_cast<int64_t>(i)))
      block.window = 0;
}

/// Leaves rotary positions to the blocks with a window.
static void keepPositionsInWindows(ModelSpec &model) {
  for (BlockSpec &block : model.blocks)
    block.rotary = block.window > 0;
}

/// Reads a list of numbers with one for each block; empty if it is missing.
static std::vector<int64_t> readOfBlocks(JsonReader &reader, StringRef key, int64_t max, const ModelSpec &model) {
  std::vector<int64_t> numbers = reader.getIntegers(key, 0, max);
  if (reader.find(key) && numbers.size() != model.blocks.size())
    reader.fail(key, "a number for each of the " + Twine(model.blocks.size()) + " blocks");
  return reader.hasFailed() ? std::vector<int64_t>() : numbers;
}

//===----------------------------------------------------------------------===//
// MiMo-V2
//===----------------------------------------------------------------------===//

/// A null is 1.
static void readMimoLayer(JsonReader &reader, LayerSpec &layer) {
  if (!reader.isNull("routed_scaling_factor"))
    readNumber(reader, "routed_scaling_factor", kPositive, layer.routingScale);
  if (reader.getInteger("n_shared_experts", 0, kMaxSize, 0) != 0)
    reader.fail("n_shared_experts", "null, since MiMo-V2 has no shared experts,");
}

/// Reads which blocks have a window, and its size. Lists with the keys of transformers precede the published ones.
/// `sliding_window_size` leaves out the query's own position.
static void readMimoBlocks(JsonReader &reader, ModelSpec &model) {
  std::vector<int64_t> windows = readOfBlocks(reader, "hybrid_layer_pattern", 1, model);
  keepWindows(reader, model, [&](int64_t i) { return windows.empty() ? i > 0 && (i + 1) % 6 != 0 : windows[i] == 1; });
  if (reader.find("sliding_window_size")) {
    constexpr int64_t classDefault = 129;
    int64_t size = reader.getInteger("sliding_window_size", 1, kMaxVocabulary);
    int64_t other = reader.getInteger("sliding_window", 1, kMaxVocabulary, classDefault);
    if (other != size && other != size + 1 && other != classDefault)
      reader.fail("sliding_window", "'sliding_window_size', " + Twine(size) + ",");
    reader.acceptIf("attention_chunk_size",
                    [=](const llvm::json::Value &value) { return value.getAsInteger() == size; });
    for (BlockSpec &block : model.blocks)
      block.window = block.window > 0 ? size + 1 : 0;
  }
  std::vector<int64_t> sparse = readOfBlocks(reader, "moe_layer_freq", 1, model);
  for (size_t i = 0; i < sparse.size() && !reader.find("mlp_layer_types"); ++i)
    model.blocks[i].isMoe = sparse[i] == 1;
}

static void readMimo(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  readMimoBlocks(reader, model);
  readDenseHidden(reader, model);
  readNumber(reader, "layernorm_epsilon", kNormEps, model.eps);
  AttentionSpec &attention = model.attention;
  readSize(reader, "v_head_dim", kMaxSize, attention.valueDim);
  attention.valueScale =
      reader.isNull("attention_value_scale") ? 1 : reader.getNumber("attention_value_scale", kPositive, 0.707);
  AttentionSpec windowed = attention;
  windowed.keyHeads *= 2;
  readSize(reader, "swa_num_attention_heads", kMaxSize, windowed.heads);
  readSize(reader, "swa_num_key_value_heads", windowed.heads, windowed.keyHeads);
  readSize(reader, "swa_head_dim", kMaxSize, windowed.headDim);
  readSize(reader, "swa_v_head_dim", kMaxSize, windowed.valueDim);
  if (windowed.heads % windowed.keyHeads != 0)
    reader.fail("swa_num_key_value_heads", "a divisor of the number of heads, " + Twine(windowed.heads) + ",");
  windowed.sinks = reader.getBool("add_swa_attention_sink_bias", true);
  attention.sinks = reader.getBool("add_full_attention_sink_bias", false);
  windowed.rotary->base = 1e4;
  readRotary(reader, {.isPartial = true, .part = 0.334, .base = "swa_rope_theta", .type = "sliding_attention"},
             "swa_head_dim", windowed.headDim, *windowed.rotary);
  int64_t own = addAttention(model, windowed);
  for (BlockSpec &block : model.blocks)
    block.attention = block.window > 0 ? own : 0;
}

/// MiMo-V2: DeepSeek-V3's routing without shared experts. Blocks with a window have sinks and twice the key heads.
static Family getMimo() {
  LayerKeys keys = getV3LayerKeys();
  keys.scale = keys.sharedCount = {};
  keys.fixed.mustBe = {{"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}};
  keys.readMore = readMimoLayer;
  return {.architectures = {"MiMoV2FlashForCausalLM"},
          .modelTypes = {"mimo_v2_flash"},
          .layer = {.score = Score::sigmoid, .selectionBias = true},
          .layerKeys = std::move(keys),
          .model = {.attention = {.valueDim = 128, .rotary = RotarySpec{.base = 5e6}}},
          .modelKeys = {.inputBiases = "attention_bias",
                        .rotary = {.isPartial = true, .part = 0.334, .type = "full_attention"},
                        .window = kWindows,
                        .sparse = {.types = "mlp_layer_types"},
                        .readMore = readMimo},
          .checkpoint = {names::kLlamaBlocks,
                         {names::kMimoBlock, names::kDeepseekExperts, names::kLlamaBlock, names::kQwenExperts},
                         names::kLlamaModel}};
}

//===----------------------------------------------------------------------===//
// Laguna
//===----------------------------------------------------------------------===//

static void readLagunaLayer(JsonReader &reader, LayerSpec &) {
  if (reader.getNumber("moe_router_logit_softcapping", kNotNegative, 0) != 0)
    reader.fail("moe_router_logit_softcapping", "0, since MoePlan does not bound the router's logits,");
}

/// Reads the gate: `true` means one for each head, `false` also means gates, as in transformers.
static GateSpec readLagunaGate(JsonReader &reader) {
  const llvm::json::Value *value = reader.find("gating");
  bool ofHeads = value && value->getAsString() ? reader.getChoice("gating", {"per-element", "per-head"}) == 1
                                               : reader.getBool("gating", true);
  return {.ofHeads = ofHeads, .activation = Activation::softplus};
}

static void readLaguna(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  keepWindows(reader, model, [](int64_t) { return false; });
  AttentionSpec &attention = model.attention;
  attention.gate = readLagunaGate(reader);
  std::vector<int64_t> heads = readOfBlocks(reader, "num_attention_heads_per_layer", kMaxSize, model);
  AttentionSpec windowed = attention;
  windowed.rotary = RotarySpec();
  readRotary(reader, {.isPartial = true, .base = {}, .type = "sliding_attention"}, "head_dim", windowed.headDim,
             *windowed.rotary);
  for (auto [i, block] : llvm::enumerate(model.blocks)) {
    AttentionSpec own = block.window > 0 ? windowed : attention;
    own.heads = heads.empty() ? own.heads : heads[i];
    if (own.heads == 0 || own.heads % own.keyHeads != 0)
      return reader.fail(("num_attention_heads_per_layer[" + Twine(i) + "]").str(),
                         "a multiple of 'num_key_value_heads', " + Twine(own.keyHeads) + ",");
    block.attention = addAttention(model, own);
  }
}

/// Laguna: softplus gates of attention's results, numbers of heads that differ between blocks.
static Family getLaguna() {
  return {.architectures = {"LagunaForCausalLM"},
          .modelTypes = {"laguna"},
          .layer = {.score = Score::sigmoid, .renormalize = true, .selectionBias = true},
          .layerKeys = {.scale = "moe_routed_scaling_factor",
                        .sharedHidden = "shared_expert_intermediate_size",
                        .fixed = {.mustBeFalse = {"moe_apply_router_weight_on_input"}},
                        .readMore = readLagunaLayer},
          .model = {.attention = {.headNorm = HeadNorm::head, .rotary = RotarySpec{.base = 5e5}}},
          .modelKeys = {.biases = "attention_bias",
                        .routerLoss = getRouterLossKeys(),
                        .rotary = {.isPartial = true, .part = 0.5, .base = {}, .type = "full_attention"},
                        .window = kWindows,
                        .sparse = {.types = "mlp_layer_types"},
                        .readMore = readLaguna},
          .checkpoint = {
              names::kLlamaBlocks, {names::kLagunaBlock, names::kLlamaBlock, names::kQwenExperts}, names::kLlamaModel}};
}

//===----------------------------------------------------------------------===//
// AFMoE
//===----------------------------------------------------------------------===//

static void readAfmoe(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  int64_t every = reader.getInteger("global_attn_every_n_layers", 1, kMaxBlocks, 4);
  keepWindows(reader, model, [=](int64_t i) { return (i + 1) % every != 0; });
  keepPositionsInWindows(model);
  if (reader.getBool("mup_enabled", false))
    model.embeddingScale = std::sqrt(static_cast<double>(layer.hidden));
}

/// AFMoE (Trinity): sigmoid gates of attention's results, norms before and behind both branches, and rotary positions
/// in the blocks with a window alone.
static Family getAfmoe() {
  return {.architectures = {"AfmoeForCausalLM"},
          .modelTypes = {"afmoe"},
          .layer = {.score = Score::sigmoid, .renormalize = true, .selectionBias = true},
          .layerKeys = {.scale = "route_scale",
                        .sharedCount = "num_shared_experts",
                        .fixed = {.mustBe = {{"score_func", "sigmoid"}},
                                  .ignored = {"load_balance_coeff", "use_grouped_mm"},
                                  .ignoredAs = {{"route_norm", "true"},
                                                {"n_group", "1"},
                                                {"topk_group", "1"},
                                                {"num_expert_groups", "1"},
                                                {"num_limited_groups", "1"}}}},
          .model = {.normPlace = NormPlace::both,
                    .attention = {.headNorm = HeadNorm::head, .gate = GateSpec{.ofHeads = false}}},
          .modelKeys = {.biases = "attention_bias",
                        .window = kWindows,
                        .sparse = {.first = "num_dense_layers"},
                        .readMore = readAfmoe},
          .checkpoint = {names::kLlamaBlocks,
                         {names::kAfmoeBlock, names::kDeepseekExperts, names::kLlamaBlock, names::kQwenExperts},
                         names::kLlamaModel}};
}

//===----------------------------------------------------------------------===//
// EXAONE, FlexOlmo
//===----------------------------------------------------------------------===//

/// Without a list of types every n-th block lacks the window. The pattern is n, or a string of L and G.
static void readExaone(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  StringRef key = "sliding_window_pattern";
  const llvm::json::Value *pattern = reader.find(key);
  if (!reader.find("sliding_window")) {
    reader.accept({key});
  } else if (pattern && pattern->getAsString()) {
    std::string text = reader.getString(key);
    if (text.empty() || !llvm::all_of(text, [](char c) { return c == 'L' || c == 'G'; }))
      return reader.fail(key, "a number, or a string of L and G");
    auto last = static_cast<int64_t>(model.blocks.size()) - 1, length = static_cast<int64_t>(text.size());
    keepWindows(reader, model, [&](int64_t i) { return i != last && text[i % length] == 'L'; });
  } else {
    int64_t every = reader.getInteger(key, 1, kMaxBlocks, 4);
    keepWindows(reader, model, [=](int64_t i) { return (i + 1) % every != 0; });
  }
  if (reader.find("sliding_window"))
    keepPositionsInWindows(model);
  int64_t dense = reader.getInteger("first_k_dense_replace", 0, kMaxBlocks, 1);
  if (!reader.find("mlp_layer_types"))
    for (auto [i, block] : llvm::enumerate(model.blocks))
      block.isMoe = static_cast<int64_t>(i) >= dense;
  readDenseHidden(reader, model);
}

/// K-EXAONE: DeepSeek-V3's routing, norms of heads' queries and keys, rotary positions in the blocks with a window.
static Family getExaone() {
  LayerKeys keys = getV3LayerKeys();
  keys.experts = "num_experts";
  keys.sharedCount = "num_shared_experts";
  keys.fixed.mustBe = {{"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}};
  return {.architectures = {"ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM"},
          .modelTypes = {"exaone_moe"},
          .layer = {.score = Score::sigmoid, .selectionBias = true},
          .layerKeys = std::move(keys),
          .model = {.attention = {.headNorm = HeadNorm::head}},
          .modelKeys = {.window = kWindows,
                        .sparse = {.types = "mlp_layer_types"},
                        .fixed = {.ignored = {"num_nextn_predict_layers", "num_mtp_layers"}},
                        .readMore = readExaone},
          .checkpoint = {names::kLlamaBlocks,
                         {names::kExaoneExperts, names::kDeepseekExperts, names::kLlamaBlock, names::kQwenExperts},
                         names::kLlamaModel}};
}

/// FlexOlmo: OLMo 2's attention, whose norms of queries and keys cover all heads, and norms behind the branches alone.
static Family getFlexOlmo() {
  return {.architectures = {"FlexOlmoForCausalLM"},
          .modelTypes = {"flex_olmo"},
          .layerKeys = {.expertHidden = "intermediate_size", .renormalize = "norm_topk_prob"},
          .model = {.normPlace = NormPlace::output, .attention = {.headNorm = HeadNorm::projection}},
          .modelKeys = {.biases = "attention_bias", .routerLoss = getRouterLossKeys()},
          .checkpoint = {
              names::kLlamaBlocks, {names::kOlmo2Norms, names::kLlamaBlock, names::kQwenExperts}, names::kLlamaModel}};
}

//===----------------------------------------------------------------------===//
// Step 3.7
//===----------------------------------------------------------------------===//

static void readStepLayer(JsonReader &reader, LayerSpec &layer) {
  if (reader.find("num_experts"))
    readSize(reader, "num_experts", kMaxExperts, layer.experts);
  if (!reader.getBool("use_moe_router_bias", true))
    reader.fail("use_moe_router_bias", "true");
  reader.getInteger("n_shared_experts", 1, 1, 1);
  // A bound of null or 0 is none.
  auto isNone = [](const llvm::json::Value &value) { return !value.getAsNumber() || *value.getAsNumber() == 0; };
  for (StringRef key : {"swiglu_limits", "swiglu_limits_shared"})
    if (const llvm::json::Value *limits = reader.find(key)) {
      if (!limits->getAsArray() || !llvm::all_of(*limits->getAsArray(), isNone))
        reader.fail(key, "a list of nulls or zeros, since MoePlan has no bounds for units of single blocks,");
      reader.accept({key});
    }
}

/// Reads which blocks have experts: a list of types, a list of their numbers as text, or all but the first.
static void readStepExperts(JsonReader &reader, ModelSpec &model) {
  std::vector<std::string> types = reader.getStrings("mlp_layer_types");
  int64_t dense = reader.getInteger("first_k_dense_replace", 0, kMaxBlocks, 3);
  llvm::SmallVector<StringRef> numbers;
  std::string text = reader.find("moe_layers_enum") ? reader.getString("moe_layers_enum") : "";
  StringRef(text).split(numbers, ',', -1, /*KeepEmpty=*/false);
  if (!types.empty() && types.size() < model.blocks.size())
    return reader.fail("mlp_layer_types", "a type for each of the " + Twine(model.blocks.size()) + " blocks");
  for (auto [i, type] : llvm::enumerate(types))
    if (type != "sparse" && type != "dense")
      return reader.fail(("mlp_layer_types[" + Twine(i) + "]").str(), R"(one of "dense", "sparse")");
  for (StringRef number : numbers)
    if (int64_t block = 0; number.trim().getAsInteger(10, block))
      return reader.fail("moe_layers_enum", "numbers of blocks, with commas between them");
  for (auto [i, block] : llvm::enumerate(model.blocks)) {
    if (!types.empty())
      block.isMoe = types[i] == "sparse";
    else if (!numbers.empty())
      block.isMoe = llvm::any_of(numbers, [&, n = Twine(i).str()](StringRef of) { return of.trim() == n; });
    else
      block.isMoe = static_cast<int64_t>(i) >= dense;
  }
  readDenseHidden(reader, model);
}

/// A number, or the element of a list that all blocks with or without a window have.
static double readOfType(JsonReader &reader, StringRef key, const NumberRange &range, const ModelSpec &model,
                         bool slides, double value) {
  const llvm::json::Value *found = reader.find(key);
  if (!found || !found->getAsArray())
    return reader.getNumber(key, range, value);
  std::vector<double> numbers = reader.getNumbers(key, range);
  if (!reader.hasFailed() && numbers.size() < model.blocks.size())
    reader.fail(key, "a number for each of the " + Twine(model.blocks.size()) + " blocks");
  std::optional<double> one;
  for (auto [number, block] : llvm::zip(numbers, model.blocks)) {
    if ((block.window > 0) != slides)
      continue;
    if (one && *one != number)
      reader.fail(key, "one number for all blocks of a type");
    one = number;
  }
  return one.value_or(value);
}

static void readStepRotary(JsonReader &reader, const ModelSpec &model, bool slides, AttentionSpec &attention) {
  RotarySpec &rotary = *attention.rotary;
  rotary.base = readOfType(reader, "rope_theta", kRotaryBase, model, slides, 1e4);
  double part = readOfType(reader, "partial_rotary_factors", kFraction, model, slides, 1);
  RotaryKeys keys{.isPartial = true, .part = part, .base = {}};
  keys.type = slides ? "sliding_attention" : "full_attention";
  rotary.dim = static_cast<int64_t>(static_cast<double>(attention.headDim) * part);
  // In the older form the scaling holds for blocks without a window.
  if (!slides || !reader.find("rope_scaling"))
    readRotary(reader, keys, "head_dim", attention.headDim, rotary);
}

static void readStep(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  keepWindows(reader, model, [](int64_t) { return false; });
  readStepExperts(reader, model);
  AttentionSpec &attention = model.attention;
  attention.rotary = RotarySpec();
  if (reader.find("query_pre_attn_scalar"))
    attention.scale = 1 / std::sqrt(reader.getNumber("query_pre_attn_scalar", kPositive));
  AttentionSpec windowed = attention;
  if (reader.find("attention_other_setting")) {
    JsonReader other = reader.getObject("attention_other_setting");
    readSize(other, "num_attention_heads", kMaxSize, windowed.heads);
    readSize(other, "num_attention_groups", windowed.heads, windowed.keyHeads);
    readSize(other, "head_dim", kMaxSize, windowed.headDim);
    other.accept({"attention_type", "true_head_dim"});
  }
  readSize(reader, "num_sliding_attention_heads", kMaxSize, windowed.heads);
  if (windowed.heads % windowed.keyHeads != 0)
    return reader.fail("num_sliding_attention_heads", "a multiple of the number of key heads");
  readStepRotary(reader, model, /*slides=*/false, attention);
  readStepRotary(reader, model, /*slides=*/true, windowed);
  int64_t own = addAttention(model, windowed);
  for (BlockSpec &block : model.blocks)
    block.attention = block.window > 0 ? own : 0;
}

/// Step 3.7's text model: sigmoid gates of heads, norms whose weights are differences from 1.
static Family getStep() {
  return {
      .architectures = {"Step3p7ForConditionalGeneration", "Step3p7FlashForCausalLM"},
      .modelTypes = {"step3p5", "step3p7"},
      .layer = {.score = Score::sigmoid, .renormalize = true, .selectionBias = true},
      .layerKeys = {.experts = "n_routed_experts",
                    .scale = "moe_router_scaling_factor",
                    .sharedHidden = "share_expert_dim",
                    .fixed = {.mustBe = {{"scoring_func", "sigmoid"}}},
                    .readMore = readStepLayer},
      .model = {.zeroCentredNorms = true,
                .attention = {.headNorm = HeadNorm::head, .rotary = std::nullopt, .gate = GateSpec()}},
      .modelKeys = {.biases = "attention_bias",
                    .window = {.size = "sliding_window", .types = "layer_types", .further = "num_nextn_predict_layers"},
                    .fixed = {.mustBeFalse = {"mlp_bias"},
                              .ignored = {"num_nextn_predict_layers", "num_mtp_layers", "mtp_layer_types",
                                          "mtp_mlp_layer_types", "per_layer_config"}},
                    .readMore = readStep},
      .checkpoint = {names::kLlamaBlocks, {names::kStepBlock, names::kLlamaBlock}, names::kLlamaModel},
      .nested = "text_config"};
}

llvm::SmallVector<Family, 0> mlir::moe::getMixedFamilies() {
  return {getMimo(), getLaguna(), getAfmoe(), getExaone(), getFlexOlmo(), getStep()};
}
