//===- FamiliesOther.cpp - families with blocks of their own --------------===//

#include "CheckpointNames.h"

#include <cmath>

using namespace mlir::moe;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Switch
//===----------------------------------------------------------------------===//

/// Reads `expert_capacity`, the most tokens of a sequence of any length that an expert takes.
static void readSwitchLayer(JsonReader &reader, LayerSpec &layer) {
  // transformers reads dense_act_fn alone, which older versions derived from feed_forward_proj.
  std::string function = reader.getString("dense_act_fn", "relu");
  if (reader.getString("feed_forward_proj", function) != function)
    reader.fail("feed_forward_proj", "the value of 'dense_act_fn', \"" + function + "\",");
  layer.sequenceGroups = true;
  layer.expertCapacity = reader.getInteger("expert_capacity", 1, kMaxSize);
}

/// Reads the blocks of one half. Each `step`-th one, from the second on, is MoE. The file may give the step itself, or
/// the number of MoE blocks; as in transformers, 0 of them makes one.
static void readSwitchBlocks(JsonReader &reader, StringRef half, StringRef key, int64_t defaultCount,
                             llvm::SmallVector<BlockSpec> &blocks) {
  int64_t count = reader.getInteger(key, 1, kMaxBlocks, defaultCount);
  int64_t sparse = reader.getInteger(("num_sparse_" + half + "_layers").str(), 0, kMaxBlocks, 3);
  int64_t step = reader.getInteger((half + "_sparse_step").str(), 0, kMaxBlocks, sparse > 0 ? count / sparse : count);
  for (int64_t i = 0; i < count; ++i)
    blocks.push_back({.isMoe = step == 1 || (step > 1 && i % step == 1)});
}

/// The head is scaled if it is tied.
static void readSwitchModel(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  readSwitchBlocks(reader, "encoder", "num_layers", 12, model.blocks);
  auto encoder = static_cast<int64_t>(model.blocks.size());
  readSwitchBlocks(reader, "decoder", "num_decoder_layers", encoder, model.decoder);
  if (model.tiedHead)
    model.headScale = 1 / std::sqrt(static_cast<double>(layer.hidden));
}

/// Switch: T5's encoder and decoder, with relative position biases and unscaled attention scores. The weight of the
/// chosen expert is its router probability.
static Family getSwitch() {
  return {.architectures = {"SwitchTransformersForConditionalGeneration"},
          .modelTypes = {"switch_transformers"},
          .layer = {.topK = 1},
          .layerKeys = {.hidden = "d_model",
                        .expertHidden = "d_ff",
                        .topK = {},
                        .activation = "dense_act_fn",
                        .activations = kPlainActivations,
                        .gateBias = "router_bias",
                        .fixed = {.mustBeFalse = {"is_gated_act"},
                                  .mustBeOne = {"num_selected_experts"},
                                  .mustBe = {{"router_dtype", "float32"}},
                                  .ignored = {"n_positions", "router_ignore_padding_tokens", "add_router_probs",
                                              "is_decoder", "add_cross_attention"},
                                  .ignoredAs = {{"router_type", "\"tokens_masked\""}}},
                        .readMore = readSwitchLayer},
          .model = {.attention =
                        {.headDim = 64, .rotary = std::nullopt, .scale = 1, .relativeBuckets = 32, .maxDistance = 128},
                    .routerLoss = {.isBySequence = true}},
          .modelKeys = {.blocks = {},
                        .padding = {},
                        .eps = "layer_norm_epsilon",
                        .heads = "num_heads",
                        .keyHeads = {},
                        .headDim = "d_kv",
                        .relativeBuckets = "relative_attention_num_buckets",
                        .maxDistance = "relative_attention_max_distance",
                        .embeddingDropout = "dropout_rate",
                        .attentionDropout = "dropout_rate",
                        .residualDropout = "dropout_rate",
                        .hiddenDropout = "dropout_rate",
                        .jitter = "router_jitter_noise",
                        .routerLoss = {.balance = "router_aux_loss_coef",
                                       .square = "router_z_loss_coef",
                                       .added = "output_router_logits"},
                        .denseHidden = {},
                        .readMore = readSwitchModel},
          .checkpoint = {"encoder.block.{i}.layer.",
                         {names::kSwitchAttention, names::kSwitchEncoder},
                         names::kSwitchModel,
                         "decoder.block.{i}.layer.",
                         {names::kSwitchAttention, names::kSwitchDecoder}}};
}

//===----------------------------------------------------------------------===//
// GPT-2 and BERT with MoE in place of every `moe_every`-th feed-forward block, as GShard and Switch have it
//===----------------------------------------------------------------------===//

static constexpr SparseKeys kSparseBlocks = {.step = "moe_every"};

/// Reads the scale of scores, which may lack the root of a head's columns, and may fall from block to block.
static void readScale(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  if (!reader.getBool("scale_attn_weights", true))
    model.attention.scale = 1;
  if (reader.getBool("scale_attn_by_inverse_layer_idx", false))
    for (size_t i = 0; i < model.blocks.size(); ++i)
      model.blocks[i].scoreScale = 1 / static_cast<double>(i + 1);
}

/// GPT-2: learned positions, layer norms before the branches, biases everywhere; dropless without a capacity factor.
static Family getGpt2() {
  return {.architectures = {"GPT2MoEForCausalLM"},
          .modelTypes = {"gpt2_moe"},
          .layer = {.topK = 1, .activation = Activation::gelu_tanh, .expertBiases = true},
          .layerKeys = {.hidden = "n_embd",
                        .expertHidden = "n_inner",
                        .expansion = 4,
                        .activation = "activation_function",
                        .activations = kPlainActivations,
                        .renormalize = "norm_topk_prob",
                        .capacityFactor = "expert_capacity_factor"},
          .model = {.norm = Norm::layer,
                    .attention = {.inputBiases = true, .outputBias = true, .rotary = std::nullopt},
                    .denseBiases = true,
                    .routerLoss = {.isAdded = true, .isOverLayers = false}},
          .modelKeys = {.blocks = "n_layer",
                        .padding = {},
                        .eps = "layer_norm_epsilon",
                        .heads = "n_head",
                        .keyHeads = {},
                        .headDim = {},
                        .learnedPositions = "n_positions",
                        .embeddingDropout = "embd_pdrop",
                        .attentionDropout = "attn_pdrop",
                        .residualDropout = "resid_pdrop",
                        .routerLoss = getRouterLossKeys(),
                        .sparse = kSparseBlocks,
                        .denseHidden = {},
                        .fixed = {.mustBeFalse = {"add_cross_attention"},
                                  .ignored = {"n_ctx", "reorder_and_upcast_attn", "summary_activation",
                                              "summary_first_dropout", "summary_proj_to_labels", "summary_type",
                                              "summary_use_proj"}},
                        .readMore = readScale},
          .checkpoint = {.block = "transformer.h.{i}.",
                         .ofBlock = {names::kGpt2Block},
                         .ofModel = names::kGpt2Model,
                         .prefix = "transformer."}};
}

/// GPT-2 as published: no block has experts.
static Family getDenseGpt2() {
  Family family = getGpt2();
  family.architectures = {"GPT2LMHeadModel"};
  family.modelTypes = {"gpt2"};
  family.layerKeys.experts = family.layerKeys.renormalize = family.layerKeys.capacityFactor = {};
  family.modelKeys.sparse = {};
  family.modelKeys.routerLoss = {};
  return family;
}

/// Reads whether attention is causal: a decoder's tokens see only earlier ones.
static void readDecoder(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  readFlag(reader, "is_decoder", model.attention.causal);
}

/// BERT: an encoder with norms after the sums and a head for masked tokens. Experts are like GPT-2's.
static Family getBert() {
  return {.architectures = {"BertMoEForMaskedLM"},
          .modelTypes = {"bert_moe"},
          .layer = {.topK = 1, .activation = Activation::gelu, .expertBiases = true},
          .layerKeys = {.expertHidden = "intermediate_size",
                        .activations = kPlainActivations,
                        .renormalize = "norm_topk_prob",
                        .capacityFactor = "expert_capacity_factor"},
          .model = {.norm = Norm::layer,
                    .embeddingNorm = true,
                    .normPlace = NormPlace::sum,
                    .headTransform = true,
                    .headBias = true,
                    .attention = {.causal = false, .inputBiases = true, .outputBias = true, .rotary = std::nullopt},
                    .denseBiases = true,
                    .routerLoss = {.isAdded = true, .isOverLayers = false}},
          .modelKeys = {.eps = "layer_norm_eps",
                        .keyHeads = {},
                        .headDim = {},
                        .learnedPositions = "max_position_embeddings",
                        .tokenTypes = "type_vocab_size",
                        .embeddingDropout = "hidden_dropout_prob",
                        .attentionDropout = "attention_probs_dropout_prob",
                        .residualDropout = "hidden_dropout_prob",
                        .routerLoss = getRouterLossKeys(),
                        .sparse = kSparseBlocks,
                        .denseHidden = {},
                        .fixed = {.mustBeFalse = {"add_cross_attention"}},
                        .readMore = readDecoder},
          .checkpoint = {"bert.encoder.layer.{i}.", {names::kBertBlock}, names::kBertModel}};
}

llvm::SmallVector<Family, 0> mlir::moe::getOtherFamilies() {
  return {getSwitch(), getGpt2(), getBert(), getDenseGpt2()};
}
