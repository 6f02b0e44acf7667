//===- ModelConfig.cpp - what a Hugging Face config says of its MoE layers ===//
//
// One function for each family of models. What a config does not say is what the family's published modeling code does:
// each function states it.
//
//===----------------------------------------------------------------------===//

#include "moe/Import/ModelConfig.h"
#include "Families.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

namespace {

// Bounds that keep every product of sizes inside 64 bits.
constexpr int64_t maxSize = 1 << 20;
constexpr int64_t maxExperts = 1 << 16;
/// The limit of `moe.layer`.
constexpr int64_t maxTopK = 8;

/// The keys under which a family gives the four sizes that every layer has.
struct SizeKeys {
  StringRef hidden = "hidden_size";
  StringRef expertHidden = "moe_intermediate_size";
  StringRef experts = "num_experts";
  StringRef topK = "num_experts_per_tok";
  /// Where the file does not say; absent: it must.
  std::optional<int64_t> defaultTopK = std::nullopt;
  /// The same for the inner columns, in multiples of the hidden size.
  std::optional<int64_t> defaultExpansion = std::nullopt;
};

struct Family {
  StringRef architecture;
  StringRef modelType;
  SizeKeys keys;
  /// Fills what is not in `keys`.
  void (*read)(JsonReader &, LayerSpec &);
  void (*readModel)(JsonReader &, const LayerSpec &, ModelSpec &);
};

/// transformers 5 writes the one name where its older versions, and published configs, have the other.
StringRef findExpertsKey(JsonReader &reader, const SizeKeys &keys) {
  StringRef newer = "num_local_experts";
  return keys.experts == "num_experts" && !reader.find(keys.experts) && reader.find(newer) ? newer : keys.experts;
}

void readSizes(JsonReader &reader, const SizeKeys &keys, LayerSpec &layer) {
  layer.hidden = reader.getInteger(keys.hidden, 1, maxSize);
  std::optional<int64_t> inner;
  if (keys.defaultExpansion)
    inner = *keys.defaultExpansion * layer.hidden;
  layer.expertHidden = reader.getInteger(keys.expertHidden, 1, maxSize, inner);
  layer.experts = reader.getInteger(findExpertsKey(reader, keys), 1, maxExperts);
  layer.topK = reader.getInteger(keys.topK, 1, std::min(maxTopK, layer.experts), keys.defaultTopK);
}

/// The activation of a gated expert, `act(x W_gate) * (x W_up)`.
Activation readGatedActivation(JsonReader &reader) {
  reader.getChoice("hidden_act", {"silu", "swish"}, 0);
  return Activation::swiglu;
}

/// Switch: the router's probability of the chosen expert is the weight, and each expert takes at most `expert_capacity`
/// tokens of a sequence, whose length in training was 512.
void readSwitch(JsonReader &reader, LayerSpec &layer) {
  constexpr double sequenceLength = 512;
  // "gelu_new", the tanh approximation, is another function.
  const StringRef names[] = {"relu", "gelu", "silu"};
  const Activation activations[] = {Activation::relu, Activation::gelu, Activation::silu};
  size_t projection = reader.getChoice("feed_forward_proj", names, 0);
  size_t function = reader.getChoice("dense_act_fn", names, projection);
  if (reader.find("feed_forward_proj") && function != projection)
    reader.fail("feed_forward_proj", "the value of 'dense_act_fn', \"" + names[function] + "\",");
  if (reader.getBool("is_gated_act", false))
    reader.fail("is_gated_act", "false");
  layer.activation = activations[function];
  layer.gateBias = reader.getBool("router_bias", false);
  int64_t capacity = reader.getInteger("expert_capacity", 1, maxSize);
  layer.capacityFactor = static_cast<double>(capacity) * static_cast<double>(layer.experts) /
                         (static_cast<double>(layer.topK) * sequenceLength);
}

/// Mixtral: the softmax over the chosen experts' logits, which is the whole softmax renormalised.
void readMixtral(JsonReader &reader, LayerSpec &layer) {
  layer.activation = readGatedActivation(reader);
  layer.renormalize = true;
}

/// Qwen2-MoE: one shared expert, scaled by the sigmoid of a gate of its own.
void readQwen2(JsonReader &reader, LayerSpec &layer) {
  layer.activation = readGatedActivation(reader);
  layer.renormalize = reader.getBool("norm_topk_prob", false);
  layer.sharedHidden = reader.getInteger("shared_expert_intermediate_size", 1, maxSize);
  layer.sharedGate = true;
}

/// Qwen3-MoE and OLMoE: softmax, renormalised if the config says so.
void readPlain(JsonReader &reader, LayerSpec &layer) {
  layer.activation = readGatedActivation(reader);
  layer.renormalize = reader.getBool("norm_topk_prob", false);
}

/// DeepSeek: `n_shared_experts` shared experts, which are one of as many times the inner size.
void readDeepseekExperts(JsonReader &reader, LayerSpec &layer) {
  layer.activation = readGatedActivation(reader);
  layer.sharedHidden = reader.getInteger("n_shared_experts", 0, maxSize / layer.expertHidden, 0) * layer.expertHidden;
}

/// Only the `topk_group` best of `n_group` groups of experts are chosen from.
void readGroups(JsonReader &reader, LayerSpec &layer, std::optional<int64_t> groups, std::optional<int64_t> topGroups,
                int64_t minGroupSize) {
  layer.expertGroups = reader.getInteger("n_group", 1, layer.experts, groups);
  layer.topGroups = reader.getInteger("topk_group", 1, layer.expertGroups, topGroups);
  if (layer.experts % layer.expertGroups != 0)
    return reader.fail("n_group", "a divisor of 'n_routed_experts', " + Twine(layer.experts) + ",");
  int64_t groupSize = layer.experts / layer.expertGroups;
  if (layer.expertGroups > 1 && groupSize < minGroupSize)
    return reader.fail("n_group",
                       "groups of at least " + Twine(minGroupSize) + " of " + Twine(layer.experts) + " experts");
  if (layer.topGroups * groupSize < layer.topK)
    return reader.fail("topk_group", "groups of " + Twine(groupSize) + " experts that hold 'num_experts_per_tok', " +
                                         Twine(layer.topK) + ", together");
}

/// DeepSeek-V2: softmax; weights are either renormalised or scaled, and one choice alone is never renormalised.
void readDeepseekV2(JsonReader &reader, LayerSpec &layer) {
  readDeepseekExperts(reader, layer);
  reader.getChoice("scoring_func", {"softmax"}, 0);
  if (reader.getChoice("topk_method", {"greedy", "group_limited_greedy"}, 0) == 1)
    readGroups(reader, layer, std::nullopt, std::nullopt, 1);
  layer.renormalize = reader.getBool("norm_topk_prob", false) && layer.topK > 1;
  double scale = reader.getNumber("routed_scaling_factor", kPositive, 1.0);
  layer.routingScale = layer.renormalize ? 1.0 : scale;
}

/// DeepSeek-V3: sigmoid, balanced by a selection bias instead of a loss; a group of experts is scored by its two best;
/// weights are scaled, renormalised or not.
void readDeepseekV3(JsonReader &reader, LayerSpec &layer) {
  readDeepseekExperts(reader, layer);
  reader.getChoice("scoring_func", {"sigmoid"}, 0);
  reader.getChoice("topk_method", {"noaux_tc"}, 0);
  readGroups(reader, layer, 8, 4, 2);
  layer.score = Score::sigmoid;
  layer.selectionBias = true;
  layer.groupScore = layer.expertGroups > 1 ? GroupScore::top2 : GroupScore::max;
  layer.renormalize = reader.getBool("norm_topk_prob", true) && layer.topK > 1;
  layer.routingScale = reader.getNumber("routed_scaling_factor", kPositive, 2.5);
}

/// gpt-oss: biases everywhere, a clamped activation, and the softmax over the chosen experts' logits as in Mixtral.
void readGptOss(JsonReader &reader, LayerSpec &layer) {
  readGatedActivation(reader);
  if (reader.getNumber("swiglu_limit", kPositive, 7.0) != 7.0)
    reader.fail("swiglu_limit", "7.0");
  layer.activation = Activation::swiglu_clamped;
  layer.renormalize = true;
  layer.gateBias = true;
  layer.expertBiases = true;
}

/// GPT-2 and BERT with experts in place of feed-forward blocks, which have biases; dropless without a capacity factor.
void readPlainExperts(JsonReader &reader, LayerSpec &layer) {
  layer.expertBiases = true;
  layer.renormalize = reader.getBool("norm_topk_prob", false);
  if (reader.find("expert_capacity_factor"))
    layer.capacityFactor = reader.getNumber("expert_capacity_factor", kPositive);
}

void readGpt2(JsonReader &reader, LayerSpec &layer) {
  layer.activation = readPlainActivation(reader, "activation_function", kGeluTanh);
  readPlainExperts(reader, layer);
}

void readBert(JsonReader &reader, LayerSpec &layer) {
  layer.activation = readPlainActivation(reader, "hidden_act", kGelu);
  readPlainExperts(reader, layer);
}

const Family families[] = {
    {"SwitchTransformersForConditionalGeneration",
     "switch_transformers",
     {"d_model", "d_ff", "num_experts", "num_selected_experts", 1},
     readSwitch,
     readSwitchModel},
    {"MixtralForCausalLM",
     "mixtral",
     {"hidden_size", "intermediate_size", "num_local_experts", "num_experts_per_tok"},
     readMixtral,
     readMixtralModel},
    {"Qwen2MoeForCausalLM", "qwen2_moe", {}, readQwen2, readQwen2Model},
    {"Qwen3MoeForCausalLM", "qwen3_moe", {}, readPlain, readQwen3Model},
    {"OlmoeForCausalLM",
     "olmoe",
     {"hidden_size", "intermediate_size", "num_experts", "num_experts_per_tok"},
     readPlain,
     readOlmoeModel},
    {"DeepseekV2ForCausalLM",
     "deepseek_v2",
     {"hidden_size", "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok"},
     readDeepseekV2,
     readDeepseekV2Model},
    {"DeepseekV3ForCausalLM",
     "deepseek_v3",
     {"hidden_size", "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok"},
     readDeepseekV3,
     readDeepseekV3Model},
    {"GptOssForCausalLM",
     "gpt_oss",
     {"hidden_size", "intermediate_size", "num_local_experts", "num_experts_per_tok"},
     readGptOss,
     readGptOssModel},
    {"GPT2MoEForCausalLM",
     "gpt2_moe",
     {"n_embd", "n_inner", "num_experts", "num_experts_per_tok", 1, 4},
     readGpt2,
     readGpt2Model},
    {"BertMoEForMaskedLM",
     "bert_moe",
     {"hidden_size", "intermediate_size", "num_experts", "num_experts_per_tok", 1},
     readBert,
     readBertModel},
};

/// The family of the first known name under `architectures`, else of `model_type`.
const Family *findFamily(JsonReader &reader) {
  if (const llvm::json::Value *value = reader.find("architectures")) {
    const llvm::json::Array *names = value->getAsArray();
    if (!names) {
      reader.fail("architectures", "a list of strings");
      return nullptr;
    }
    for (const llvm::json::Value &name : *names)
      for (const Family &family : families)
        if (name.getAsString() == family.architecture)
          return &family;
  } else if (const llvm::json::Value *type = reader.find("model_type")) {
    for (const Family &family : families)
      if (type->getAsString() == family.modelType)
        return &family;
    reader.fail("model_type",
                "one of " + llvm::join(llvm::map_range(families, [](const Family &f) { return f.modelType; }), ", "));
    return nullptr;
  }
  reader.fail("architectures", "one of " + llvm::join(getKnownArchitectures(), ", "));
  return nullptr;
}

} // namespace

llvm::SmallVector<StringRef> mlir::moe::getKnownArchitectures() {
  return llvm::map_to_vector(families, [](const Family &family) { return family.architecture; });
}

llvm::Expected<ModelConfig> mlir::moe::parseModelConfig(StringRef text, StringRef fileName, bool whole) {
  llvm::Expected<JsonReader> reader = JsonReader::parse(text, fileName);
  if (!reader)
    return reader.takeError();
  const Family *family = findFamily(*reader);
  if (!family)
    return reader->takeError();

  ModelConfig config;
  config.architecture = family->architecture.str();
  config.fileName = fileName.str();
  readSizes(*reader, family->keys, config.layer);
  family->read(*reader, config.layer);
  if (whole && !reader->hasFailed())
    family->readModel(*reader, config.layer, config.model.emplace());
  if (reader->hasFailed())
    return reader->takeError();
  JsonReader::Place place = reader->getPlace(findExpertsKey(*reader, family->keys));
  config.line = place.line;
  config.column = place.column;
  return config;
}
