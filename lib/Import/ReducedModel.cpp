//===- ReducedModel.cpp - the same model in its smallest sizes ------------===//

#include "moe/Import/ReducedModel.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace mlir::moe;

/// Returns `wanted` or a little more, with the same common divisor with `divisor` as `size`; at most `size`.
static int64_t reduce(int64_t size, int64_t wanted, int64_t divisor) {
  int64_t reduced = std::min(size, wanted);
  while (reduced < size && std::gcd(reduced, divisor) != std::gcd(size, divisor))
    ++reduced;
  return reduced;
}

int64_t mlir::moe::reduceSequence(int64_t seq, const ReducedSizes &sizes) {
  // Each rank of cp has two zigzag parts of a sequence.
  const int64_t parts = sizes.parallel.getCp() > 1 ? 2 * sizes.parallel.getCp() : 1;
  const int64_t divisor = std::lcm(parts * sizes.parallel.getMp(), sizes.chunks);
  return reduce(seq, std::max<int64_t>(divisor, 4 * sizes.factor), divisor);
}

static void reduceLayer(LayerSpec &layer, int64_t seq, int64_t reducedSeq, const ReducedSizes &sizes) {
  const ParallelAttr groups = sizes.parallel;
  const int64_t hidden = reduce(layer.hidden, 6 * sizes.factor, 1), shards = std::lcm(groups.getEsp(), groups.getMp());
  // moe-weigh-hidden compares a shard of an expert with the width of the model, so the proportion stays.
  const int64_t ofExpert = hidden * layer.expertHidden / layer.hidden;
  layer.expertHidden = reduce(layer.expertHidden, std::max(2 * sizes.factor, ofExpert - ofExpert % shards), shards);
  layer.hidden = hidden;
  if (layer.sharedHidden)
    layer.sharedHidden = reduce(layer.sharedHidden, 2 * sizes.factor, shards);
  // A rank with several experts keeps several, groups have more experts than are scored, and some are not chosen.
  const int64_t ofRank = std::min<int64_t>(2 * sizes.factor, layer.experts / groups.getEp());
  const int64_t ofGroup = layer.expertGroups > 1 ? std::max<int64_t>(3, layer.topK / layer.topGroups + 1) : 1;
  const int64_t least = std::max({groups.getEp() * ofRank, layer.expertGroups * ofGroup, layer.topK + 1});
  layer.experts = reduce(layer.experts, least, std::lcm(groups.getEp(), layer.expertGroups));
  if (layer.expertCapacity)
    layer.expertCapacity = std::max<int64_t>(1, llvm::divideCeil(*layer.expertCapacity * reducedSeq, seq));
}

static void reduceAttention(AttentionSpec &attention, const ReducedSizes &sizes) {
  if (attention.heads == 0)
    return;
  // A key head with several query heads keeps several.
  const int64_t mp = sizes.parallel.getMp(), shared = attention.heads / std::max<int64_t>(1, attention.keyHeads);
  const int64_t keyHeads = reduce(attention.keyHeads, mp * sizes.factor, mp);
  const int64_t ofKey = attention.keyHeads % mp == 0 ? std::min<int64_t>(2, shared) : shared;
  attention.keyHeads = keyHeads;
  attention.heads = std::min(attention.heads, keyHeads * ofKey);
  const bool isPartial = attention.rotary && attention.rotary->dim > 0 && attention.rotary->dim < attention.headDim;
  attention.headDim = reduce(attention.headDim, 4 * sizes.factor, 2);
  if (attention.valueDim > 0)
    attention.valueDim = reduce(attention.valueDim, 3 * sizes.factor, 1);
  if (attention.rotary && attention.rotary->dim > 0)
    attention.rotary->dim = isPartial ? reduce(attention.rotary->dim, 2 * sizes.factor, 2) : attention.headDim;
  if (LatentSpec *latent = attention.latent ? &*attention.latent : nullptr) {
    if (latent->queryRank)
      latent->queryRank = reduce(latent->queryRank, 5 * sizes.factor, 1);
    latent->rank = reduce(latent->rank, 3 * sizes.factor, 1);
    latent->plainDim = reduce(latent->plainDim, 2 * sizes.factor, 1);
    latent->rotaryDim = reduce(latent->rotaryDim, 2 * sizes.factor, 2);
    latent->valueDim = reduce(latent->valueDim, 3 * sizes.factor, 1);
  }
  attention.relativeBuckets = reduce(attention.relativeBuckets, 8 * sizes.factor, 2);
  attention.maxDistance = reduce(attention.maxDistance, 16 * sizes.factor, 1);
}

static void reduceSpec(ModelSpec &model, int64_t seq, int64_t reducedSeq, const ReducedSizes &sizes) {
  const int64_t mp = sizes.parallel.getMp();
  auto inSequence = [&](int64_t tokens) {
    return tokens >= seq ? tokens : std::max<int64_t>(1, tokens * reducedSeq / seq);
  };
  model.vocabulary = reduce(model.vocabulary, 4 * mp * sizes.factor, mp);
  model.padding = sizes.keepsPadding ? std::min<int64_t>(model.padding, 1) : -1;
  model.learnedPositions = model.learnedPositions ? std::max(reducedSeq, inSequence(model.learnedPositions)) : 0;
  model.denseHidden = reduce(model.denseHidden, 2 * mp * sizes.factor, mp);
  reduceAttention(model.attention, sizes);
  for (AttentionSpec &attention : model.otherAttentions)
    reduceAttention(attention, sizes);
  for (auto *blocks : {&model.blocks, &model.decoder})
    for (BlockSpec &block : *blocks) {
      block.window = block.window ? inSequence(block.window) : 0;
      block.chunk = block.chunk ? inSequence(block.chunk) : 0;
    }
}

double mlir::moe::getLeastMaxLoad(const LayerSpec &layer, ParallelAttr parallel) {
  constexpr double kPasses = 3;
  // In the worst case all tokens choose experts of one rank. The room is max_load times the mean of all ranks.
  const int64_t ofRank = std::min(layer.topK, layer.experts / parallel.getEp());
  return static_cast<double>(parallel.getEp() * ofRank) / (static_cast<double>(layer.topK) * kPasses);
}

ModelConfig mlir::moe::reduceModel(const ModelConfig &config, int64_t seq, const ReducedSizes &sizes) {
  ModelConfig reduced = config;
  const int64_t reducedSeq = reduceSequence(seq, sizes);
  reduceLayer(reduced.layer, seq, reducedSeq, sizes);
  if (reduced.model)
    reduceSpec(*reduced.model, seq, reducedSeq, sizes);
  return reduced;
}
