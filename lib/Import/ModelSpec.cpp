//===- ModelSpec.cpp - what a Hugging Face config says of a whole model ---===//
//
// One function for each family of models. What a config does not say is what the family's published modeling code does.
//
//===----------------------------------------------------------------------===//

#include "moe/Import/ModelSpec.h"

#include "Families.h"

#include <algorithm>
#include <cmath>

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

static constexpr int64_t maxSize = 1 << 20;
static constexpr int64_t maxVocabulary = 1 << 24;
static constexpr int64_t maxBlocks = 10000;
static constexpr double pi = 3.14159265358979323846;
static constexpr NumberRange kProbability{0, 0x1.fffffffffffffp-1, true, "a number of at least 0 and below 1"};

//===----------------------------------------------------------------------===//
// Rotary positions
//===----------------------------------------------------------------------===//

/// Of which pair of `dim` columns the angle makes `rotations` turns over `positions` tokens.
static double findPair(double rotations, double dim, double base, double positions) {
  return dim * std::log(positions / (rotations * 2 * pi)) / (2 * std::log(base));
}

/// YaRN's mscale: what values are multiplied with where positions are stretched by `factor`.
static double getYarnScale(double factor, double multiple) {
  return factor <= 1 ? 1.0 : 0.1 * multiple * std::log(factor) + 1;
}

/// YaRN (Peng et al., 2023) as in the models' code.
static void readYarn(JsonReader &scaling, int64_t dim, int64_t maxPositions, RotarySpec &rotary) {
  rotary.factor = scaling.getNumber("factor", kPositive);
  double positions = scaling.getNumber("original_max_position_embeddings", kPositive, maxPositions);
  double fast = scaling.getNumber("beta_fast", kPositive, 32), slow = scaling.getNumber("beta_slow", kPositive, 1);
  auto columns = static_cast<double>(dim);
  rotary.low = findPair(fast, columns, rotary.base, positions);
  rotary.high = findPair(slow, columns, rotary.base, positions);
  if (scaling.getBool("truncate", true)) {
    rotary.low = std::floor(rotary.low);
    rotary.high = std::ceil(rotary.high);
  }
  rotary.low = std::max(rotary.low, 0.0);
  rotary.high = std::min(rotary.high, columns - 1);
  if (rotary.low == rotary.high)
    rotary.high += 0.001;
  auto getScale = [&](double multiple) { return getYarnScale(rotary.factor, multiple); };
  double mscale = scaling.getNumber("mscale", kNotNegative, 0),
         all = scaling.getNumber("mscale_all_dim", kNotNegative, 0);
  double scale = mscale > 0 && all > 0 ? getScale(mscale) / getScale(all) : getScale(1);
  rotary.scale = scaling.getNumber("attention_factor", kPositive, scale);
}

/// Newer configs have `rope_theta` and `rope_scaling` together.
static StringRef getScalingKey(JsonReader &reader) {
  return reader.find("rope_parameters") ? "rope_parameters" : "rope_scaling";
}

/// `rope_theta` and `rope_scaling`, of the `dim` columns that `dimKey` gives.
static RotarySpec readRotary(JsonReader &reader, StringRef dimKey, int64_t dim, double defaultBase) {
  RotarySpec rotary;
  if (dim % 2 != 0)
    reader.fail(dimKey, "an even size of heads, as rotary positions need it, " + Twine(dim) + " being odd,");
  StringRef key = getScalingKey(reader);
  bool isNew = key == "rope_parameters";
  if (!isNew)
    rotary.base = reader.getNumber("rope_theta", kPositive, defaultBase);
  if (!reader.find(key))
    return rotary;
  JsonReader scaling = reader.getObject(key);
  if (isNew)
    rotary.base = scaling.getNumber("rope_theta", kPositive, defaultBase);
  StringRef type = scaling.find("rope_type") ? "rope_type" : "type";
  if (scaling.getChoice(type, {"default", "yarn"}, 0) == 0)
    return rotary;
  if (rotary.base == 1)
    scaling.fail(key, "a base other than 1 with YaRN");
  else
    readYarn(scaling, dim, reader.getInteger("max_position_embeddings", 1, maxVocabulary, 4096), rotary);
  return rotary;
}

//===----------------------------------------------------------------------===//
// What families share
//===----------------------------------------------------------------------===//

/// The blocks, all MoE. `key` gives how many there are.
static void readBlocks(JsonReader &reader, StringRef key, ModelSpec &model) {
  model.blocks.assign(reader.getInteger(key, 1, maxBlocks), BlockSpec());
}

/// Heads that share the hidden columns, as many of keys as of queries.
static void readHeads(JsonReader &reader, StringRef key, const LayerSpec &layer, AttentionSpec &attention) {
  attention.heads = attention.keyHeads = reader.getInteger(key, 1, maxSize);
  if (layer.hidden % attention.heads != 0)
    return reader.fail(key, "a divisor of the hidden size, " + Twine(layer.hidden) + ",");
  attention.headDim = layer.hidden / attention.heads;
}

/// Heads of a size of their own, of which several share a key head.
static void readGroupedHeads(JsonReader &reader, const LayerSpec &layer, AttentionSpec &attention) {
  if (reader.find("head_dim")) {
    attention.heads = reader.getInteger("num_attention_heads", 1, maxSize);
    attention.headDim = reader.getInteger("head_dim", 1, maxSize);
  } else {
    readHeads(reader, "num_attention_heads", layer, attention);
  }
  attention.keyHeads = reader.getInteger("num_key_value_heads", 1, attention.heads, attention.heads);
  if (attention.heads % attention.keyHeads != 0)
    reader.fail("num_key_value_heads", "a divisor of 'num_attention_heads', " + Twine(attention.heads) + ",");
}

/// `layer_types` of newer configs; without them each block keeps the window that the family gave it.
static void readLayerTypes(JsonReader &reader, ModelSpec &model) {
  std::vector<std::string> types = reader.getStrings("layer_types");
  if (types.empty() || reader.hasFailed())
    return;
  if (types.size() != model.blocks.size())
    return reader.fail("layer_types", "a type for each of the " + Twine(model.blocks.size()) + " blocks");
  int64_t window = reader.getInteger("sliding_window", 0, maxVocabulary, 0);
  for (size_t i = 0; i < types.size(); ++i) {
    bool slides = types[i] == "sliding_attention";
    if (!slides && types[i] != "full_attention")
      return reader.fail(("layer_types[" + Twine(i) + "]").str(), R"(one of "full_attention", "sliding_attention")");
    if (slides && window == 0)
      return reader.fail("sliding_window", "the window of the blocks with \"sliding_attention\"");
    model.blocks[i].window = slides ? window : 0;
  }
}

/// What all models with Llama's block have: pre-norm, RMS norms, gated feed-forward blocks.
static void readLlamaBlocks(JsonReader &reader, ModelSpec &model, double defaultEps) {
  readBlocks(reader, "num_hidden_layers", model);
  model.vocabulary = reader.getInteger("vocab_size", 1, maxVocabulary);
  model.eps = reader.getNumber("rms_norm_eps", kPositive, defaultEps);
  model.tiedHead = reader.getBool("tie_word_embeddings", false);
  model.dropout.attention = reader.getNumber("attention_dropout", kProbability, 0);
}

/// The same with Llama's attention: grouped heads, of which all columns have rotary positions.
static void readLlama(JsonReader &reader, const LayerSpec &layer, ModelSpec &model, double defaultBase,
                      double defaultEps) {
  readLlamaBlocks(reader, model, defaultEps);
  readGroupedHeads(reader, layer, model.attention);
  if (!reader.hasFailed())
    model.attention.rotary = readRotary(reader, "head_dim", model.attention.headDim, defaultBase);
}

/// The size of dense blocks, where there are any.
static void readDenseHidden(JsonReader &reader, ModelSpec &model) {
  if (std::any_of(model.blocks.begin(), model.blocks.end(), [](const BlockSpec &block) { return !block.isMoe; }))
    model.denseHidden = reader.getInteger("intermediate_size", 1, maxSize);
}

/// Qwen's dense blocks: those of `mlp_only_layers`, and all but each `decoder_sparse_step`-th.
static void readDenseBlocks(JsonReader &reader, ModelSpec &model) {
  auto count = static_cast<int64_t>(model.blocks.size());
  int64_t step = reader.getInteger("decoder_sparse_step", 1, maxBlocks, 1);
  std::vector<int64_t> dense = reader.getIntegers("mlp_only_layers", 0, maxBlocks);
  for (int64_t i = 0; i < count; ++i)
    model.blocks[i].isMoe = (i + 1) % step == 0 && std::find(dense.begin(), dense.end(), i) == dense.end();
  readDenseHidden(reader, model);
}

/// Which blocks of Qwen's would slide, and how, differs between versions of its code.
static void refuseSlidingWindow(JsonReader &reader) {
  if (reader.getBool("use_sliding_window", false))
    reader.fail("use_sliding_window", "false");
}

Activation mlir::moe::readPlainActivation(JsonReader &reader, StringRef key, size_t defaultIndex) {
  const StringRef names[] = {"gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"};
  const Activation activations[] = {Activation::gelu, Activation::gelu_tanh, Activation::gelu_tanh, Activation::relu,
                                    Activation::silu};
  return activations[reader.getChoice(key, names, defaultIndex)];
}

/// GPT-2 and BERT with MoE in place of every `moe_every`-th feed-forward block, as GShard and Switch have it.
static void readPlain(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  model.vocabulary = reader.getInteger("vocab_size", 1, maxVocabulary);
  model.norm = Norm::layer;
  model.tiedHead = reader.getBool("tie_word_embeddings", true);
  model.attention.inputBiases = model.attention.outputBias = true;
  model.denseHidden = layer.expertHidden;
  model.denseActivation = layer.activation;
  model.denseBiases = true;
  model.auxCoefficient = reader.getNumber("router_aux_loss_coef", kNotNegative, 0.01);
  int64_t every = reader.getInteger("moe_every", 1, maxBlocks, 2);
  for (size_t i = 0; i < model.blocks.size(); ++i)
    model.blocks[i].isMoe = (i + 1) % every == 0;
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

/// Mixtral: Mistral's block; where there is a window, every block has it.
void mlir::moe::readMixtralModel(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  readLlama(reader, layer, model, 1e6, 1e-5);
  model.auxCoefficient = reader.getNumber("router_aux_loss_coef", kNotNegative, 0.001);
  int64_t window = reader.getInteger("sliding_window", 1, maxVocabulary, 0);
  for (BlockSpec &block : model.blocks)
    block.window = window;
}

/// Qwen2-MoE: biases of q, k and v.
void mlir::moe::readQwen2Model(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  readLlama(reader, layer, model, 1e4, 1e-6);
  refuseSlidingWindow(reader);
  readDenseBlocks(reader, model);
  model.attention.inputBiases = reader.getBool("qkv_bias", true);
  model.auxCoefficient = reader.getNumber("router_aux_loss_coef", kNotNegative, 0.001);
}

/// Qwen3-MoE: a norm of each head's queries and keys.
void mlir::moe::readQwen3Model(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  readLlama(reader, layer, model, 1e4, 1e-6);
  refuseSlidingWindow(reader);
  readDenseBlocks(reader, model);
  model.attention.headNorm = HeadNorm::head;
  model.attention.inputBiases = model.attention.outputBias = reader.getBool("attention_bias", false);
  model.auxCoefficient = reader.getNumber("router_aux_loss_coef", kNotNegative, 0.001);
}

/// OLMoE: a norm over all queries and one over all keys of a token.
void mlir::moe::readOlmoeModel(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  readLlama(reader, layer, model, 1e4, 1e-5);
  if (reader.find("clip_qkv"))
    reader.fail("clip_qkv", "null");
  model.attention.headNorm = HeadNorm::projection;
  model.attention.inputBiases = model.attention.outputBias = reader.getBool("attention_bias", false);
  model.auxCoefficient = reader.getNumber("router_aux_loss_coef", kNotNegative, 0.01);
}

/// gpt-oss: sinks, biases, and a window on every other block from the first on.
void mlir::moe::readGptOssModel(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  readLlama(reader, layer, model, 150000, 1e-5);
  model.attention.sinks = true;
  model.attention.inputBiases = model.attention.outputBias = reader.getBool("attention_bias", true);
  model.auxCoefficient = reader.getNumber("router_aux_loss_coef", kNotNegative, 0.9);
  int64_t window = reader.getInteger("sliding_window", 1, maxVocabulary, 128);
  for (size_t i = 0; i < model.blocks.size(); i += 2)
    model.blocks[i].window = window;
  readLayerTypes(reader, model);
}

/// The sizes of DeepSeek's attention.
static void readLatent(JsonReader &reader, AttentionSpec &attention) {
  attention.heads = attention.keyHeads = reader.getInteger("num_attention_heads", 1, maxSize);
  if (reader.getInteger("num_key_value_heads", 1, maxSize, attention.heads) != attention.heads)
    reader.fail("num_key_value_heads", "'num_attention_heads', " + Twine(attention.heads) +
                                           ", since every head has keys and values of its own,");
  LatentSpec &latent = attention.latent.emplace();
  if (!reader.isNull("q_lora_rank"))
    latent.queryRank = reader.getInteger("q_lora_rank", 1, maxSize, 1536);
  latent.rank = reader.getInteger("kv_lora_rank", 1, maxSize, 512);
  latent.plainDim = reader.getInteger("qk_nope_head_dim", 1, maxSize, 128);
  latent.rotaryDim = reader.getInteger("qk_rope_head_dim", 1, maxSize, 64);
  latent.valueDim = reader.getInteger("v_head_dim", 1, maxSize, 128);
  attention.headDim = latent.plainDim + latent.rotaryDim;
  attention.inputBiases = attention.outputBias = reader.getBool("attention_bias", false);
}

/// With YaRN, DeepSeek multiplies the products of queries and keys with the square of mscale_all_dim's factor too.
static double readLatentScale(JsonReader &reader, const AttentionSpec &attention) {
  double plain = 1 / std::sqrt(static_cast<double>(attention.headDim));
  StringRef key = getScalingKey(reader);
  if (!reader.find(key))
    return plain;
  double all = reader.getObject(key).getNumber("mscale_all_dim", kNotNegative, 0);
  double scale = all > 0 ? getYarnScale(attention.rotary->factor, all) : 1;
  return scale * scale * plain;
}

/// DeepSeek: latent attention; the first `first_k_dense_replace` blocks are dense, and of the others all but those
/// whose number `moe_layer_freq` divides.
static void readDeepseek(JsonReader &reader, ModelSpec &model, int64_t defaultDense) {
  readLlamaBlocks(reader, model, 1e-6);
  AttentionSpec &attention = model.attention;
  readLatent(reader, attention);
  auto count = static_cast<int64_t>(model.blocks.size());
  int64_t dense = reader.getInteger("first_k_dense_replace", 0, maxBlocks, defaultDense);
  int64_t step = reader.getInteger("moe_layer_freq", 1, maxBlocks, 1);
  for (int64_t i = 0; i < count; ++i)
    model.blocks[i].isMoe = i >= dense && i % step == 0;
  readDenseHidden(reader, model);
  if (reader.hasFailed())
    return;
  attention.rotary = readRotary(reader, "qk_rope_head_dim", attention.latent->rotaryDim, 1e4);
  attention.scale = readLatentScale(reader, attention);
}

/// DeepSeek-V2: balanced by a loss.
void mlir::moe::readDeepseekV2Model(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  readDeepseek(reader, model, 0);
  if (reader.getBool("mlp_bias", false))
    reader.fail("mlp_bias", "false");
  model.auxCoefficient = reader.getNumber("aux_loss_alpha", kNotNegative, 0.001);
}

/// DeepSeek-V3: balanced by the selection bias, without a loss.
void mlir::moe::readDeepseekV3Model(JsonReader &reader, const LayerSpec &, ModelSpec &model) {
  readDeepseek(reader, model, 3);
  model.attention.latent->interleaved = reader.getBool("rope_interleave", true);
}

/// Blocks of which each `step`-th, from the second on, is MoE.
static void readSwitchBlocks(JsonReader &reader, StringRef key, StringRef sparseKey, int64_t defaultCount,
                             llvm::SmallVector<BlockSpec> &blocks) {
  int64_t count = reader.getInteger(key, 1, maxBlocks, defaultCount);
  int64_t sparse = reader.getInteger(sparseKey, 0, count, std::min<int64_t>(3, count));
  int64_t step = sparse > 0 ? count / sparse : 0;
  for (int64_t i = 0; i < count; ++i)
    blocks.push_back({.isMoe = step == 1 || (step > 1 && i % step == 1)});
}

/// Switch: T5's encoder and decoder, with biases of relative positions, scores that are not scaled, and a tied head
/// that is.
void mlir::moe::readSwitchModel(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  readSwitchBlocks(reader, "num_layers", "num_sparse_encoder_layers", 12, model.blocks);
  auto encoder = static_cast<int64_t>(model.blocks.size());
  readSwitchBlocks(reader, "num_decoder_layers", "num_sparse_decoder_layers", encoder, model.decoder);
  model.vocabulary = reader.getInteger("vocab_size", 1, maxVocabulary);
  model.eps = reader.getNumber("layer_norm_epsilon", kPositive, 1e-6);
  model.tiedHead = reader.getBool("tie_word_embeddings", true);
  if (model.tiedHead)
    model.headScale = 1 / std::sqrt(static_cast<double>(layer.hidden));
  model.denseHidden = layer.expertHidden;
  model.denseActivation = layer.activation;
  model.attention.heads = model.attention.keyHeads = reader.getInteger("num_heads", 1, maxSize);
  model.attention.headDim = reader.getInteger("d_kv", 1, maxSize);
  model.attention.scale = 1;
  model.attention.relativeBuckets = reader.getInteger("relative_attention_num_buckets", 4, maxSize, 32);
  model.attention.maxDistance = reader.getInteger("relative_attention_max_distance", 1, maxVocabulary, 128);
  double dropout = reader.getNumber("dropout_rate", kProbability, 0.1);
  model.dropout = {.embedding = dropout, .attention = dropout, .residual = dropout};
  model.auxCoefficient = reader.getNumber("router_aux_loss_coef", kNotNegative, 0.001);
}

/// GPT-2 with MoE: learned positions, layer norms before the branches, biases everywhere.
void mlir::moe::readGpt2Model(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  readBlocks(reader, "n_layer", model);
  readHeads(reader, "n_head", layer, model.attention);
  readPlain(reader, layer, model);
  model.learnedPositions = reader.getInteger("n_positions", 1, maxVocabulary);
  model.eps = reader.getNumber("layer_norm_epsilon", kPositive, 1e-5);
  model.dropout.embedding = reader.getNumber("embd_pdrop", kProbability, 0.1);
  model.dropout.attention = reader.getNumber("attn_pdrop", kProbability, 0.1);
  model.dropout.residual = reader.getNumber("resid_pdrop", kProbability, 0.1);
}

/// BERT with MoE: an encoder with norms after the sums and a head for masked tokens.
void mlir::moe::readBertModel(JsonReader &reader, const LayerSpec &layer, ModelSpec &model) {
  readBlocks(reader, "num_hidden_layers", model);
  readHeads(reader, "num_attention_heads", layer, model.attention);
  readPlain(reader, layer, model);
  model.attention.causal = false;
  model.learnedPositions = reader.getInteger("max_position_embeddings", 1, maxVocabulary);
  model.tokenTypes = reader.getInteger("type_vocab_size", 1, maxSize, 2);
  model.embeddingNorm = model.postNorm = model.headTransform = model.headBias = true;
  model.eps = reader.getNumber("layer_norm_eps", kPositive, 1e-12);
  model.dropout.embedding = model.dropout.residual = reader.getNumber("hidden_dropout_prob", kProbability, 0.1);
  model.dropout.attention = reader.getNumber("attention_probs_dropout_prob", kProbability, 0.1);
}
