//===- ModelConfig.h - what a Hugging Face config says of its model -------===//
//
// A config.json becomes the description of one MoE layer, in the terms of `moe.layer`, and of the model around it:
// embedding, attention, norms, dense feed-forward blocks, head. No IR is involved.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_IMPORT_MODELCONFIG_H
#define MOE_IMPORT_MODELCONFIG_H

#include "moe/Dialect/Moe/IR/MoeAttrs.h"
#include "moe/Support/JsonReader.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mlir::moe {

/// One MoE layer. Each field means the same as the operand or attribute of `moe.layer` with its name.
struct LayerSpec {
  int64_t hidden = 0;       ///< M
  int64_t expertHidden = 0; ///< H, inner columns of one expert
  int64_t experts = 0;      ///< E
  int64_t topK = 0;
  Activation activation = Activation::swiglu;
  double activationAlpha = 1.702, activationLimit = 7.0; ///< constants of swiglu_clamped
  Score score = Score::softmax;
  bool renormalize = false;
  bool weighInputs = false;
  double routingScale = 1.0;
  int64_t expertGroups = 1;
  int64_t topGroups = 1;
  GroupScore groupScore = GroupScore::max;
  bool gateBias = false;
  bool selectionBias = false;
  bool expertBiases = false;
  int64_t sharedHidden = 0; ///< inner columns of the shared expert; 0: no shared expert
  bool sharedGate = false;
  std::optional<double> capacityFactor = std::nullopt;  ///< dropless if this and expertCapacity are absent
  std::optional<int64_t> expertCapacity = std::nullopt; ///< most choices of a routing group that an expert takes
  bool sequenceGroups = false; ///< each sequence is a routing group of its own; false: a rank's tokens are one group
};

/// Rotary positions. Each field means the same as the attribute of `moe.rotary` with its name.
struct RotarySpec {
  double base = 1e4;
  /// YaRN: low < high are numbers of pairs. With `reach`, Llama 3's scaling: low is its high_freq_factor, high its
  /// low_freq_factor, reach its original_max_position_embeddings. Linear scaling: factor with low -1 and high 0.
  double factor = 1, low = 0, high = 1, scale = 1, reach = 0;
  int64_t dim = 0;          ///< first columns of a head that rotate; 0: all
  bool interleaved = false; ///< pairs are neighbours; LatentSpec has the same for latent attention

  bool operator==(const RotarySpec &) const = default;
};

/// Values that one norm of queries and keys covers; `plain` covers a head and has no weights (Llama 4).
enum class HeadNorm { none, head, projection, plain };

/// Multi-head latent attention (DeepSeek-V2): short vectors of a token make all keys and values, and may make queries.
struct LatentSpec {
  int64_t queryRank = 0; ///< size of the vector that makes the queries; 0: the token itself makes them
  int64_t rank = 0;      ///< size of the vector that makes keys and values
  /// Columns of a head's queries and keys without and with rotary positions. All heads share the latter of the keys.
  int64_t plainDim = 0, rotaryDim = 0;
  int64_t valueDim = 0;
  bool interleaved = true; ///< pairs of rotary positions are neighbours
  double eps = 1e-6; ///< epsilon of the short vectors' norms, which the published code does not take from the config

  bool operator==(const LatentSpec &) const = default;
};

/// Factors of attention's results: an activation of a linear function of the block's inputs.
struct GateSpec {
  bool ofHeads = true; ///< a factor for each head; false: one for each column
  Activation activation = Activation::sigmoid;

  bool operator==(const GateSpec &) const = default;
};

struct AttentionSpec {
  int64_t heads = 0, keyHeads = 0, headDim = 0;
  int64_t valueDim = 0;  ///< columns of a head's values without `latent`; 0: headDim
  double valueScale = 1; ///< factor of the values
  bool causal = true;
  bool inputBiases = false; ///< biases of q, k and v; in latent attention, of the projections to the short vectors
  bool outputBias = false;
  HeadNorm headNorm = HeadNorm::none;
  double clip = 0;              ///< bound of queries, keys and values, before positions; 0: none
  bool clipAfterNorm = false;   ///< the bound applies after the norms of queries and keys, not before
  bool normAfterRotary = false; ///< the norms of queries and keys follow the rotary positions
  /// Multiplies queries at position p, without rotary positions, by 1 + temperature ln(1 + floor((p + 1) / span)).
  double temperature = 0, temperatureSpan = 1;
  std::optional<RotarySpec> rotary = RotarySpec();
  std::optional<LatentSpec> latent = std::nullopt;
  bool sinks = false;
  std::optional<GateSpec> gate = std::nullopt;
  double scale = 0;            ///< factor of the products of queries and keys; 0: 1 / sqrt(headDim)
  int64_t relativeBuckets = 0; ///< rows of T5's tables of relative positions; 0: none
  int64_t maxDistance = 0;     ///< largest relative position with an entry of its own

  bool operator==(const AttentionSpec &) const = default;
};

/// One decoder or encoder block.
struct BlockSpec {
  bool isMoe = true;
  int64_t window = 0; ///< window of its attention; 0: none
  int64_t chunk = 0;  ///< length of the pieces of a sequence that attention stays inside (Llama 4); 0: whole sequences
  bool rotary = true; ///< false: the block lacks the model's rotary positions
  bool headNorm = true;  ///< false: the block lacks the model's norms of queries and keys
  double scoreScale = 1; ///< further factor of the products of queries and keys
  int64_t attention = 0; ///< 0: the model's attention; i > 0: number i - 1 of its otherAttentions

  bool operator==(const BlockSpec &) const = default;
};

/// Probabilities of dropping values in training.
struct DropoutSpec {
  double embedding = 0; ///< rate for the sum of embeddings
  double attention = 0; ///< rate for attention's weights
  double residual = 0;  ///< rate for the outputs of attention and feed-forward blocks
  double hidden = 0;    ///< rate for the inner columns of dense feed-forward blocks, after the activation
  double jitter = 0;    ///< training multiplies the inputs of an MoE layer by numbers from 1 - jitter to 1 + jitter
};

/// The loss that training adds for the routers.
struct RouterLossSpec {
  bool isAdded = false; ///< false: training has the cross entropy alone
  double balance = 0;   ///< coefficient of the load-balancing loss
  double square = 0;    ///< coefficient of the z-loss, if isOverLayers
  /// True: transformers' loss, which takes the tokens of all layers as one batch; false: the sum of moe.layer's losses.
  bool isOverLayers = true;
  /// Averages the losses of sequences, if isOverLayers, for encoder and decoder each. A half whose blocks are all MoE
  /// has no loss (Switch in transformers).
  bool isBySequence = false;
};

/// Places of the norms of a block's two branches.
enum class NormPlace {
  input,  ///< before the branch
  output, ///< behind the branch, before the sum (OLMo 2)
  both,   ///< before and behind the branch (AFMoE)
  sum     ///< behind the sum; then there is no final norm (BERT)
};

struct ModelSpec {
  int64_t vocabulary = 0;
  int64_t padding = -1;         ///< id whose row of the embedding gets no gradient from the embedding; -1: none
  int64_t learnedPositions = 0; ///< rows of the table of positions; 0: none
  int64_t tokenTypes = 0;       ///< rows of the table of token types, whose first row all tokens use; 0: none
  Norm norm = Norm::rms;
  bool normBias = true; ///< layer norms have a beta
  double eps = 1e-6;
  double embeddingScale = 1; ///< factor of the tokens' embeddings (Granite)
  double residualScale = 1;  ///< factor of the branches' outputs (Granite)
  bool embeddingNorm = false;
  NormPlace normPlace = NormPlace::input;
  bool zeroCentredNorms = false; ///< weights of RMS norms are differences from 1
  bool headTransform = false;    ///< a dense layer, the dense activation and a norm before the head (BERT)
  bool headBias = false;
  bool tiedHead = false; ///< the head is the transposed embedding
  AttentionSpec attention = {};
  llvm::SmallVector<AttentionSpec, 0> otherAttentions = {}; ///< those of blocks that differ from it
  int64_t denseHidden = 0;                                  ///< inner columns of a feed-forward block that is not MoE
  Activation denseActivation = Activation::swiglu;
  bool denseBiases = false;
  llvm::SmallVector<BlockSpec> blocks = {};
  /// Decoder blocks of an encoder-decoder model, whose encoder is `blocks`. They also attend to the encoder's result.
  llvm::SmallVector<BlockSpec> decoder = {};
  double headScale = 1; ///< factor of the head's inputs
  DropoutSpec dropout = {};
  RouterLossSpec routerLoss = {};

  const AttentionSpec &getAttention(const BlockSpec &block) const {
    return block.attention == 0 ? attention : otherAttentions[block.attention - 1];
  }
};

struct Family;

using ConfigPlace = JsonReader::Place;

/// A warning for the user of a configuration, and its place in the file.
struct ConfigRemark {
  std::string text;
  ConfigPlace place;
};

struct ModelConfig {
  std::string architecture;
  const Family *family = nullptr; ///< the entry of lib/Import's table
  std::string fileName;
  /// Places of the number of experts, and of the sizes of other parts of a whole model: the locations of the imported
  /// layers, of attention, of embedding and head, and of feed-forward blocks that are not MoE.
  ConfigPlace layerPlace = {}, attentionPlace = {}, vocabularyPlace = {}, densePlace = {};
  LayerSpec layer;
  std::optional<ModelSpec> model = std::nullopt; ///< the whole model, if one was asked for
  /// Warning of the file's keys that are neither understood nor known to be harmless.
  std::optional<ConfigRemark> otherKeys = std::nullopt;
};

/// Reads a Hugging Face config.json, for the whole model if `whole`. An error is a complete diagnostic,
/// `file:line:column: error: 'key': expected ..`.
llvm::Expected<ModelConfig> parseModelConfig(llvm::StringRef text, llvm::StringRef fileName, bool whole = false);

/// Names under `architectures` that parseModelConfig knows.
llvm::SmallVector<llvm::StringRef> getKnownArchitectures();

/// Names under `model_type` that it knows.
llvm::SmallVector<llvm::StringRef> getKnownModelTypes();

} // namespace mlir::moe

#endif // MOE_IMPORT_MODELCONFIG_H
