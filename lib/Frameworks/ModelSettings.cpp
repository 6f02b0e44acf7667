//===- ModelSettings.cpp - a model as Megatron's arguments ----------------===//
//
// The reverse of lib/Import/MegatronModel.cpp, which reads these arguments.
//
//===----------------------------------------------------------------------===//
#include "Adapt.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

/// Formats whole numbers as integers, which some arguments need, such as --rotary-base.
static std::string formatNumber(double value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (value == std::floor(value) && std::abs(value) < 1e15)
    os << static_cast<int64_t>(value);
  else
    os << llvm::format("%.10g", value);
  return text;
}

namespace {
/// Flags of one model.
class ModelWriter {
public:
  ModelWriter(const ModelConfig &config, int64_t sequence)
      : layer(config.layer), model(*config.model), sequence(sequence) {}

  std::vector<SettingGroup> run();

private:
  void add(StringRef flag, const Twine &value) { group->add(flag, value); }
  void add(StringRef flag, int64_t value) { group->add(flag, value); }
  void addIf(bool present, StringRef flag) { group->addIf(present, flag); }
  void begin(const char *title) { group = &groups.emplace_back(SettingGroup{title}); }
  void addSizes();
  void addAttention();
  void addLatent(const LatentSpec &latent);
  void addPositions();
  void addWindows();
  void addExperts();
  void addRouter();
  /// Pattern such as `([0]*3+[1]*58)`; empty if all blocks are alike.
  std::string getPattern(llvm::function_ref<bool(const BlockSpec &)> has) const;

  const LayerSpec &layer;
  const ModelSpec &model;
  int64_t sequence;
  std::vector<SettingGroup> groups;
  SettingGroup *group = nullptr;
};
} // namespace

std::string ModelWriter::getPattern(llvm::function_ref<bool(const BlockSpec &)> has) const {
  std::string text;
  ArrayRef<BlockSpec> rest = model.blocks;
  while (!rest.empty()) {
    bool value = has(rest.front());
    size_t count = rest.take_while([&](const BlockSpec &block) { return has(block) == value; }).size();
    if (count == model.blocks.size())
      return "";
    text += (text.empty() ? "([" : "+[") + std::to_string(value) + "]*" + std::to_string(count);
    rest = rest.drop_front(count);
  }
  return text + ")";
}

void ModelWriter::addSizes() {
  begin("The model");
  add("num-layers", static_cast<int64_t>(model.blocks.size()));
  add("hidden-size", layer.hidden);
  add("ffn-hidden-size", model.denseHidden > 0 ? model.denseHidden : layer.expertHidden);
  add("vocab-size", model.vocabulary);
  add("max-position-embeddings", model.learnedPositions > 0 ? model.learnedPositions : sequence);
  add("normalization", model.norm == Norm::rms ? "RMSNorm" : "LayerNorm");
  add("norm-epsilon", formatNumber(model.eps));
  Activation activation = layer.experts > 0 ? layer.activation : model.denseActivation;
  addIf(activation == Activation::swiglu, "swiglu");
  if (activation == Activation::swiglu_clamped) {
    group->add("quick-geglu");
    add("glu-linear-offset", "1.0");
    add("activation-func-clamp-value", formatNumber(layer.activationLimit));
  }
  addIf(!model.denseBiases && !model.attention.outputBias, "disable-bias-linear");
  addIf(!model.tiedHead, "untie-embeddings-and-output-weights");
  add("attention-dropout", formatNumber(model.dropout.attention));
  add("hidden-dropout", formatNumber(model.dropout.residual));
}

void ModelWriter::addLatent(const LatentSpec &latent) {
  group->add("multi-latent-attention");
  if (latent.queryRank > 0)
    add("q-lora-rank", latent.queryRank);
  add("kv-lora-rank", latent.rank);
  add("qk-head-dim", latent.plainDim);
  add("qk-pos-emb-head-dim", latent.rotaryDim);
  add("v-head-dim", latent.valueDim);
  // The short vectors have norms.
  group->add("qk-layernorm");
}

void ModelWriter::addAttention() {
  const AttentionSpec &attention = model.attention;
  begin("Attention");
  add("num-attention-heads", attention.heads);
  if (attention.latent)
    addLatent(*attention.latent);
  else
    add("kv-channels", attention.headDim);
  if (!attention.latent && attention.keyHeads != attention.heads) {
    group->add("group-query-attention");
    add("num-query-groups", attention.keyHeads);
  }
  addIf(attention.inputBiases && !attention.outputBias, "add-qkv-bias");
  addIf(attention.headNorm == HeadNorm::head, "qk-layernorm");
  if (attention.sinks)
    add("softmax-type", "learnable");
  addWindows();
  addPositions();
}

void ModelWriter::addWindows() {
  auto slides = [](const BlockSpec &block) { return block.window > 0; };
  const BlockSpec *first = llvm::find_if(model.blocks, slides);
  if (first == model.blocks.end())
    return;
  // A query sees itself and this number of tokens before it.
  add("window-size", Twine(first->window - 1) + ",0");
  if (std::string pattern = getPattern(slides); !pattern.empty())
    add("window-attn-skip-freq", pattern);
}

void ModelWriter::addPositions() {
  const std::optional<RotarySpec> &rotary = model.attention.rotary;
  if (!rotary) {
    add("position-embedding-type", model.learnedPositions > 0 ? "learned_absolute" : "none");
    return;
  }
  add("position-embedding-type", "rope");
  add("rotary-base", formatNumber(rotary->base));
  if (rotary->dim > 0 && !model.attention.latent)
    add("rotary-percent",
        formatNumber(static_cast<double>(rotary->dim) / static_cast<double>(model.attention.headDim)));
  addIf(rotary->interleaved, "rotary-interleaved");
  if (std::string pattern = getPattern([](const BlockSpec &block) { return !block.rotary; }); !pattern.empty())
    add("no-rope-freq", pattern);
  if (rotary->factor == 1)
    return;
  addIf(rotary->reach > 0, "use-rope-scaling");
  add(rotary->reach > 0 ? "rope-scaling-factor" : "rotary-scaling-factor", formatNumber(rotary->factor));
  if (model.attention.latent)
    add("rope-type", "yarn");
  group->remark = "the positions are stretched: compare betas and mscale with the model's configuration";
}

void ModelWriter::addRouter() {
  add("moe-router-score-function", layer.score == Score::sigmoid ? "sigmoid" : "softmax");
  addIf(layer.score == Score::softmax && !layer.renormalize, "moe-router-pre-softmax");
  if (layer.routingScale != 1)
    add("moe-router-topk-scaling-factor", formatNumber(layer.routingScale));
  if (layer.expertGroups > 1) {
    add("moe-router-num-groups", layer.expertGroups);
    add("moe-router-group-topk", layer.topGroups);
  }
  addIf(layer.selectionBias, "moe-router-enable-expert-bias");
  addIf(layer.weighInputs, "moe-apply-probs-on-input");
  bool isBalanced = model.routerLoss.isAdded && model.routerLoss.balance > 0;
  add("moe-router-load-balancing-type", isBalanced ? "aux_loss" : "none");
  if (isBalanced)
    add("moe-aux-loss-coeff", formatNumber(model.routerLoss.balance));
  else if (!layer.selectionBias)
    group->remark = "the configuration adds no loss that balances experts; training needs one, such as aux_loss";
  if (model.dropout.jitter > 0)
    add("moe-input-jitter-eps", formatNumber(model.dropout.jitter));
  if (layer.capacityFactor)
    add("moe-expert-capacity-factor", formatNumber(*layer.capacityFactor));
}

void ModelWriter::addExperts() {
  if (layer.experts == 0)
    return;
  begin("The model's experts");
  add("num-experts", layer.experts);
  add("moe-ffn-hidden-size", layer.expertHidden);
  add("moe-router-topk", layer.topK);
  if (layer.sharedHidden > 0)
    add("moe-shared-expert-intermediate-size", layer.sharedHidden);
  addIf(layer.sharedGate, "moe-shared-expert-gate");
  if (std::string pattern = getPattern([](const BlockSpec &block) { return block.isMoe; }); !pattern.empty())
    add("moe-layer-freq", pattern);
  addRouter();
}

std::vector<SettingGroup> ModelWriter::run() {
  addSizes();
  addAttention();
  addExperts();
  return std::move(groups);
}

std::vector<SettingGroup> mlir::moe::getModelSettings(const ModelConfig &model, int64_t sequence) {
  return ModelWriter(model, sequence).run();
}

//===----------------------------------------------------------------------===//
// Gaps of the arguments
//===----------------------------------------------------------------------===//

std::vector<std::string> mlir::moe::findMegatronGaps(const ModelConfig &config) {
  const ModelSpec &model = *config.model;
  const AttentionSpec &attention = model.attention;
  const LayerSpec &layer = config.layer;
  const bool hasExperts = layer.experts > 0;
  const bool hasChunks = llvm::any_of(model.blocks, [](const BlockSpec &block) { return block.chunk > 0; });
  const bool hasActivation =
      llvm::is_contained({Activation::swiglu, Activation::swiglu_clamped, Activation::gelu_tanh}, layer.activation);
  const std::pair<bool, const char *> known[] = {
      {!model.decoder.empty(), "a decoder beside the encoder"},
      {model.postNorm || model.headTransform || model.embeddingNorm, "norms after the sums, and the head of BERT"},
      {model.embeddingScale != 1 || model.residualScale != 1 || model.headScale != 1,
       "factors of embeddings, branches and logits"},
      {hasChunks, "attention inside chunks"},
      {model.norm == Norm::layer && !model.normBias, "layer norms without biases"},
      {attention.relativeBuckets > 0, "biases of relative positions"},
      {!attention.causal, "attention to later tokens (pretrain_bert.py trains such models)"},
      {attention.clip > 0, "bounds of queries, keys and values"},
      {attention.headNorm == HeadNorm::projection, "one norm of all queries and one of all keys"},
      {attention.headNorm == HeadNorm::plain, "norms of queries and keys without weights"},
      {attention.normAfterRotary, "norms of queries and keys behind rotary positions"},
      {attention.temperature > 0, "a temperature of attention that depends on the position"},
      {attention.outputBias && !attention.inputBiases, "a bias of attention's output alone"},
      {hasExperts && layer.score == Score::sigmoid && !layer.renormalize && layer.topK > 1,
       "sigmoid weights that are not renormalised"},
      {hasExperts && layer.expertCapacity, "a capacity of experts that does not grow with the tokens"},
      {hasExperts && !hasActivation, "this activation function (Megatron-LM takes GELU)"}};
  std::vector<std::string> gaps;
  for (auto [isGap, text] : known)
    if (isGap)
      gaps.emplace_back(text);
  return gaps;
}
