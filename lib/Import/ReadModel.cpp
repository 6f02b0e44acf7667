//===- ReadModel.cpp - what stands around the MoE layers of a model -------===//

#include "Family.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

static constexpr NumberRange kProbability{0, 0x1.fffffffffffffp-1, true, "a number of at least 0 and below 1"};

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Reads heads, which have a size of their own or share the hidden columns. Several may share a key head.
static void readHeads(JsonReader &reader, const ModelKeys &keys, const LayerSpec &layer, AttentionSpec &attention) {
  readSize(reader, keys.heads, kMaxSize, attention.heads);
  if (!keys.headDim.empty() && (attention.headDim > 0 || reader.find(keys.headDim))) {
    readSize(reader, keys.headDim, kMaxSize, attention.headDim);
  } else {
    if (layer.hidden % attention.heads != 0)
      reader.fail(keys.heads, "a divisor of the hidden size, " + Twine(layer.hidden) + ",");
    attention.headDim = layer.hidden / attention.heads;
  }
  if (attention.keyHeads == 0)
    attention.keyHeads = attention.heads;
  readSize(reader, keys.keyHeads, attention.heads, attention.keyHeads);
  if (attention.heads % attention.keyHeads != 0)
    reader.fail(keys.keyHeads, "a divisor of '" + keys.heads + "', " + Twine(attention.heads) + ",");
}

/// Reads the sizes of DeepSeek's attention, whose heads all have keys and values of their own.
static void readLatent(JsonReader &reader, const ModelKeys &keys, AttentionSpec &attention) {
  readSize(reader, keys.heads, kMaxSize, attention.heads);
  attention.keyHeads = attention.heads;
  if (reader.getInteger(keys.keyHeads, 1, kMaxSize, attention.heads) != attention.heads)
    reader.fail(keys.keyHeads, "'" + keys.heads + "', " + Twine(attention.heads) +
                                   ", since every head has keys and values of its own,");
  LatentSpec &latent = *attention.latent;
  if (reader.isNull("q_lora_rank"))
    latent.queryRank = 0;
  else
    readSize(reader, "q_lora_rank", kMaxSize, latent.queryRank);
  readSize(reader, "kv_lora_rank", kMaxSize, latent.rank);
  readSize(reader, "qk_nope_head_dim", kMaxSize, latent.plainDim);
  readSize(reader, "qk_rope_head_dim", kMaxSize, latent.rotaryDim);
  readSize(reader, "v_head_dim", kMaxSize, latent.valueDim);
  attention.headDim = latent.plainDim + latent.rotaryDim;
}

static void readPositions(JsonReader &reader, const ModelKeys &keys, AttentionSpec &attention) {
  if (!keys.relativeBuckets.empty()) {
    attention.relativeBuckets = reader.getInteger(keys.relativeBuckets, 4, kMaxSize, attention.relativeBuckets);
    // Half of the buckets hold one distance each. The others share the distances up to the largest.
    attention.maxDistance =
        reader.getInteger(keys.maxDistance, attention.relativeBuckets / 2 + 1, kMaxVocabulary, attention.maxDistance);
  }
  if (!attention.rotary || reader.hasFailed())
    return;
  if (attention.latent) {
    readRotary(reader, keys.rotary, "qk_rope_head_dim", attention.latent->rotaryDim, *attention.rotary);
    attention.scale = readLatentScale(reader, attention);
  } else {
    readRotary(reader, keys.rotary, keys.headDim, attention.headDim, *attention.rotary);
  }
}

static void readAttention(JsonReader &reader, const ModelKeys &keys, const LayerSpec &layer, AttentionSpec &attention) {
  if (attention.latent)
    readLatent(reader, keys, attention);
  else
    readHeads(reader, keys, layer, attention);
  readFlag(reader, keys.biases, attention.outputBias);
  readFlag(reader, keys.biases.empty() ? keys.inputBiases : keys.biases, attention.inputBiases);
  readPositions(reader, keys, attention);
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// Reads a list with the type of each block's attention.
static void readWindowTypes(JsonReader &reader, const WindowKeys &keys, ModelSpec &model) {
  std::vector<std::string> types = reader.getStrings(keys.types);
  if (!reader.find(keys.types) || reader.hasFailed())
    return;
  int64_t further = keys.further.empty() ? 0 : reader.getInteger(keys.further, 0, kMaxBlocks, 0);
  if (types.size() == model.blocks.size() + further)
    types.resize(model.blocks.size());
  if (types.size() != model.blocks.size())
    return reader.fail(keys.types, "a type for each of the " + Twine(model.blocks.size()) + " blocks");
  int64_t window = reader.getInteger(keys.size, 0, kMaxVocabulary, 0);
  for (size_t i = 0; i < types.size(); ++i) {
    bool slides = types[i] == "sliding_attention";
    if (!slides && types[i] != "full_attention")
      return reader.fail((keys.types + "[" + Twine(i) + "]").str(), R"(one of "full_attention", "sliding_attention")");
    if (slides && window == 0)
      return reader.fail(keys.size, "the window of the blocks with \"sliding_attention\"");
    model.blocks[i].window = slides ? window : 0;
  }
}

static void readWindows(JsonReader &reader, const WindowKeys &keys, ModelSpec &model) {
  if (keys.types.empty())
    for (auto [i, type] : llvm::enumerate(reader.getStrings("layer_types")))
      if (type != "full_attention")
        reader.fail(("layer_types[" + Twine(i) + "]").str(), "\"full_attention\"");
  if (keys.size.empty())
    return;
  int64_t window =
      reader.getInteger(keys.size, 1, kMaxVocabulary, keys.isNeeded ? std::nullopt : std::optional<int64_t>(0));
  for (size_t i = 0; i < model.blocks.size(); i += keys.every)
    model.blocks[i].window = window;
  if (!keys.types.empty())
    readWindowTypes(reader, keys, model);
}

/// Reads a list with the type of each block's feed-forward part.
static void readSparseTypes(JsonReader &reader, StringRef key, ModelSpec &model) {
  model.blocks.front().isMoe = false;
  std::vector<std::string> types = reader.getStrings(key);
  if (!reader.find(key) || reader.hasFailed())
    return;
  if (types.size() != model.blocks.size())
    return reader.fail(key, "a type for each of the " + Twine(model.blocks.size()) + " blocks");
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "sparse" && types[i] != "dense")
      return reader.fail((key + "[" + Twine(i) + "]").str(), R"(one of "dense", "sparse")");
    model.blocks[i].isMoe = types[i] == "sparse";
  }
}

static void readSparseBlocks(JsonReader &reader, const SparseKeys &keys, const LayerSpec &layer, ModelSpec &model) {
  if (!keys.types.empty())
    return readSparseTypes(reader, keys.types, model);
  for (StringRef key : {keys.step, keys.first})
    if (!key.empty() && reader.unsetsDefault(key))
      reader.fail(key, "an integer");
  int64_t step = 1;
  readSize(reader, keys.step, kMaxBlocks, step);
  auto count = static_cast<int64_t>(model.blocks.size());
  int64_t first = keys.first.empty() ? 0 : reader.getInteger(keys.first, 0, count, 0);
  std::vector<int64_t> dense;
  if (!keys.denseList.empty())
    dense = reader.getIntegers(keys.denseList, 0, kMaxBlocks);
  for (int64_t i = 0; i < count; ++i)
    model.blocks[i].isMoe = layer.experts > 0 && (i + 1) % step == 0 && i >= first && !llvm::is_contained(dense, i);
}

void mlir::moe::readDenseHidden(JsonReader &reader, ModelSpec &model) {
  bool hasDense = llvm::any_of(model.blocks, [](const BlockSpec &block) { return !block.isMoe; });
  if (hasDense && model.denseHidden == 0)
    readSize(reader, "intermediate_size", kMaxSize, model.denseHidden);
}

static void readBlocks(JsonReader &reader, const ModelKeys &keys, const LayerSpec &layer, ModelSpec &model) {
  int64_t count = 0;
  readSize(reader, keys.blocks, kMaxBlocks, count);
  model.blocks.assign(count, BlockSpec());
  readWindows(reader, keys.window, model);
  readSparseBlocks(reader, keys.sparse, layer, model);
  if (keys.denseHidden.empty()) {
    model.denseHidden = layer.expertHidden;
    model.denseActivation = layer.activation;
  } else if (llvm::any_of(model.blocks, [](const BlockSpec &block) { return !block.isMoe; })) {
    readSize(reader, keys.denseHidden, kMaxSize, model.denseHidden);
  } else {
    reader.accept({keys.denseHidden});
  }
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

/// Reads the id of the padding, which counts from the end if negative. Without a key the embedding trains all rows.
static void readPadding(JsonReader &reader, StringRef key, ModelSpec &model) {
  if (key.empty())
    return reader.accept({"pad_token_id"});
  if (reader.hasFailed())
    return;
  if (reader.isNull(key))
    model.padding = -1;
  else if (reader.find(key))
    model.padding = reader.getInteger(key, -model.vocabulary, model.vocabulary - 1);
  if (reader.find(key) && model.padding < 0)
    model.padding += model.vocabulary;
}

/// Accepts `output_router_logits`, which transformers' classes also have if no loss depends on it.
static void readRouterLoss(JsonReader &reader, const RouterLossKeys &keys, RouterLossSpec &loss) {
  reader.accept({"output_router_logits"});
  readNumber(reader, keys.balance, kNotNegative, loss.balance);
  readNumber(reader, keys.square, kNotNegative, loss.square);
  readFlag(reader, keys.added, loss.isAdded);
}

ModelSpec mlir::moe::readModel(JsonReader &reader, const Family &family, const LayerSpec &layer) {
  const ModelKeys &keys = family.modelKeys;
  ModelSpec model = family.model;
  readBlocks(reader, keys, layer, model);
  readAttention(reader, keys, layer, model.attention);
  readSize(reader, keys.vocabulary, kMaxVocabulary, model.vocabulary);
  readSize(reader, keys.learnedPositions, kMaxVocabulary, model.learnedPositions);
  readSize(reader, keys.tokenTypes, kMaxSize, model.tokenTypes);
  readNumber(reader, keys.eps, kNormEps, model.eps);
  readFlag(reader, keys.tiedHead, model.tiedHead);
  readNumber(reader, keys.embeddingDropout, kProbability, model.dropout.embedding);
  readNumber(reader, keys.attentionDropout, kProbability, model.dropout.attention);
  readNumber(reader, keys.residualDropout, kProbability, model.dropout.residual);
  readNumber(reader, keys.hiddenDropout, kProbability, model.dropout.hidden);
  readNumber(reader, keys.jitter, kProbability, model.dropout.jitter);
  readRouterLoss(reader, keys.routerLoss, model.routerLoss);
  readPadding(reader, keys.padding, model);
  if (layer.experts == 0)
    model.routerLoss = {};
  checkFixedKeys(reader, keys.fixed);
  if (keys.readMore)
    keys.readMore(reader, layer, model);
  return model;
}
