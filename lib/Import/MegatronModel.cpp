//===- MegatronModel.cpp - the model of a Megatron-LM job -----------------===//
//
// A family whose keys are Megatron's arguments. Their meanings and defaults are those of Megatron-LM core_v0.15:
// megatron/training/arguments.py and megatron/core/transformer/transformer_config.py.
//
//===----------------------------------------------------------------------===//
#include "moe/Import/MegatronArguments.h"

#include "Family.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// The layer
//===----------------------------------------------------------------------===//

static bool hasBias(JsonReader &reader) { return !reader.getBool("disable_bias_linear", false); }

/// The activation of gpt-oss is a gated unit with bounds, and with 1 added to its linear half.
static Activation getActivation(JsonReader &reader) {
  if (reader.getBool("squared_relu", false))
    reader.fail("squared_relu", "no such argument, since MoePlan does not have squared ReLU,");
  StringRef offset = "glu_linear_offset", limit = "activation_func_clamp_value";
  bool isBounded = reader.getBool("quick_geglu", false) && !reader.getBool("swiglu", false);
  if (isBounded && reader.getNumber(offset, kNotNegative, 0) != 1)
    reader.fail(offset, "1, with --quick-geglu,");
  for (StringRef key : {offset, limit})
    if (!isBounded && reader.find(key) && reader.getNumber(key, kNotNegative) != 0)
      reader.fail(key, "no such argument without --quick-geglu, since MoePlan changes only that unit,");
  if (reader.getBool("swiglu", false))
    return Activation::swiglu;
  return reader.getBool("quick_geglu", false) ? Activation::swiglu_clamped : Activation::gelu_tanh;
}

static void readRouter(JsonReader &reader, LayerSpec &layer) {
  bool isSigmoid = reader.getChoice("moe_router_score_function", {"softmax", "sigmoid"}, 0) == 1;
  layer.score = isSigmoid ? Score::sigmoid : Score::softmax;
  // The softmax over the chosen experts' logits is the renormalised whole one. Sigmoids are always renormalised.
  layer.renormalize = layer.topK > 1 && (isSigmoid || !reader.getBool("moe_router_pre_softmax", false));
  layer.selectionBias = reader.getBool("moe_router_enable_expert_bias", false);
  layer.groupScore = layer.expertGroups == 1 ? GroupScore::max : isSigmoid ? GroupScore::top2 : GroupScore::max;
  layer.weighInputs = reader.getBool("moe_apply_probs_on_input", false);
}

static void readMoeLayer(JsonReader &reader, LayerSpec &layer) {
  layer.activation = getActivation(reader);
  constexpr double noLimit = 1e30;
  layer.activationLimit = reader.getNumber("activation_func_clamp_value", kPositive, noLimit);
  layer.gateBias = layer.expertBiases = hasBias(reader);
  layer.sharedHidden = reader.getInteger("moe_shared_expert_intermediate_size", 0, kMaxSize, 0);
  layer.sharedGate = layer.sharedHidden > 0 && reader.getBool("moe_shared_expert_gate", false);
  readRouter(reader, layer);
}

//===----------------------------------------------------------------------===//
// The model around it
//===----------------------------------------------------------------------===//

namespace {
/// A list, or a number that multiplies lists.
struct PatternValue {
  std::vector<int64_t> list;
  std::optional<int64_t> number;
};

/// Parses a list as Megatron-LM takes it for --moe-layer-freq: sums and multiples of lists of numbers, such as
/// `([0]*3+[1]*58)`. Null if it is no list, or has more than 10000 numbers.
class PatternParser {
public:
  explicit PatternParser(StringRef text) : rest(text) {}

  std::optional<std::vector<int64_t>> run() {
    std::optional<PatternValue> value = parseSum();
    if (!value || value->number || !rest.trim().empty())
      return std::nullopt;
    return std::move(value->list);
  }

private:
  bool consume(StringRef text) {
    rest = rest.ltrim();
    return rest.consume_front(text);
  }
  std::optional<PatternValue> parseSum();
  std::optional<PatternValue> parseProduct();
  std::optional<PatternValue> parseFactor();
  std::optional<int64_t> parseNumber() {
    int64_t number = 0;
    rest = rest.ltrim();
    return rest.consumeInteger(10, number) ? std::nullopt : std::optional(number);
  }

  StringRef rest;
  int depth = 0;
};
} // namespace

std::optional<PatternValue> PatternParser::parseFactor() {
  constexpr int deepest = 100;
  PatternValue value;
  if (consume("[")) {
    for (; !consume("]"); consume(","))
      if (std::optional<int64_t> number = parseNumber())
        value.list.push_back(*number);
      else
        return std::nullopt;
    return value;
  }
  if (!consume("(")) {
    value.number = parseNumber();
    return value.number ? std::optional(value) : std::nullopt;
  }
  if (++depth > deepest)
    return std::nullopt;
  std::optional<PatternValue> inner = parseSum();
  --depth;
  return consume(")") ? inner : std::nullopt;
}

std::optional<PatternValue> PatternParser::parseProduct() {
  std::optional<PatternValue> value = parseFactor();
  while (value && consume("*")) {
    std::optional<PatternValue> other = parseFactor();
    if (!other || value->number.has_value() == other->number.has_value())
      return std::nullopt;
    if (value->number)
      std::swap(value, other);
    int64_t times = *other->number;
    if (times < 0 || times > kMaxBlocks || static_cast<int64_t>(value->list.size()) * times > kMaxBlocks)
      return std::nullopt;
    std::vector<int64_t> once = std::exchange(value->list, {});
    for (int64_t i = 0; i < times; ++i)
      llvm::append_range(value->list, once);
  }
  return value;
}

std::optional<PatternValue> PatternParser::parseSum() {
  std::optional<PatternValue> value = parseProduct();
  while (value && consume("+")) {
    std::optional<PatternValue> other = parseProduct();
    if (!other || value->number || other->number)
      return std::nullopt;
    llvm::append_range(value->list, other->list);
  }
  return value;
}

/// Returns for each block whether the pattern has a number other than 0 there. An integer selects by `isEvery`.
static std::vector<bool> readPattern(JsonReader &reader, StringRef key, size_t blocks, bool otherwise,
                                     llvm::function_ref<bool(int64_t block, int64_t every)> isEvery) {
  std::vector<bool> result(blocks, otherwise);
  const llvm::json::Value *value = reader.find(key);
  if (!value || reader.hasFailed())
    return result;
  int64_t every = value->getAsInteger().value_or(0);
  std::optional<std::vector<int64_t>> listed =
      value->getAsString() ? PatternParser(*value->getAsString()).run() : std::nullopt;
  if (every < 1 && (!listed || listed->size() != blocks)) {
    reader.fail(key, "a number, or a list of " + Twine(blocks) + " numbers such as ([0]*1+[1]*" + Twine(blocks - 1) +
                         "), one for each block,");
    return result;
  }
  for (size_t i = 0; i < blocks; ++i)
    result[i] = listed ? (*listed)[i] != 0 : isEvery(static_cast<int64_t>(i), every);
  return result;
}

/// Reads `--window-size 127,0`: the numbers of tokens that a query sees before and after its own.
static int64_t readWindow(JsonReader &reader) {
  if (!reader.find("window_size"))
    return 0;
  std::string text = reader.getString("window_size");
  int64_t before = 0;
  if (reader.hasFailed() || StringRef(text).trim("() ").split(',').first.getAsInteger(10, before) || before < 0)
    reader.fail("window_size", "two numbers of tokens, such as 127,0,");
  return before + 1;
}

static void readBlocks(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  size_t count = model.blocks.size();
  auto isLast = [](int64_t block, int64_t every) { return (block + 1) % every == 0; };
  std::vector<bool> sparse = readPattern(reader, "moe_layer_freq", count, true,
                                         [](int64_t block, int64_t every) { return block % every == 0; });
  std::vector<bool> slides = readPattern(reader, "window_attn_skip_freq", count, true,
                                         [&](int64_t block, int64_t every) { return !isLast(block, every); });
  std::vector<bool> still = readPattern(reader, "no_rope_freq", count, false, isLast);
  int64_t window = readWindow(reader);
  for (size_t i = 0; i < count; ++i) {
    model.blocks[i].isMoe = layer.experts > 0 && sparse[i];
    model.blocks[i].window = slides[i] ? window : 0;
    model.blocks[i].rotary = !still[i];
  }
}

static void readNormsAndBiases(JsonReader &reader, ModelSpec &model) {
  model.norm = reader.getChoice("normalization", {"LayerNorm", "RMSNorm"}, 0) == 1 ? Norm::rms : Norm::layer;
  bool isBiased = hasBias(reader);
  model.denseBiases = model.attention.outputBias = isBiased;
  model.attention.inputBiases = isBiased || reader.getBool("add_qkv_bias", false);
  if (reader.getBool("qk_layernorm", false) && !model.attention.latent)
    model.attention.headNorm = HeadNorm::head;
  if (model.attention.latent)
    model.attention.latent->eps = model.eps;
  model.attention.sinks = reader.getChoice("softmax_type", {"vanilla", "learnable"}, 0) == 1;
}

static void readRouterLoss(JsonReader &reader, ModelSpec &model) {
  model.routerLoss.balance = reader.getNumber("moe_aux_loss_coeff", kNotNegative, 0);
  std::vector<std::string> types = reader.getStrings("moe_router_load_balancing_type");
  for (StringRef type : types)
    if (!llvm::is_contained({"aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "none"}, type))
      reader.fail("moe_router_load_balancing_type", "aux_loss, seq_aux_loss, global_aux_loss, sinkhorn or none");
  bool isOff = !types.empty() && llvm::none_of(types, [](StringRef type) { return type.ends_with("aux_loss"); });
  model.routerLoss.isAdded = !isOff && model.routerLoss.balance > 0;
}

static void readRest(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  readBlocks(reader, layer, model);
  readNormsAndBiases(reader, model);
  readRouterLoss(reader, model);
  model.denseActivation = getActivation(reader);
  model.tiedHead = !reader.getBool("untie_embeddings_and_output_weights", false);
  model.dropout.embedding = model.dropout.residual;
  if (model.attention.rotary)
    model.attention.rotary->interleaved = reader.getBool("rotary_interleaved", false);
}

//===----------------------------------------------------------------------===//
// The family
//===----------------------------------------------------------------------===//

/// Returns the vocabulary. Some tokenizers have a fixed one; others take it from a file that the arguments name.
static int64_t getVocabulary(JsonReader &reader, std::optional<int64_t> given, ModelConfig &config) {
  if (given && (*given < 1 || *given > kMaxVocabulary))
    reader.fail("tokenizer_type", "--vocab-size from 1 to " + Twine(kMaxVocabulary));
  if (given)
    return *given;
  StringRef key = reader.find("padded_vocab_size") ? "padded_vocab_size" : "vocab_size";
  if (reader.find(key))
    return reader.getInteger(key, 1, kMaxVocabulary);
  std::string type = reader.getString("tokenizer_type", "none");
  int64_t known =
      llvm::StringSwitch<int64_t>(type).Case("Llama2Tokenizer", 32000).Case("GPT2BPETokenizer", 50257).Default(0);
  if (known == 0) {
    reader.fail(key, "the number of tokens (--vocab-size), which '" + type + "' does not say,");
    return 1;
  }
  config.otherKeys = ConfigRemark{
      ("'vocab_size': expected --vocab-size; the " + Twine(known) + " tokens of " + type + " are taken").str(),
      reader.getPlace("tokenizer_type")};
  return known;
}

static void setPositions(JsonReader &reader, Family &family) {
  size_t type = reader.getChoice("position_embedding_type", {"learned_absolute", "rope", "yarn", "none"}, 0);
  if (type == 1 || type == 2 || reader.getBool("use_rotary_position_embeddings", false) ||
      reader.getBool("multi_latent_attention", false)) {
    family.model.attention.rotary = RotarySpec();
    family.modelKeys.rotary = {.isPartial = true};
  } else if (type == 0 && !reader.getBool("no_position_embedding", false)) {
    family.modelKeys.learnedPositions = "max_position_embeddings";
  }
}

static void setAttention(JsonReader &reader, Family &family) {
  family.modelKeys.keyHeads = {};
  if (reader.getBool("multi_latent_attention", false)) {
    family.model.attention.latent = LatentSpec{.rank = 32, .plainDim = 128, .rotaryDim = 64, .valueDim = 128};
  } else if (reader.getBool("group_query_attention", false)) {
    family.modelKeys.keyHeads = "num_query_groups";
    family.model.attention.keyHeads = 1;
  }
  setPositions(reader, family);
}

/// Makes a family for these arguments, since the meaning of an absent one depends on the others.
static Family makeFamily(JsonReader &reader, ModelConfig &config, bool whole, std::optional<int64_t> vocabulary) {
  bool isMoe = reader.find("num_experts");
  int64_t hidden = reader.getInteger("hidden_size", 1, kMaxSize, 1);
  // Megatron makes a gated unit, which has a third matrix, two thirds as wide.
  int64_t usual = reader.getBool("swiglu", false) ? 4 * hidden * 2 / 3 / 64 * 64 : 4 * hidden;
  int64_t ffn = reader.getInteger("ffn_hidden_size", 1, kMaxSize, usual);
  Family family;
  family.architectures = {"a Megatron-LM job"};
  family.modelTypes = {"megatron"};
  family.layer = {.expertHidden = ffn, .topK = 2, .expertGroups = 1, .topGroups = 1};
  family.layerKeys = {.expertHidden = isMoe ? "moe_ffn_hidden_size" : "",
                      .experts = isMoe ? "num_experts" : "",
                      .topK = "moe_router_topk",
                      .activation = {},
                      .scale = "moe_router_topk_scaling_factor",
                      .groups = GroupKeys{.groups = "moe_router_num_groups", .topGroups = "moe_router_group_topk"},
                      .capacityFactor = "moe_expert_capacity_factor",
                      .readMore = readMoeLayer};
  family.model = {.eps = 1e-5,
                  .attention = {.rotary = std::nullopt},
                  .denseHidden = ffn,
                  .dropout = {.attention = 0.1, .residual = 0.1},
                  .routerLoss = {.isOverLayers = false}};
  family.modelKeys = {.blocks = "num_layers",
                      .vocabulary = {},
                      .padding = {},
                      .eps = "norm_epsilon",
                      .tiedHead = {},
                      .heads = "num_attention_heads",
                      .headDim = "kv_channels",
                      .attentionDropout = "attention_dropout",
                      .residualDropout = "hidden_dropout",
                      .jitter = "moe_input_jitter_eps",
                      .denseHidden = "ffn_hidden_size",
                      .readMore = readRest};
  setAttention(reader, family);
  if (whole)
    family.model.vocabulary = getVocabulary(reader, vocabulary, config);
  return family;
}

/// Adds the arguments of stretched positions as the object that configurations have.
static void addScaling(JsonReader &reader, llvm::json::Object &defaults) {
  llvm::json::Object scaling;
  if (reader.getBool("use_rope_scaling", false))
    scaling = llvm::json::Object{{"rope_type", "llama3"},
                                 {"factor", reader.getNumber("rope_scaling_factor", kPositive, 8)},
                                 {"low_freq_factor", 1.0},
                                 {"high_freq_factor", 4.0},
                                 {"original_max_position_embeddings", 8192}};
  else if (double factor = reader.getNumber("rotary_scaling_factor", kPositive, 1);
           factor > 1 && reader.getString("rope_type", "yarn") == "yarn")
    scaling = llvm::json::Object{{"rope_type", "yarn"},
                                 {"factor", factor},
                                 {"mscale", reader.getNumber("mscale", kNotNegative, 1)},
                                 {"mscale_all_dim", reader.getNumber("mscale_all_dim", kNotNegative, 0)},
                                 {"original_max_position_embeddings",
                                  reader.getInteger("original_max_position_embeddings", 1, kMaxVocabulary, 4096)}};
  if (!scaling.empty())
    defaults["rope_scaling"] = std::move(scaling);
}

llvm::Expected<ModelConfig> mlir::moe::readMegatronModel(const MegatronArguments &arguments, bool whole,
                                                         std::optional<int64_t> vocabulary) {
  llvm::Expected<JsonReader> reader = JsonReader::parse(arguments.json, arguments.fileName);
  if (!reader)
    return reader.takeError();
  // The readers of all families use the second names.
  reader->addAlias("rotary_base", "rope_theta");
  reader->addAlias("rotary_percent", "partial_rotary_factor");
  reader->addAlias("qk_head_dim", "qk_nope_head_dim");
  reader->addAlias("qk_pos_emb_head_dim", "qk_rope_head_dim");
  // Without this default the token itself makes the queries.
  llvm::json::Object defaults{{"q_lora_rank", nullptr}};
  addScaling(*reader, defaults);
  reader->setDefaults(defaults);
  ModelConfig config;
  Family family = makeFamily(*reader, config, whole, vocabulary);
  if (family.layerKeys.experts.empty() && !whole)
    reader->fail("num_experts", "the number of experts, or --whole-model for a model without,");
  config.architecture = family.architectures.front().str();
  // A graph takes only the names of a checkpoint's tensors from its family later. Those of Megatron are not known.
  static const Family unnamed;
  config.family = &unnamed;
  config.fileName = arguments.fileName;
  config.layer = readLayer(*reader, family);
  if (whole && !reader->hasFailed())
    config.model = readModel(*reader, family, config.layer);
  if (reader->hasFailed())
    return reader->takeError();
  config.layerPlace = reader->getPlace(reader->find("num_experts") ? "num_experts" : "hidden_size");
  config.attentionPlace = reader->getPlace("num_attention_heads");
  config.vocabularyPlace = reader->getPlace("vocab_size");
  config.densePlace = reader->getPlace("ffn_hidden_size");
  return config;
}
