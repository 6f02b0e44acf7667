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

/// Formats whole numbers as integers.
static std::string formatNumber(double value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (value == std::floor(value) && std::abs(value) < 1e15)
    os << static_cast<int64_t>(value);
  else
    os << llvm::format("%.10g", value);
  return text;
}

/// Pattern such as `([0]*3+[1]*58)`; empty if all blocks are alike.
static std::string getPattern(ArrayRef<BlockSpec> blocks, llvm::function_ref<bool(const BlockSpec &)> has) {
  std::string text;
  for (ArrayRef<BlockSpec> rest = blocks; !rest.empty();) {
    bool value = has(rest.front());
    size_t count = rest.take_while([&](const BlockSpec &block) { return has(block) == value; }).size();
    if (count == blocks.size())
      return "";
    text += (text.empty() ? "([" : "+[") + std::to_string(value) + "]*" + std::to_string(count);
    rest = rest.drop_front(count);
  }
  return text + ")";
}

static SettingGroup getSizes(const LayerSpec &layer, const ModelSpec &model, int64_t sequence) {
  SettingGroup group{"The model"};
  group.add("num-layers", static_cast<int64_t>(model.blocks.size()));
  group.add("hidden-size", layer.hidden);
  group.add("ffn-hidden-size", model.denseHidden > 0 ? model.denseHidden : layer.expertHidden);
  group.add("vocab-size", model.vocabulary);
  group.add("max-position-embeddings", model.learnedPositions > 0 ? model.learnedPositions : sequence);
  group.add("normalization", model.norm == Norm::rms ? "RMSNorm" : "LayerNorm");
  group.add("norm-epsilon", formatNumber(model.eps));
  Activation activation = layer.experts > 0 ? layer.activation : model.denseActivation;
  group.addIf(activation == Activation::swiglu, "swiglu");
  if (activation == Activation::swiglu_clamped) {
    group.add("quick-geglu");
    group.add("glu-linear-offset", "1.0");
    group.add("activation-func-clamp-value", formatNumber(layer.activationLimit));
  }
  group.addIf(!model.denseBiases && !model.attention.outputBias, "disable-bias-linear");
  group.addIf(!model.tiedHead, "untie-embeddings-and-output-weights");
  group.add("attention-dropout", formatNumber(model.dropout.attention));
  group.add("hidden-dropout", formatNumber(model.dropout.residual));
  return group;
}

static void addLatent(SettingGroup &group, const LatentSpec &latent) {
  group.add("multi-latent-attention");
  if (latent.queryRank > 0)
    group.add("q-lora-rank", latent.queryRank);
  group.add("kv-lora-rank", latent.rank);
  group.add("qk-head-dim", latent.plainDim);
  group.add("qk-pos-emb-head-dim", latent.rotaryDim);
  group.add("v-head-dim", latent.valueDim);
  // The short vectors have norms.
  group.add("qk-layernorm");
}

static void addWindows(SettingGroup &group, const ModelSpec &model) {
  auto slides = [](const BlockSpec &block) { return block.window > 0; };
  const BlockSpec *first = llvm::find_if(model.blocks, slides);
  if (first == model.blocks.end())
    return;
  // A query sees itself and this number of tokens before it.
  group.add("window-size", Twine(first->window - 1) + ",0");
  if (std::string pattern = getPattern(model.blocks, slides); !pattern.empty())
    group.add("window-attn-skip-freq", pattern);
}

static void addPositions(SettingGroup &group, const ModelSpec &model) {
  const std::optional<RotarySpec> &rotary = model.attention.rotary;
  if (!rotary)
    return group.add("position-embedding-type", model.learnedPositions > 0 ? "learned_absolute" : "none");
  group.add("position-embedding-type", "rope");
  group.add("rotary-base", formatNumber(std::round(rotary->base)));
  if (rotary->base != std::round(rotary->base))
    group.remark =
        "the base of the positions is " + formatNumber(rotary->base) + ", but Megatron-LM takes whole numbers";
  if (rotary->dim > 0 && !model.attention.latent)
    group.add("rotary-percent",
              formatNumber(static_cast<double>(rotary->dim) / static_cast<double>(model.attention.headDim)));
  group.addIf(rotary->interleaved, "rotary-interleaved");
  auto lacksRotary = [](const BlockSpec &block) { return !block.rotary; };
  if (std::string pattern = getPattern(model.blocks, lacksRotary); !pattern.empty())
    group.add("no-rope-freq", pattern);
  if (rotary->factor == 1)
    return;
  group.addIf(rotary->reach > 0, "use-rope-scaling");
  group.add(rotary->reach > 0 ? "rope-scaling-factor" : "rotary-scaling-factor", formatNumber(rotary->factor));
  if (model.attention.latent)
    group.add("rope-type", "yarn");
  group.remark += group.remark.empty() ? "" : "; ";
  group.remark += "the positions are stretched: compare betas and mscale with the model's configuration";
}

static SettingGroup getAttention(const ModelSpec &model) {
  const AttentionSpec &attention = model.attention;
  SettingGroup group{"Attention"};
  group.add("num-attention-heads", attention.heads);
  if (attention.latent)
    addLatent(group, *attention.latent);
  else
    group.add("kv-channels", attention.headDim);
  if (!attention.latent && attention.keyHeads != attention.heads) {
    group.add("group-query-attention");
    group.add("num-query-groups", attention.keyHeads);
  }
  group.addIf(attention.inputBiases && !attention.outputBias, "add-qkv-bias");
  group.addIf(attention.headNorm == HeadNorm::head, "qk-layernorm");
  if (attention.sinks)
    group.add("softmax-type", "learnable");
  addWindows(group, model);
  addPositions(group, model);
  return group;
}

static void addRouter(SettingGroup &group, const LayerSpec &layer, const ModelSpec &model) {
  group.add("moe-router-score-function", layer.score == Score::sigmoid ? "sigmoid" : "softmax");
  group.addIf(layer.score == Score::softmax && !layer.renormalize, "moe-router-pre-softmax");
  if (layer.routingScale != 1)
    group.add("moe-router-topk-scaling-factor", formatNumber(layer.routingScale));
  if (layer.expertGroups > 1) {
    group.add("moe-router-num-groups", layer.expertGroups);
    group.add("moe-router-group-topk", layer.topGroups);
  }
  // Megatron-LM refuses it with softmax: findMegatronGaps().
  group.addIf(layer.selectionBias && layer.score == Score::sigmoid, "moe-router-enable-expert-bias");
  group.addIf(layer.weighInputs, "moe-apply-probs-on-input");
  bool isBalanced = model.routerLoss.isAdded && model.routerLoss.balance > 0;
  group.add("moe-router-load-balancing-type", isBalanced ? "aux_loss" : "none");
  if (isBalanced)
    group.add("moe-aux-loss-coeff", formatNumber(model.routerLoss.balance));
  else if (!layer.selectionBias)
    group.remark = "the configuration adds no loss that balances experts; training needs one, such as aux_loss";
  if (model.dropout.jitter > 0)
    group.add("moe-input-jitter-eps", formatNumber(model.dropout.jitter));
  if (layer.capacityFactor) {
    group.add("moe-expert-capacity-factor", formatNumber(*layer.capacityFactor));
    group.add("moe-token-drop-policy", "position");
  }
}

static SettingGroup getExperts(const LayerSpec &layer, const ModelSpec &model) {
  SettingGroup group{"The model's experts"};
  group.add("num-experts", layer.experts);
  group.add("moe-ffn-hidden-size", layer.expertHidden);
  group.add("moe-router-topk", layer.topK);
  if (layer.sharedHidden > 0)
    group.add("moe-shared-expert-intermediate-size", layer.sharedHidden);
  group.addIf(layer.sharedGate, "moe-shared-expert-gate");
  // Megatron-LM's grouped experts refuse the fused sum if any linear layer has a bias.
  group.addIf(model.denseBiases || model.attention.outputBias, "no-bias-dropout-fusion");
  auto isMoe = [](const BlockSpec &block) { return block.isMoe; };
  if (std::string pattern = getPattern(model.blocks, isMoe); !pattern.empty())
    group.add("moe-layer-freq", pattern);
  addRouter(group, layer, model);
  return group;
}

std::vector<SettingGroup> mlir::moe::getModelSettings(const ModelConfig &config, int64_t sequence) {
  std::vector<SettingGroup> groups = {getSizes(config.layer, *config.model, sequence), getAttention(*config.model)};
  if (config.layer.experts > 0)
    groups.push_back(getExperts(config.layer, *config.model));
  return groups;
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
  const bool hasPlainBlocks =
      attention.rotary && llvm::any_of(model.blocks, [](const BlockSpec &b) { return !b.rotary; });
  const bool hasActivation =
      llvm::is_contained({Activation::swiglu, Activation::swiglu_clamped, Activation::gelu_tanh}, layer.activation);
  // --disable-bias-linear is for all linear layers together.
  const bool hasBiases = model.denseBiases || attention.outputBias;
  const std::pair<bool, const char *> known[] = {
      {!model.decoder.empty(), "a decoder beside the encoder"},
      {model.normPlace == NormPlace::sum || model.headTransform || model.embeddingNorm,
       "norms after the sums, and the head of BERT"},
      {model.normPlace == NormPlace::output || model.normPlace == NormPlace::both,
       "norms behind attention and experts"},
      {model.zeroCentredNorms, "norms whose weights are differences from 1"},
      {!model.otherAttentions.empty(), "attention whose heads, positions or sinks differ between blocks"},
      {attention.gate.has_value(), "a gate of attention's results"},
      {attention.valueDim > 0 && attention.valueDim != attention.headDim, "values of another size than keys"},
      {attention.valueScale != 1, "a factor of attention's values"},
      {model.embeddingScale != 1 || model.residualScale != 1 || model.headScale != 1,
       "factors of embeddings, branches and logits"},
      {hasChunks, "attention inside chunks"},
      {hasPlainBlocks, "blocks without the rotary positions of others"},
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
      {hasExperts && layer.selectionBias && layer.score != Score::sigmoid,
       "a bias in the choice of experts beside softmax (Megatron-LM has it with sigmoid alone)"},
      {hasExperts && hasBiases && !layer.gateBias,
       "a router without a bias (Megatron-LM's router has one if linear layers have biases)"},
      {hasExperts && !hasBiases && layer.gateBias, "a bias of the router without biases of linear layers"},
      {hasExperts && hasBiases != layer.expertBiases, "biases of dense layers or of experts alone"},
      {hasExperts && layer.expertCapacity, "a capacity of experts that does not grow with the tokens"},
      {hasExperts && !hasActivation, "this activation function (Megatron-LM takes GELU)"}};
  std::vector<std::string> gaps;
  for (auto [isGap, text] : known)
    if (isGap)
      gaps.emplace_back(text);
  return gaps;
}
