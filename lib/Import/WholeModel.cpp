//===- WholeModel.cpp - a whole model as an L0 graph ----------------------===//

#include "GraphBuilder.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

/// Names of the table of tokens, and of the tables of encoder and decoder if these are separate.
static constexpr StringRef kEmbedding = "embedding", kEncoderEmbedding = "encoder_embedding",
                           kDecoderEmbedding = "decoder_embedding";

namespace {

/// Differences between the attentions of one model.
struct AttentionUse {
  bool causal;
  Value bias;
};

/// Number of columns of a head's values.
int64_t getValueDim(const AttentionSpec &attention) {
  if (attention.latent)
    return attention.latent->valueDim;
  return attention.valueDim > 0 ? attention.valueDim : attention.headDim;
}

/// Queries, keys and values of all heads, ready for attention.
struct Heads {
  Value q, k, v;
};

class ModelBuilder : GraphBuilder {
public:
  ModelBuilder(MLIRContext &context, const ModelConfig &config, const LayerSpec &layer, const ImportOptions &options,
               int64_t tokens)
      : GraphBuilder(context, config, layer, options, tokens), model(*config.model) {}

  OwningOpRef<ModuleOp> build();

private:
  RankedTensorType ids() { return RankedTensorType::get({tokens}, builder.getI32Type()); }
  RankedTensorType rows(int64_t columns) { return tensor({tokens, columns}); }
  void addInputs();
  Value dropOut(Location loc, Value x, double probability, bool jitter = false);
  /// Adds the parameter `name` with the weights of a norm, and returns the factors that it gives.
  Value addGamma(Location loc, const Twine &name, int64_t columns);
  /// Applies a norm with the parameters name.gamma and, for a layer norm, name.beta.
  Value norm(Location loc, const Twine &name, Value x);
  /// Multiplies `x` by the parameter `name`; `column` as in moe.linear. An empty `biasName` means no bias.
  Value linear(Location loc, StringRef name, StringRef biasName, Value x, int64_t columns, int64_t column);
  Value lookUp(Location loc, StringRef table, int64_t entries, int64_t period);
  /// Looks tokens up in the parameter `table`.
  Value embed(StringRef table, Value tokens);
  /// Builds the biases of relative positions from the table name.relative_bias; null if the model has none.
  Value buildRelativeBias(StringRef name, bool bidirectional);
  /// Multiplies `x` by the parameter name.which, and adds name.which_bias if it has one.
  Value project(StringRef name, StringRef which, Value x, int64_t columns, bool hasBias, int64_t column);
  Value scale(Location loc, Value x, double factor);
  /// Applies rotary positions to `dim` columns from `begin` on of heads of `head` columns.
  Value rotate(Location loc, const AttentionSpec &attention, Value x, int64_t head, int64_t begin, int64_t dim,
               bool interleaved);
  Value normHeads(Location loc, const AttentionSpec &attention, const Twine &normName, Value x);
  Value clip(Location loc, const AttentionSpec &attention, Value x);
  /// Applies norm, clip and positions of queries or keys. `warms` adds the temperature in a block without positions.
  Value placeHeads(StringRef name, StringRef normName, Value x, const BlockSpec &block, bool warms);
  Heads projectHeads(StringRef name, Value x, Value memory, const BlockSpec &block);
  Heads projectLatent(StringRef name, const AttentionSpec &attention, Value x);
  /// Multiplies the heads `attended` by the factors that `x` gives.
  Value gate(StringRef name, const AttentionSpec &attention, Value x, Value attended);
  /// Attends from the queries of `x` to the keys and values of `memory`, with the parameters name.q, ..
  Value attend(StringRef name, Value x, Value memory, AttentionUse use, const BlockSpec &block);
  Value feedForward(int64_t index, bool isMoe, Value x);
  /// Returns `x + branch(x)`, with the norm at the model's place.
  Value addBranch(Location loc, const Twine &normName, Value x, llvm::function_ref<Value(Value)> branch);
  /// Builds the first blocks of `blocks`, numbered from `first` on, with attention to `memory` unless it is null.
  Value buildBlocks(ArrayRef<BlockSpec> blocks, int64_t first, Value x, AttentionUse use, Value memory = {});
  Value buildDecoder(Value encoded);
  Value buildLogits(Value x);
  /// Lets the layers of `blocks` add the parts of their routers' loss to `sums`, if the loss needs them.
  void beginRouters(ArrayRef<BlockSpec> blocks, RouterSums &sums);
  void warnOfExperts();
  /// Builds the routers' losses; null without any.
  Value buildRouterLoss();

  const ModelSpec &model;
  Value inputs, decoderInputs, labels, step;
  llvm::StringMap<Value> embeddings; ///< by name
  RouterSums encoderRouters, decoderRouters;
  int64_t seed = 0; ///< seed of the next op that draws
};

} // namespace

void ModelBuilder::addInputs() {
  NamedAttribute below = builder.getNamedAttr(kBelowAttrName, builder.getI64IntegerAttr(model.vocabulary));
  NamedAttribute sequence = builder.getNamedAttr(kSequenceAttrName, builder.getI64IntegerAttr(options.seq));
  inputs = addArgument("tokens", "input", ids(), {below, sequence});
  if (!model.decoder.empty())
    decoderInputs = addArgument("decoder_tokens", "input", ids(), below);
  if (options.loss)
    labels = addArgument("labels", "input", ids(), below);
  const DropoutSpec &rates = model.dropout;
  if (options.loss && std::max({rates.embedding, rates.attention, rates.residual, rates.hidden, rates.jitter}) > 0)
    step = addArgument("step", "step", RankedTensorType::get({}, builder.getI32Type()));
}

Value ModelBuilder::dropOut(Location loc, Value x, double probability, bool jitter) {
  if (!options.loss || probability == 0)
    return x;
  return builder.create<DropoutOp>(loc, x, step, seed++, 1, 1, 1, 1, jitter, APFloat(probability), CutAttr());
}

Value ModelBuilder::addGamma(Location loc, const Twine &name, int64_t columns) {
  if (!model.zeroCentredNorms)
    return addParameter(name, {columns}, 1);
  Value one = builder.create<FillOp>(loc, tensor({columns}), APFloat(1.0));
  return builder.create<AddOp>(loc, addParameter(name, {columns}, 0), one);
}

Value ModelBuilder::norm(Location loc, const Twine &name, Value x) {
  int64_t columns = cast<RankedTensorType>(x.getType()).getDimSize(1);
  Value gamma = addGamma(loc, name + ".gamma", columns), beta;
  if (model.norm == Norm::layer && model.normBias)
    beta = addParameter(name + ".beta", {columns});
  return builder.create<NormOp>(loc, x, gamma, beta, model.norm, APFloat(model.eps));
}

Value ModelBuilder::linear(Location loc, StringRef name, StringRef biasName, Value x, int64_t columns, int64_t column) {
  Value weights = addParameter(name, {cast<RankedTensorType>(x.getType()).getDimSize(1), columns}), bias;
  if (!biasName.empty())
    bias = addParameter(biasName, {columns});
  return builder.create<LinearOp>(loc, rows(columns), x, weights, bias, /*transpose_weights=*/false, column);
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

/// Looks up the table's row of each token's position mod `period`.
Value ModelBuilder::lookUp(Location loc, StringRef table, int64_t entries, int64_t period) {
  Value places = builder.create<PositionsOp>(loc, ids(), period, CutAttr());
  return builder.create<EmbeddingOp>(loc, rows(layer.hidden), places, addParameter(table, {entries, layer.hidden}));
}

Value ModelBuilder::embed(StringRef table, Value tokens) {
  Location loc = getLoc("embedding");
  Value &embedding = embeddings[table];
  if (!embedding)
    embedding = addParameter(table, {model.vocabulary, layer.hidden});
  Value x = builder.create<EmbeddingOp>(loc, rows(layer.hidden), tokens, embedding, /*vocabulary=*/true, /*parts=*/1,
                                        /*stride=*/1, model.padding);
  x = scale(loc, x, model.embeddingScale);
  if (model.learnedPositions > 0)
    x = builder.create<AddOp>(loc, x, lookUp(loc, "positions", model.learnedPositions, options.seq));
  if (model.tokenTypes > 0)
    x = builder.create<AddOp>(loc, x, lookUp(loc, "token_types", model.tokenTypes, /*period=*/1));
  if (model.embeddingNorm)
    x = norm(loc, "embedding_norm", x);
  return dropOut(loc, x, model.dropout.embedding);
}

Value ModelBuilder::buildRelativeBias(StringRef name, bool bidirectional) {
  const AttentionSpec &attention = model.attention;
  if (attention.relativeBuckets == 0)
    return {};
  Value table =
      addParameter(name + ".relative_bias", {attention.relativeBuckets, attention.heads}, /*fill=*/0, /*isBias=*/true);
  return builder.create<RelativeBiasOp>(getLoc("embedding"), tensor({attention.heads, options.seq, options.seq}), table,
                                        bidirectional, attention.maxDistance);
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

Value ModelBuilder::project(StringRef name, StringRef which, Value x, int64_t columns, bool hasBias, int64_t column) {
  std::string weights = (name + "." + which).str();
  return linear(getLoc(name), weights, hasBias ? weights + "_bias" : "", x, columns, column);
}

Value ModelBuilder::scale(Location loc, Value x, double factor) {
  return factor == 1 ? x : builder.create<ScaleOp>(loc, x, APFloat(factor)).getResult();
}

Value ModelBuilder::rotate(Location loc, const AttentionSpec &attention, Value x, int64_t head, int64_t begin,
                           int64_t dim, bool interleaved) {
  if (!attention.rotary)
    return x;
  const RotarySpec &rotary = *attention.rotary;
  return builder.create<RotaryOp>(
      loc, x, options.seq, head, begin, dim, interleaved, /*inverse=*/false,
      /*unrotated=*/false, APFloat(rotary.base), APFloat(rotary.factor), APFloat(rotary.low), APFloat(rotary.high),
      APFloat(rotary.scale), APFloat(rotary.reach), /*temperature=*/APFloat(0.0), /*span=*/APFloat(1.0), CutAttr());
}

Value ModelBuilder::normHeads(Location loc, const AttentionSpec &attention, const Twine &normName, Value x) {
  if (attention.headNorm == HeadNorm::none)
    return x;
  bool isWhole = attention.headNorm == HeadNorm::projection;
  int64_t columns = isWhole ? cast<RankedTensorType>(x.getType()).getDimSize(1) : attention.headDim;
  Value gamma = attention.headNorm == HeadNorm::plain
                    ? builder.create<FillOp>(loc, tensor({columns}), APFloat(1.0)).getResult()
                    : addGamma(loc, normName, columns);
  return builder.create<NormOp>(loc, x, gamma, Value(), Norm::rms, APFloat(model.eps));
}

Value ModelBuilder::clip(Location loc, const AttentionSpec &attention, Value x) {
  return attention.clip > 0 ? builder.create<ClampOp>(loc, x, APFloat(attention.clip)).getResult() : x;
}

Value ModelBuilder::placeHeads(StringRef name, StringRef normName, Value x, const BlockSpec &block, bool warms) {
  Location loc = getLoc(name);
  const AttentionSpec &attention = model.getAttention(block);
  int64_t head = attention.headDim;
  auto norm = [&] { x = block.headNorm ? normHeads(loc, attention, name + "." + normName, x) : x; };
  if (!attention.clipAfterNorm)
    x = clip(loc, attention, x);
  if (!attention.normAfterRotary)
    norm();
  if (attention.clipAfterNorm)
    x = clip(loc, attention, x);
  if (block.rotary && attention.rotary)
    x = rotate(loc, attention, x, head, /*begin=*/0, attention.rotary->dim > 0 ? attention.rotary->dim : head,
               attention.rotary->interleaved);
  if (attention.normAfterRotary)
    norm();
  if (!warms || block.rotary || attention.temperature == 0)
    return x;
  return builder.create<RotaryOp>(loc, x, options.seq, head, /*begin=*/0, head, /*interleaved=*/false,
                                  /*inverse=*/false, /*unrotated=*/true, /*base=*/APFloat(1.0),
                                  /*factor=*/APFloat(1.0), /*low=*/APFloat(0.0), /*high=*/APFloat(1.0),
                                  /*scale=*/APFloat(1.0), /*reach=*/APFloat(0.0), APFloat(attention.temperature),
                                  APFloat(attention.temperatureSpan), CutAttr());
}

Heads ModelBuilder::projectHeads(StringRef name, Value x, Value memory, const BlockSpec &block) {
  const AttentionSpec &attention = model.getAttention(block);
  int64_t head = attention.headDim, valueDim = getValueDim(attention), keys = attention.keyHeads;
  bool hasBias = attention.inputBiases;
  Value q = project(name, "q", x, attention.heads * head, hasBias, head);
  Value k = project(name, "k", memory, keys * head, hasBias, head);
  Value v = project(name, "v", memory, keys * valueDim, hasBias, valueDim);
  v = scale(getLoc(name), clip(getLoc(name), attention, v), attention.valueScale);
  q = placeHeads(name, "q_norm", q, block, /*warms=*/true);
  k = placeHeads(name, "k_norm", k, block, /*warms=*/false);
  return {q, k, v};
}

/// Makes heads from short vectors with a norm. The keys' columns with positions come from the token, for all heads.
Heads ModelBuilder::projectLatent(StringRef name, const AttentionSpec &attention, Value x) {
  Location loc = getLoc(name);
  const LatentSpec &latent = *attention.latent;
  int64_t heads = attention.heads, head = attention.headDim, plain = latent.plainDim;
  auto compress = [&](StringRef which, int64_t rank) -> Value {
    Value vector = project(name, which, x, rank, attention.inputBiases, /*column=*/0);
    Value gamma = addParameter(name + "." + which + "_norm", {rank}, 1);
    return builder.create<NormOp>(loc, vector, gamma, Value(), Norm::rms, APFloat(latent.eps));
  };
  auto expand = [&](StringRef which, Value from, int64_t columns) {
    return project(name, which, from, heads * columns, /*hasBias=*/false, columns);
  };
  Value q = latent.queryRank > 0 ? expand("q_b", compress("q_a", latent.queryRank), head) : expand("q", x, head);
  Value vector = compress("kv_a", latent.rank);
  Value k = expand("k", vector, plain), v = expand("v", vector, latent.valueDim);
  Value shared = project(name, "k_shared", x, latent.rotaryDim, attention.inputBiases, /*column=*/0);
  shared = rotate(loc, attention, shared, latent.rotaryDim, /*begin=*/0, latent.rotaryDim, latent.interleaved);
  k = builder.create<AppendToHeadsOp>(loc, rows(heads * head), k, shared);
  return {rotate(loc, attention, q, head, plain, latent.rotaryDim, latent.interleaved), k, v};
}

Value ModelBuilder::gate(StringRef name, const AttentionSpec &attention, Value x, Value attended) {
  const GateSpec &gate = *attention.gate;
  int64_t columns = getValueDim(attention), ofHead = gate.ofHeads ? 1 : columns;
  Value factors = project(name, "gate", x, attention.heads * ofHead, /*hasBias=*/false, ofHead);
  Location loc = getLoc(name);
  factors = builder.create<ActivationOp>(loc, factors.getType(), factors, /*counts=*/Value(), gate.activation);
  return builder.create<RowScaleOp>(loc, attended, factors, columns / ofHead);
}

Value ModelBuilder::attend(StringRef name, Value x, Value memory, AttentionUse use, const BlockSpec &block) {
  Location loc = getLoc(name);
  const AttentionSpec &attention = model.getAttention(block);
  int64_t heads = attention.heads, valueDim = getValueDim(attention);
  auto [q, k, v] = attention.latent ? projectLatent(name, attention, x) : projectHeads(name, x, memory, block);
  Value sinks = attention.sinks ? addParameter(name + ".sinks", {heads}) : Value();
  double dropout = options.loss ? model.dropout.attention : 0;
  // Pieces of sequences act as shorter sequences.
  int64_t length = block.chunk > 0 ? std::min(block.chunk, options.seq) : options.seq;
  double factor = attention.scale > 0 ? attention.scale : 1 / std::sqrt(static_cast<double>(attention.headDim));
  factor *= block.scoreScale;
  auto op = builder.create<AttentionOp>(loc, rows(heads * valueDim), accumulator({tokens, heads}), q, k, v, use.bias,
                                        sinks, dropout > 0 ? step : Value(), length, length, heads, attention.keyHeads,
                                        /*parts=*/1, /*stride=*/1, use.causal, block.window, dropout > 0 ? seed++ : 0,
                                        /*row_parts=*/1, /*row_stride=*/1, APFloat(factor), APFloat(dropout),
                                        /*block=*/0, CutAttr());
  Value attended = attention.gate ? gate(name, attention, x, op.getResult()) : op.getResult();
  return project(name, "o", attended, layer.hidden, attention.outputBias, /*column=*/0);
}

Value ModelBuilder::feedForward(int64_t index, bool isMoe, Value x) {
  std::string name = ("layer" + Twine(index) + ".ffn").str();
  Location loc = getLoc(name);
  if (isMoe)
    return buildLayer(index, dropOut(loc, x, model.dropout.jitter, /*jitter=*/true));
  int64_t width = getActivationWidth(model.denseActivation);
  auto multiply = [&](StringRef number, Value from, int64_t columns, int64_t column) {
    std::string bias = model.denseBiases ? name + ".b" + number.str() : "";
    return linear(loc, name + ".w" + number.str(), bias, from, columns, column);
  };
  Value inner = multiply("1", x, width * model.denseHidden, width);
  inner = builder.create<ActivationOp>(loc, rows(model.denseHidden), inner, /*counts=*/Value(), model.denseActivation,
                                       layer.activationAlpha, layer.activationLimit);
  inner = dropOut(loc, inner, model.dropout.hidden);
  return multiply("2", inner, layer.hidden, /*column=*/0);
}

Value ModelBuilder::addBranch(Location loc, const Twine &normName, Value x, llvm::function_ref<Value(Value)> branch) {
  NormPlace place = model.normPlace;
  bool isBefore = place == NormPlace::input || place == NormPlace::both;
  Value added = branch(isBefore ? norm(loc, normName, x) : x);
  if (place == NormPlace::output || place == NormPlace::both)
    added = norm(loc, place == NormPlace::both ? normName + "_output" : normName, added);
  added = scale(loc, added, model.residualScale);
  Value sum = builder.create<AddOp>(loc, x, dropOut(loc, added, model.dropout.residual));
  return place == NormPlace::sum ? norm(loc, normName, sum) : sum;
}

Value ModelBuilder::buildBlocks(ArrayRef<BlockSpec> blocks, int64_t first, Value x, AttentionUse use, Value memory) {
  auto count = static_cast<int64_t>(blocks.size());
  count = std::min(count, options.layers.value_or(count));
  for (auto [i, block] : llvm::enumerate(blocks.take_front(count))) {
    int64_t index = first + static_cast<int64_t>(i);
    std::string name = ("layer" + Twine(index)).str(), own = name + ".attention", cross = name + ".cross";
    x = addBranch(getLoc(own), name + ".norm1", x, [&](Value from) { return attend(own, from, from, use, block); });
    if (memory)
      x = addBranch(getLoc(cross), name + ".norm_cross", x,
                    [&](Value from) { return attend(cross, from, memory, {/*causal=*/false, Value()}, BlockSpec()); });
    x = addBranch(getLoc(name + ".ffn"), name + ".norm2", x,
                  [&](Value from) { return feedForward(index, block.isMoe, from); });
  }
  return x;
}

Value ModelBuilder::buildDecoder(Value encoded) {
  Value memory = dropOut(location, norm(getLoc("head"), "encoder_norm", encoded), model.dropout.embedding);
  AttentionUse use = {/*causal=*/true, buildRelativeBias("decoder", /*bidirectional=*/false)};
  beginRouters(model.decoder, decoderRouters);
  return buildBlocks(model.decoder, static_cast<int64_t>(model.blocks.size()),
                     embed(model.tiedHead ? kEmbedding : kDecoderEmbedding, decoderInputs), use, memory);
}

//===----------------------------------------------------------------------===//
// Head
//===----------------------------------------------------------------------===//

Value ModelBuilder::buildLogits(Value x) {
  Location loc = getLoc("head");
  if (model.headTransform) {
    x = linear(loc, "head_transform", "head_transform_bias", x, layer.hidden, /*column=*/0);
    x = builder.create<ActivationOp>(loc, rows(layer.hidden), x, /*counts=*/Value(), model.denseActivation);
  }
  if (model.headTransform || model.normPlace != NormPlace::sum)
    x = norm(loc, "norm", x);
  if (!model.decoder.empty())
    x = dropOut(loc, x, model.dropout.embedding);
  x = scale(loc, x, model.headScale);
  Value weights = embeddings.lookup(kEmbedding), bias;
  if (!model.tiedHead)
    weights = addParameter("head", {layer.hidden, model.vocabulary});
  if (model.headBias)
    bias = addParameter("head_bias", {model.vocabulary});
  return builder.create<LinearOp>(loc, rows(model.vocabulary), x, weights, bias,
                                  /*transpose_weights=*/model.tiedHead, /*column=*/1);
}

void ModelBuilder::beginRouters(ArrayRef<BlockSpec> blocks, RouterSums &sums) {
  routers = nullptr;
  const RouterLossSpec &spec = model.routerLoss;
  if (!options.loss || !spec.isAdded || !spec.isOverLayers || (spec.balance == 0 && spec.square == 0))
    return;
  if (spec.isBySequence && llvm::all_of(blocks, [](const BlockSpec &block) { return block.isMoe; }))
    return;
  routers = &sums;
  routerGroups = spec.isBySequence ? tokens / options.seq : 1;
}

Value ModelBuilder::buildRouterLoss() {
  const RouterLossSpec &spec = model.routerLoss;
  Location loc = getLoc("head");
  if (!spec.isOverLayers)
    return aux && spec.isAdded && spec.balance > 0
               ? builder.create<ScaleOp>(loc, aux, APFloat(spec.balance)).getResult()
               : Value();
  Value sum;
  for (const RouterSums *sums : {&encoderRouters, &decoderRouters}) {
    if (sums->layers == 0)
      continue;
    auto layers = static_cast<double>(sums->layers);
    Value loss = builder.create<RouterLossOp>(loc, accumulator({}), sums->loads, sums->shares, sums->squares,
                                              APFloat(spec.balance / (layers * layers)), APFloat(spec.square / layers));
    sum = sum ? builder.create<AddOp>(loc, sum, loss).getResult() : loss;
  }
  return sum;
}

/// Warns that experts drop no values: the row of a token in an expert, and so its draw, depends on the partitioning.
void ModelBuilder::warnOfExperts() {
  auto isMoe = [](const BlockSpec &block) { return block.isMoe; };
  if (options.loss && model.dropout.hidden > 0 &&
      (llvm::any_of(model.blocks, isMoe) || llvm::any_of(model.decoder, isMoe)))
    emitWarning(location) << "'dropout_rate': in training, dense blocks drop a share " << model.dropout.hidden
                          << " of their inner activations, but experts drop none; in transformers experts drop them, "
                             "too";
}

OwningOpRef<ModuleOp> ModelBuilder::build() {
  warnOfExperts();
  addInputs();
  beginRouters(model.blocks, encoderRouters);
  bool isOne = model.tiedHead || model.decoder.empty();
  Value x = embed(isOne ? kEmbedding : kEncoderEmbedding, inputs);
  bool causal = model.attention.causal && model.decoder.empty();
  x = buildBlocks(model.blocks, /*first=*/0, x, {causal, buildRelativeBias("encoder", /*bidirectional=*/true)});
  if (!model.decoder.empty())
    x = buildDecoder(x);
  Value logits = buildLogits(x);
  if (!options.loss && !aux)
    return finish({{"logits", "output", logits}});
  if (!options.loss)
    return finish({{"logits", "output", logits}, {"aux", "output", aux}});
  Location loc = getLoc("head");
  Value entropy = builder.create<CrossEntropyOp>(loc, logits, labels);
  Value loss = entropy;
  if (Value routerLoss = buildRouterLoss())
    loss = builder.create<AddOp>(loc, entropy, routerLoss);
  return finish({{"loss", "loss", loss}, {"cross_entropy", "metric", entropy}});
}

OwningOpRef<ModuleOp> mlir::moe::buildWholeModel(MLIRContext &context, const ModelConfig &config,
                                                 const LayerSpec &layer, const ImportOptions &options, int64_t tokens) {
  return ModelBuilder(context, config, layer, options, tokens).build();
}
