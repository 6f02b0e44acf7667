//===- ModelSpec.h - what a Hugging Face config says of a whole model -----===//
//
// What stands around the MoE layers of a model: embedding, attention, norms, dense feed-forward blocks, head. No IR is
// involved.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_IMPORT_MODELSPEC_H
#define MOE_IMPORT_MODELSPEC_H

#include "moe/Dialect/Moe/IR/MoeAttrs.h"

#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace mlir::moe {

/// Rotary positions. Each field means what the attribute of `moe.rotary` of that name means.
struct RotarySpec {
  double base = 1e4;
  /// YaRN: low < high are numbers of pairs. With `reach` Llama 3's: low is its high_freq_factor, high its
  /// low_freq_factor, reach its original_max_position_embeddings. Linear scaling: factor with low -1 and high 0.
  double factor = 1, low = 0, high = 1, scale = 1, reach = 0;
  int64_t dim = 0;          ///< first columns of a head that rotate; 0: all
  bool interleaved = false; ///< pairs are neighbours; of latent attention LatentSpec says it
};

/// What the norms of queries and keys are over; `plain` is over a head and has no weights (Llama 4).
enum class HeadNorm { none, head, projection, plain };

/// Multi-head latent attention (DeepSeek-V2): keys and values of all heads are made of one short vector of a token, and
/// queries may be.
struct LatentSpec {
  int64_t queryRank = 0; ///< size of the vector that queries are made of; 0: they are made of the token itself
  int64_t rank = 0;      ///< of the one that keys and values are made of
  /// Columns of a head's queries and keys without and with rotary positions; the latter are one for all heads' keys.
  int64_t plainDim = 0, rotaryDim = 0;
  int64_t valueDim = 0;
  bool interleaved = true; ///< pairs of rotary positions are neighbours
  double eps = 1e-6;       ///< of the short vectors' norms, which the published code does not take from the config
};

struct AttentionSpec {
  int64_t heads = 0, keyHeads = 0, headDim = 0;
  bool causal = true;
  bool inputBiases = false; ///< of q, k and v; in latent attention of what makes the short vectors
  bool outputBias = false;
  HeadNorm headNorm = HeadNorm::none;
  double clip = 0;              ///< queries, keys and values are held within +-clip, before positions; 0: they are not
  bool clipAfterNorm = false;   ///< and behind the norms of queries and keys, not before them
  bool normAfterRotary = false; ///< the norms of queries and keys stand behind rotary positions
  /// In blocks without rotary positions the query at position p is multiplied by
  /// 1 + temperature ln(1 + floor((p + 1) / temperatureSpan)) (Llama 4); 0: it is not.
  double temperature = 0, temperatureSpan = 1;
  std::optional<RotarySpec> rotary = std::nullopt;
  std::optional<LatentSpec> latent = std::nullopt;
  bool sinks = false;
  double scale = 0;            ///< of products of queries and keys; 0: 1 / sqrt(headDim)
  int64_t relativeBuckets = 0; ///< rows of T5's tables of relative positions; 0: there are none
  int64_t maxDistance = 0;     ///< of relative positions
};

/// One decoder or encoder block.
struct BlockSpec {
  bool isMoe = true;
  int64_t window = 0; ///< of its attention; 0: none
  int64_t chunk = 0;  ///< attention stays inside pieces of a sequence of that many tokens (Llama 4); 0: whole sequences
  bool rotary = true; ///< false: no rotary positions, although the model has them
  bool headNorm = true;  ///< false: no norms of queries and keys, although the model has them
  double scoreScale = 1; ///< what the products of queries and keys are multiplied with, besides the attention's scale

  bool operator==(const BlockSpec &) const = default;
};

/// Probabilities with which training leaves something out.
struct DropoutSpec {
  double embedding = 0; ///< of the sum of embeddings
  double attention = 0; ///< of attention's weights
  double residual = 0;  ///< of what attention and feed-forward blocks add
  double hidden = 0;    ///< of the inner columns of feed-forward blocks, behind the activation; not of experts
  double jitter = 0;    ///< training multiplies what enters an MoE layer by numbers from 1 - jitter to 1 + jitter
};

/// The loss that training adds for the routers.
struct RouterLossSpec {
  bool isAdded = false; ///< else training has the cross entropy alone
  double balance = 0;   ///< coefficient of the load-balancing loss
  double square = 0;    ///< coefficient of the z-loss, where isOverLayers
  /// transformers' loss, which takes the tokens of all layers as one batch; else the sum of moe.layer's losses.
  bool isOverLayers = false;
  /// Where isOverLayers: the mean of the losses of the sequences, of encoder and decoder each, and none of one whose
  /// blocks are all MoE (Switch in transformers).
  bool isBySequence = false;
};

struct ModelSpec {
  int64_t vocabulary = 0;
  int64_t padding = -1;         ///< the id whose row of the embedding is not trained by the embedding; -1: none
  int64_t learnedPositions = 0; ///< rows of their table; 0: there is none
  int64_t tokenTypes = 0;       ///< rows of the table of token types, of which every token has the first; 0: none
  Norm norm = Norm::rms;
  bool normBias = true; ///< layer norms have a beta
  double eps = 0;
  double embeddingScale = 1; ///< of the tokens' embeddings (Granite)
  double residualScale = 1;  ///< of what each branch adds (Granite)
  bool embeddingNorm = false;
  bool postNorm = false;      ///< norms stand after the residual sums, not on the branches; then there is no final one
  bool headTransform = false; ///< a dense layer, the dense activation and a norm before the head (BERT)
  bool headBias = false;
  bool tiedHead = false; ///< the head is the transposed embedding
  AttentionSpec attention = {};
  int64_t denseHidden = 0; ///< inner columns of a feed-forward block that is not MoE
  Activation denseActivation = Activation::swiglu;
  bool denseBiases = false;
  llvm::SmallVector<BlockSpec> blocks = {};
  /// Of an encoder-decoder model, whose encoder is `blocks`: with attention to the encoder's result too.
  llvm::SmallVector<BlockSpec> decoder = {};
  double headScale = 1; ///< of what the head is multiplied with
  DropoutSpec dropout = {};
  RouterLossSpec routerLoss = {};
};

} // namespace mlir::moe

#endif // MOE_IMPORT_MODELSPEC_H
