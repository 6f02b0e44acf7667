//===- TorchtitanArguments.cpp - sizes of a model for torchtitan ----------===//
//
// Names are those of torchtitan 0.2.1 (torchtitan/models/*/model/args.py) and 0.3.0 (torchtitan/models/*/__init__.py).
//
//===----------------------------------------------------------------------===//
#include "Torchtitan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Named arguments of a call in Python.
class Arguments {
public:
  void add(StringRef name, const Twine &value) { all.emplace_back(name.str(), value.str()); }
  void add(StringRef name, int64_t value) { add(name, Twine(value)); }
  void addNumber(StringRef name, double value) {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%.10g", value);
    add(name, text);
  }
  void addSwitch(StringRef name, bool value) { add(name, value ? "True" : "False"); }

  /// Prints each argument on a line of its own.
  void print(StringRef prefix, llvm::raw_ostream &os) const {
    for (const auto &[name, value] : all)
      os << prefix << name << "=" << value << ",\n";
  }
  std::string getText() const {
    return llvm::join(llvm::map_range(all, [](const auto &one) { return one.first + "=" + one.second; }), ", ");
  }

private:
  std::vector<std::pair<std::string, std::string>> all;
};
} // namespace

static int64_t countShared(const LayerSpec &layer) {
  return layer.sharedHidden > 0 ? layer.sharedHidden / layer.expertHidden : 0;
}

static int64_t findWindow(const ModelSpec &model) {
  int64_t window = 0;
  for (const BlockSpec &block : model.blocks)
    window = std::max(window, block.window);
  return window;
}

static const RotarySpec &getRotary(const ModelSpec &model) {
  static const RotarySpec none;
  return model.attention.rotary ? *model.attention.rotary : none;
}

//===----------------------------------------------------------------------===//
// torchtitan 0.2
//===----------------------------------------------------------------------===//

static std::string getMoeArguments(const LayerSpec &layer) {
  Arguments moe;
  moe.add("num_experts", layer.experts);
  moe.add("num_shared_experts", countShared(layer));
  moe.add("top_k", layer.topK);
  moe.add("score_func", layer.score == Score::sigmoid ? "\"sigmoid\"" : "\"softmax\"");
  moe.addSwitch("route_norm", layer.renormalize);
  moe.addNumber("route_scale", layer.routingScale);
  moe.addSwitch("score_before_experts", layer.weighInputs);
  if (layer.expertGroups > 1) {
    moe.add("num_expert_groups", layer.expertGroups);
    moe.add("num_limited_groups", layer.topGroups);
  }
  return "MoEArgs(" + moe.getText() + ")";
}

/// Adds the factor that gives Llama's feed-forward blocks `columns` inner columns. Half a column more is the room for
/// rounding.
static void addFeedForward(Arguments &arguments, int64_t hidden, int64_t columns) {
  arguments.add("multiple_of", 1);
  arguments.add("ffn_dim_multiplier", Twine(columns) + ".5 / int(2 * 4 * " + Twine(hidden) + " / 3)");
}

static void addDeepSeek(Arguments &arguments, const LayerSpec &layer, const ModelSpec &model) {
  const LatentSpec latent = model.attention.latent.value_or(LatentSpec());
  arguments.add("inter_dim", model.denseHidden);
  arguments.add("moe_inter_dim", layer.expertHidden);
  arguments.add("n_dense_layers", countDenseBlocks(model));
  arguments.add("q_lora_rank", latent.queryRank);
  arguments.add("kv_lora_rank", latent.rank);
  arguments.add("qk_nope_head_dim", latent.plainDim);
  arguments.add("qk_rope_head_dim", latent.rotaryDim);
  arguments.add("v_head_dim", latent.valueDim);
  arguments.addNumber("rope_factor", getRotary(model).factor);
}

static void addLlama4(Arguments &arguments, const LayerSpec &layer, const ModelSpec &model) {
  arguments.add("n_kv_heads", model.attention.keyHeads);
  addFeedForward(arguments, layer.hidden, layer.expertHidden * (layer.topK + countShared(layer)));
  const bool hasDense = countDenseBlocks(model) > 0;
  arguments.add("interleave_moe_layer_step", hasDense ? 2 : 1);
  if (model.blocks.front().chunk == 0)
    return;
  arguments.add("rope_scaling_args", "RoPEScalingArgs()");
  arguments.add("every_n_layers_nope", 4);
  arguments.add("fixed_attn_block_size", model.blocks.front().chunk);
  arguments.add("attn_type", "\"flex\"");
  arguments.add("attn_mask_type", "\"block_causal\"");
}

static void addQwen3(Arguments &arguments, const LayerSpec &layer, const ModelSpec &model) {
  arguments.add("n_kv_heads", model.attention.keyHeads);
  arguments.add("head_dim", model.attention.headDim);
  arguments.add("hidden_dim", model.denseHidden > 0 ? model.denseHidden : layer.expertHidden);
  arguments.addSwitch("qk_norm", model.attention.headNorm == HeadNorm::head);
  arguments.addSwitch("enable_weight_tying", model.tiedHead);
  if (layer.experts == 0)
    return;
  arguments.addSwitch("moe_enabled", true);
  arguments.add("moe_inter_dim", layer.expertHidden);
}

static void addGptOss(Arguments &arguments, const LayerSpec &layer, const ModelSpec &model) {
  arguments.add("n_kv_heads", model.attention.keyHeads);
  arguments.add("head_dim", model.attention.headDim);
  arguments.add("moe_inter_dim", layer.expertHidden);
  arguments.add("sliding_window_size", findWindow(model));
  arguments.addNumber("swiglu_limit", layer.activationLimit);
  arguments.addNumber("rope_factor", getRotary(model).factor);
}

/// Adds Llama 3's scaling of positions, which divides by 1 where there is none.
static void addScaling(Arguments &scaling, const RotarySpec &rotary) {
  scaling.addNumber("scaling_factor", rotary.factor);
  if (rotary.reach == 0)
    return;
  scaling.addNumber("low_freq_factor", rotary.high);
  scaling.addNumber("high_freq_factor", rotary.low);
  scaling.add("original_max_position_embeddings", static_cast<int64_t>(rotary.reach));
}

static void addLlama3(Arguments &arguments, const LayerSpec &layer, const ModelSpec &model) {
  arguments.add("n_kv_heads", model.attention.keyHeads);
  addFeedForward(arguments, layer.hidden, model.denseHidden);
  Arguments scaling;
  addScaling(scaling, getRotary(model));
  arguments.add("rope_scaling_args", "RoPEScalingArgs(" + scaling.getText() + ")");
}

namespace {
/// Names of a model in torchtitan 0.2.
struct Module2 {
  StringRef folder, type, flavors; ///< flavors: the dictionary
  void (*add)(Arguments &, const LayerSpec &, const ModelSpec &);
};
} // namespace

static Module2 getModule2(StringRef name) {
  return llvm::StringSwitch<Module2>(name)
      .Case("llama3", {"models.llama3", "TransformerModelArgs", "llama3_args", addLlama3})
      .Case("llama4", {"models.llama4", "TransformerModelArgs", "llama4_args", addLlama4})
      .Case("deepseek_v3", {"models.deepseek_v3", "DeepSeekV3ModelArgs", "deepseekv3_args", addDeepSeek})
      .Case("gpt_oss", {"experiments.gpt_oss", "GptOssModelArgs", "gptoss_configs", addGptOss})
      .Default({"models.qwen3", "Qwen3ModelArgs", "qwen3_args", addQwen3});
}

void mlir::moe::writeTorchtitanFlavor(const TorchtitanModel &model, const ModelConfig &config, StringRef prefix,
                                      llvm::raw_ostream &os) {
  const Module2 module = getModule2(model.name);
  const std::string folder = "torchtitan." + module.folder.str();
  if (!model.flavor.empty()) {
    os << prefix << "from dataclasses import replace\n"
       << prefix << "from " << folder << " import " << module.flavors << "\n"
       << prefix << module.flavors << "[\"moeplan\"] = replace(" << module.flavors << "[\"" << model.flavor
       << "\"], attn_type=\"sdpa\", attn_mask_type=\"causal\")\n";
    return;
  }
  const LayerSpec &layer = config.layer;
  const ModelSpec &spec = *config.model;
  os << prefix << "from " << folder << " import " << module.flavors << "\n"
     << prefix << "from " << folder << ".model.args import " << module.type
     << (model.name.starts_with("llama") ? ", RoPEScalingArgs\n" : "\n");
  if (layer.experts > 0)
    os << prefix << "from torchtitan.models.moe import MoEArgs\n";
  Arguments arguments;
  arguments.add("dim", layer.hidden);
  arguments.add("n_layers", static_cast<int64_t>(spec.blocks.size()));
  arguments.add("n_heads", spec.attention.heads);
  arguments.add("vocab_size", spec.vocabulary);
  arguments.addNumber("norm_eps", spec.eps);
  arguments.addNumber("rope_theta", getRotary(spec).base);
  module.add(arguments, layer, spec);
  if (layer.experts > 0)
    arguments.add("moe_args", getMoeArguments(layer));
  os << prefix << module.flavors << "[\"moeplan\"] = " << module.type << "(\n";
  arguments.print((prefix + "    ").str(), os);
  os << prefix << ")\n";
}

//===----------------------------------------------------------------------===//
// torchtitan 0.3
//===----------------------------------------------------------------------===//

static void addDeepSeekLayers(Arguments &layers, const LayerSpec &layer, const ModelSpec &model) {
  const LatentSpec latent = model.attention.latent.value_or(LatentSpec());
  layers.add("n_dense_layers", countDenseBlocks(model));
  layers.add("q_lora_rank", latent.queryRank);
  layers.add("kv_lora_rank", latent.rank);
  layers.add("qk_nope_head_dim", latent.plainDim);
  layers.add("qk_rope_head_dim", latent.rotaryDim);
  layers.add("v_head_dim", latent.valueDim);
  layers.add("mscale", "1.0");
  layers.add("dense_hidden_dim", model.denseHidden);
  layers.add("num_shared_experts", countShared(layer));
  layers.add("router_top_k", layer.topK);
  layers.add("router_score_func", layer.score == Score::sigmoid ? "\"sigmoid\"" : "\"softmax\"");
  if (layer.expertGroups > 1) {
    layers.add("router_num_expert_groups", layer.expertGroups);
    layers.add("router_num_limited_groups", layer.topGroups);
  }
  layers.addNumber("router_route_scale", layer.routingScale);
  layers.addSwitch("router_route_norm", layer.renormalize);
  layers.add("non_blocking_capacity_factor", "None");
}

/// Adds the arguments of the layers' function that depend on the model.
static void addLayers(Arguments &layers, StringRef name, const LayerSpec &layer, const ModelSpec &model) {
  const bool isOss = name == "gpt_oss", isDeepSeek = name == "deepseek_v3";
  if (!isOss)
    layers.add("n_heads", model.attention.heads);
  if (!isOss && !isDeepSeek)
    layers.add("n_kv_heads", model.attention.keyHeads);
  if (name == "qwen3")
    layers.add("head_dim", model.attention.headDim);
  if (isDeepSeek)
    addDeepSeekLayers(layers, layer, model);
  if (layer.experts == 0)
    return layers.add("hidden_dim", model.denseHidden);
  layers.add(isOss ? "hidden_dim" : "moe_hidden_dim", layer.expertHidden);
  layers.add("num_experts", layer.experts);
  if (!isDeepSeek)
    layers.add("top_k", layer.topK);
  if (isOss)
    layers.add("load_balance_coeff", "1e-3");
}

TorchtitanModule mlir::moe::getTorchtitanModule(StringRef name, const ModelConfig &config) {
  const bool isTied = config.model->tiedHead;
  if (name == "llama3")
    return {isTied ? "1B" : "8B", "_build_llama3_layers"};
  if (name == "deepseek_v3")
    return {"16B", "_build_dsv3_layers"};
  if (name == "gpt_oss")
    return {"20b", "_build_gptoss_layers"};
  if (config.layer.experts > 0)
    return {"30B-A3B", "_build_qwen3_moe_layers"};
  return {isTied ? "0.6B" : "8B", "_build_qwen3_layers"};
}

void mlir::moe::writeTorchtitanSizes(const TorchtitanModel &model, const ModelConfig &config, int64_t sequence,
                                     StringRef attention, StringRef dispatcher, llvm::raw_ostream &os) {
  const LayerSpec &layer = config.layer;
  const ModelSpec &spec = *config.model;
  const RotarySpec &rotary = getRotary(spec);
  const LatentSpec *latent = spec.attention.latent ? &*spec.attention.latent : nullptr;
  Arguments rope, layers;
  rope.add("dim", latent ? latent->rotaryDim : spec.attention.headDim);
  rope.add("max_seq_len", sequence);
  rope.addNumber("theta", rotary.base);
  if (latent || model.name == "gpt_oss")
    rope.addNumber("rope_factor", rotary.factor);
  else if (model.name == "llama3")
    addScaling(rope, rotary);
  layers.add("n_layers", static_cast<int64_t>(spec.blocks.size()));
  layers.add("dim", layer.hidden);
  addLayers(layers, model.name, layer, spec);
  layers.add("attn_backend", "\"" + attention + "\"");
  if (layer.experts > 0)
    layers.add("moe_comm_backend", "\"" + dispatcher + "\"");
  layers.add("rope", "replace(model.layers[0].attention.rope, " + rope.getText() + ")");
  os << "    model = spec.model\n"
     << "    model.dim, model.vocab_size = " << layer.hidden << ", " << spec.vocabulary << "\n"
     << "    model.tok_embeddings.num_embeddings, model.tok_embeddings.embedding_dim = " << spec.vocabulary << ", "
     << layer.hidden << "\n"
     << "    model.norm.normalized_shape = " << layer.hidden << "\n"
     << "    model.lm_head.in_features, model.lm_head.out_features = " << layer.hidden << ", " << spec.vocabulary
     << "\n"
     << "    model.layers = " << getTorchtitanModule(model.name, config).layers << "(\n";
  layers.print("        ", os);
  os << "    )\n";
  if (model.name == "qwen3" && spec.attention.headNorm != HeadNorm::head)
    os << "    for layer in model.layers:\n        layer.attention.qk_norm = None\n";
}
