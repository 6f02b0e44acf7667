// No key of a configuration is misread silently. Each scalar of each family's configurations is set to unusual values,
// one at a time. The graph must change, or the value is refused, or a warning names it, or the key is known to be
// harmless. A missing key means what transformers' configuration class says.
#include "../../lib/Import/Family.h"
#include "moe/Import/Import.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::moe;
using llvm::StringRef;
namespace json = llvm::json;

namespace {

/// Keys that are understood but change nothing in these configurations, because another key overrides them. The first
/// word is the model type, and * means all.
constexpr StringRef kUnused[] = {
    "qwen2_moe intermediate_size: of dense blocks",
    "qwen2_moe sliding_window: use_sliding_window",
    "qwen2_moe max_window_layers: use_sliding_window",
    "qwen3_moe intermediate_size: of dense blocks",
    "qwen3_moe sliding_window: use_sliding_window",
    "deepseek_v2 intermediate_size: of dense blocks",
    "deepseek_v2 seq_aux: docs/Models.md",
    "deepseek_v2 n_group: topk_method",
    "deepseek_v2 topk_group: topk_method",
    "deepseek_v2 qk_head_dim: transformers ignores it",
    "deepseek_v3 qk_head_dim: transformers ignores it",
    "deepseek_v3 aux_loss_alpha: transformers ignores it",
    "deepseek_v3 seq_aux: transformers ignores it",
    "deepseek_v3 num_nextn_predict_layers: of blocks that are no part of the model",
    "gpt_oss experts_per_token: transformers ignores it",
    "gpt_oss initial_context_length: transformers ignores it",
    "glm4_moe num_nextn_predict_layers: of blocks that are no part of the model",
    "minimax_m2 use_mtp: of blocks that are no part of the model",
    "minimax_m2 num_mtp_modules: of blocks that are no part of the model",
    "minimax_m2 mtp_transformer_layers: of blocks that are no part of the model",
    "ernie4_5_moe moe_norm_min: far below what f64 tells apart",
    "hunyuan_v1_moe eod_token_id: of generation",
    "hunyuan_v1_moe use_qk_norm: transformers ignores it",
    "hunyuan_v1_moe rope_scaling.factor: not of \"dynamic\" with alpha",
    "hunyuan_v1_moe rope_scaling.beta_fast: not of \"dynamic\" with alpha",
    "hunyuan_v1_moe rope_scaling.beta_slow: not of \"dynamic\" with alpha",
    "hunyuan_v1_moe rope_scaling.mscale: not of \"dynamic\" with alpha",
    "hunyuan_v1_moe rope_scaling.mscale_all_dim: not of \"dynamic\" with alpha",
    "qwen3_vl_moe text_config.norm_topk_prob: transformers ignores it",
    "qwen3_vl_moe text_config.intermediate_size: of dense blocks",
    "qwen3_vl_moe_text intermediate_size: of dense blocks",
    "llama4 text_config.intermediate_size_mlp: of dense blocks",
    "llama4_text intermediate_size_mlp: of dense blocks",
    "llama4_text interleave_moe_layer_step: moe_layers",
    "llama4_text no_rope_layer_interval: no_rope_layers",
    "llama4_text router_aux_loss_coef: transformers ignores it",
    "llama4_text router_jitter_noise: transformers ignores it",
    "dbrx max_seq_len: the longest sequence of training",
    "dbrx num_key_value_heads: attn_config",
    "dbrx ffn_config.hidden_size: d_model",
    "qwen2 sliding_window: use_sliding_window",
    "qwen2 max_window_layers: use_sliding_window",
    "qwen3 sliding_window: use_sliding_window",
    "qwen3 max_window_layers: use_sliding_window",
    "gpt2 summary_use_proj: of another head",
    "gpt2 summary_first_dropout: of another head",
    "gpt2 summary_proj_to_labels: of another head",
    "gpt2 summary_type: of another head",
    "gpt2 reorder_and_upcast_attn: of another type",
    "switch_transformers n_positions: transformers ignores it",
    "switch_transformers router_type: transformers ignores it",
    "switch_transformers num_sparse_encoder_layers: encoder_sparse_step",
    "switch_transformers num_sparse_decoder_layers: decoder_sparse_step",
    "switch_transformers router_ignore_padding_tokens: transformers ignores it",
    "switch_transformers add_router_probs: transformers ignores it",
    "switch_transformers is_decoder: transformers ignores it",
    "switch_transformers add_cross_attention: transformers ignores it",
    "switch_transformers pad_token_id: its embedding has no padding",
    "gpt2_moe pad_token_id: its embedding has no padding",
    "gpt2 pad_token_id: its embedding has no padding",
    "gpt2_moe reorder_and_upcast_attn: of another type",
    "gpt2_moe summary_activation: of a head that is not imported",
    "gpt2_moe summary_first_dropout: of a head that is not imported",
    "gpt2_moe summary_proj_to_labels: of a head that is not imported",
    "gpt2_moe summary_type: of a head that is not imported",
    "gpt2_moe summary_use_proj: of a head that is not imported",
    "gpt2 summary_activation: of a head that is not imported",
    "qwen3_vl_moe text_config.rope_scaling.mrope_interleaved: transformers ignores it, and always interleaves",
    "deepseek_v2 output_router_logits: no loss of routers in transformers",
    "deepseek_v3 output_router_logits: no loss of routers in transformers",
    "dots1 output_router_logits: no loss of routers in transformers",
    "hunyuan_v1_moe output_router_logits: no loss of routers in transformers",
    "llama4_text output_router_logits: no loss of routers in transformers",
    "solar_open output_router_logits: no loss of routers in transformers",
    "glm4_moe_lite output_router_logits: no loss of routers in transformers",
    "glm4_moe_lite qk_head_dim: transformers ignores it",
    "sarvam_moe output_router_logits: no loss of routers in transformers",
    "sarvam_moe num_nextn_predict_layers: of blocks that are no part of the model",
    "hy_v3 output_router_logits: no loss of routers in transformers",
    "hy_v3 enable_moe_fp32_combine: precision of a sum",
    "sarvam_mla output_router_logits: no loss of routers in transformers",
    "sarvam_mla qk_head_dim: transformers ignores it",
    "sarvam_mla head_dim: the sum of two other keys in transformers",
    "mimo_v2_flash output_router_logits: no loss of routers in transformers",
    "afmoe output_router_logits: no loss of routers in transformers",
    "exaone_moe output_router_logits: no loss of routers in transformers",
    "exaone_moe sliding_window_pattern: layer_types",
    "exaone_moe first_k_dense_replace: mlp_layer_types",
    "afmoe global_attn_every_n_layers: layer_types",
    "laguna num_attention_heads: num_attention_heads_per_layer",
    "step3p5 output_router_logits: no loss of routers in transformers",
    "step3p5 num_nextn_predict_layers: of blocks that are no part of the model",
    "step3p5 mtp_layer_types: of blocks that are no part of the model",
    "step3p5 mtp_mlp_layer_types: of blocks that are no part of the model",
    "sarvam_mla num_nextn_predict_layers: of blocks that are no part of the model",
};

struct Outcome {
  std::string error = {};   ///< empty if the model was imported
  std::string warning = {}; ///< warning of unknown keys
  std::string graphs = {};  ///< graphs for training and for inference
};

/// A length above the pieces of sequences that attention stays in, up to the model's positions.
int64_t getSequence(const ModelConfig &config) {
  constexpr int64_t few = 8, many = 16384;
  return config.model->learnedPositions > 0 ? few : many;
}

Outcome import(MLIRContext &context, const json::Object &config) {
  std::string text = llvm::formatv("{0:2}", json::Value(json::Object(config)));
  llvm::Expected<ModelConfig> parsed = parseModelConfig(text, "config.json", /*whole=*/true);
  if (!parsed)
    return {.error = llvm::toString(parsed.takeError())};
  Outcome outcome;
  outcome.warning = parsed->otherKeys.value_or(ConfigRemark()).text;
  for (bool loss : {true, false}) {
    ImportOptions options;
    options.seq = getSequence(*parsed);
    options.whole = true;
    options.loss = loss;
    llvm::Expected<OwningOpRef<ModuleOp>> graph = importModel(context, *parsed, options);
    if (!graph)
      return {.error = llvm::toString(graph.takeError())};
    llvm::raw_string_ostream stream(outcome.graphs);
    (*graph)->print(stream);
  }
  return outcome;
}

json::Object load(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  EXPECT_TRUE(file) << path;
  return file ? std::move(*llvm::cantFail(json::parse((*file)->getBuffer())).getAsObject()) : json::Object();
}

std::string getModelType(const json::Object &config) { return config.getString("model_type").value_or("").str(); }

/// Keys of the number of blocks.
constexpr StringRef kBlocks[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"};

/// Largest number of blocks, so that a graph is made in milliseconds.
constexpr int64_t kMostBlocks = 4;

/// Sets keys to values that give other keys an effect.
void makeOthersMatter(json::Object &config) {
  std::string type = getModelType(config);
  // If all blocks are MoE, Switch has no loss of routers.
  for (StringRef key : {"encoder_sparse_step", "decoder_sparse_step"})
    if (type == "switch_transformers" && config.getInteger(key))
      config[key] = kMostBlocks / 2;
  // Gives some blocks windows, and removes the experts of others.
  if (type == "dots1") {
    config["first_k_dense_replace"] = 1;
    config["layer_types"] = nullptr;
    config["max_window_layers"] = kMostBlocks / 2;
    config["sliding_window"] = 4;
  }
  if (type == "laguna" || type == "step3p5") {
    (*config.getArray("layer_types"))[1] = "sliding_attention";
    config["sliding_window"] = 4;
  }
  if (type == "ernie4_5_moe")
    config["moe_layer_end_index"] = kMostBlocks / 2;
}

void cutBlocks(json::Object &config) {
  for (StringRef key : {"num_sparse_encoder_layers", "num_sparse_decoder_layers"})
    if (config.getInteger(key))
      config[key] = kMostBlocks / 2;
  for (StringRef key : kBlocks)
    if (std::optional<int64_t> count = config.getInteger(key); count && *count > kMostBlocks)
      config[key] = kMostBlocks;
  for (StringRef key : {"layer_types", "no_rope_layers", "hybrid_layer_pattern", "moe_layer_freq"})
    if (json::Array *list = config.getArray(key); list && list->size() > kMostBlocks)
      while (list->size() > kMostBlocks)
        list->pop_back();
}

/// Unusual values in place of `value`.
std::vector<json::Value> getUnusual(const json::Value &value) {
  std::vector<json::Value> values;
  if (std::optional<int64_t> integer = value.getAsInteger())
    values = {2 * *integer, 3 * *integer + 1, 2 * *integer + 0.5, 0, 1, 3};
  else if (std::optional<double> number = value.getAsNumber())
    values = {*number / 2, 3 * *number + 0.25, 0, 1};
  else if (std::optional<bool> flag = value.getAsBoolean())
    values = {!*flag};
  else if (value.getAsString())
    values = {"unusual"};
  else if (value.kind() == json::Value::Null)
    values = {3, 0.25, true, "unusual"};
  llvm::erase(values, value);
  return values;
}

bool isUnused(StringRef modelType, StringRef path) {
  return llvm::any_of(kUnused, [&](StringRef entry) {
    auto [type, rest] = entry.split(' ');
    return (type == "*" || type == modelType) && rest.split(':').first == path;
  });
}

class Prober {
public:
  Prober(json::Object config) : config(std::move(config)), modelType(getModelType(this->config)) {
    // Otherwise the coefficients of the routers' losses have no effect.
    if (this->config.get("router_aux_loss_coef") || this->config.get("ffn_config"))
      this->config["output_router_logits"] = true;
    base = import(context, this->config);
    EXPECT_EQ(base.error, "");
    EXPECT_EQ(base.warning, "");
  }

  /// Probes each scalar inside `object`, a part of the configuration whose keys' paths begin with `prefix`.
  void probe(json::Object &object, const std::string &prefix = "") {
    std::vector<std::string> keys;
    for (const auto &[key, value] : object)
      keys.push_back(key.str());
    for (const std::string &key : keys) {
      if (isHarmlessKey(key) || isUnused(modelType, prefix + key))
        continue;
      if (json::Object *inner = object.getObject(key))
        probe(*inner, prefix + key + ".");
      else if (!object.getArray(key))
        probeKey(object, key, prefix + key);
    }
  }

  /// Removes each key in turn, from the whole configuration or the object at `outer`.
  void leaveOut(StringRef outer = "") {
    const json::Object &object = outer.empty() ? config : *config.getObject(outer);
    for (const auto &[key, value] : object) {
      if (llvm::is_contained(kBlocks, StringRef(key)) || key == "layer_types" || key == "output_router_logits")
        continue; // the class has more keys, and another value
      json::Object rest = getWithout(object, key);
      if (!outer.empty()) {
        json::Object all = config;
        all[outer] = std::move(rest);
        rest = std::move(all);
      }
      Outcome outcome = import(context, rest);
      bool isNeeded = StringRef(outcome.error).ends_with("but the key is missing");
      EXPECT_TRUE(isNeeded || (outcome.error.empty() && outcome.graphs == base.graphs))
          << modelType << " without " << outer.str() << " '" << key.str() << "': " << outcome.error;
    }
  }

  json::Object config;

private:
  static json::Object getWithout(const json::Object &object, StringRef left) {
    json::Object rest;
    for (const auto &[key, value] : object)
      if (StringRef(key) != left)
        rest.try_emplace(key, value);
    return rest;
  }

  void probeKey(json::Object &object, StringRef key, const std::string &path) {
    json::Value value = object[key];
    for (const json::Value &unusual : getUnusual(value)) {
      object[key] = unusual;
      Outcome outcome = import(context, config);
      bool isSilent = outcome.error.empty() && outcome.graphs == base.graphs &&
                      !StringRef(outcome.warning).contains("'" + path + "'");
      EXPECT_FALSE(isSilent) << modelType << ": '" << path << "' = " << llvm::formatv("{0}", unusual).str()
                             << " changes nothing, in silence";
      object[key] = value;
    }
  }

  MLIRContext context;
  std::string modelType;
  Outcome base;
};

std::vector<std::string> listFiles(const std::string &folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end; it != end && !error; it.increment(error))
    files.push_back(it->path());
  llvm::sort(files);
  return files;
}

std::string getDefaultsFile(StringRef modelType) { return (MOE_CONFIG_DIR "/" + modelType + ".json").str(); }

class Defaults : public testing::TestWithParam<std::string> {};

TEST_P(Defaults, NoKeyIsMisreadInSilence) {
  json::Object config = load(getDefaultsFile(GetParam()));
  makeOthersMatter(config);
  Prober prober(std::move(config));
  prober.probe(prober.config);
}

TEST_P(Defaults, AMissingKeyIsTheClassDefault) {
  Prober prober(load(getDefaultsFile(GetParam())));
  prober.leaveOut();
  for (StringRef inner : {"attn_config", "ffn_config", "text_config"})
    if (prober.config.getObject(inner))
      prober.leaveOut(inner);
}

std::vector<std::string> getTypes() {
  std::vector<std::string> types;
  // Models without a class in transformers, with a class whose defaults are no model, or not imported as whole models.
  const StringRef left[] = {"kimi_k2",          "llama4",    "qwen3_vl_moe",  "glm4_moe", "qwen3_next",
                            "qwen3_5_moe_text", "phimoe",    "deepseek",      "kimi_k25", "bailing_moe_v2",
                            "step3p7",          "glm4v_moe", "glm4v_moe_text"};
  for (StringRef type : getKnownModelTypes())
    if (!llvm::is_contained(left, type) && !llvm::is_contained(types, type))
      types.push_back(type.str());
  return types;
}

INSTANTIATE_TEST_SUITE_P(Families, Defaults, testing::ValuesIn(getTypes()),
                         [](const testing::TestParamInfo<std::string> &info) { return info.param; });

class Published : public testing::TestWithParam<std::string> {};

TEST_P(Published, NoKeyIsMisreadInSilence) {
  json::Object config = load(GetParam());
  if (getModelType(config) == "qwen3_next")
    GTEST_SKIP() << "not imported as a whole model";
  cutBlocks(config);
  makeOthersMatter(config);
  Prober prober(std::move(config));
  prober.probe(prober.config);
}

INSTANTIATE_TEST_SUITE_P(Shared, Published, testing::ValuesIn(listFiles(MOE_SHARE_DIR "/models")),
                         [](const testing::TestParamInfo<std::string> &info) {
                           std::string name = llvm::sys::path::stem(info.param).str();
                           std::replace_if(name.begin(), name.end(), [](char c) { return !llvm::isAlnum(c); }, '_');
                           return name;
                         });

} // namespace
