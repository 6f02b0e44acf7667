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
  double factor = 1, low = 0, high = 1, scale = 1;
};

/// What the norms of queries and keys are over.
enum class HeadNorm { none, head, projection };

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
  std::optional<RotarySpec> rotary;
  std::optional<LatentSpec> latent;
  bool sinks = false;
  double scale = 0;            ///< of products of queries and keys; 0: 1 / sqrt(headDim)
  int64_t relativeBuckets = 0; ///< rows of T5's tables of relative positions; 0: there are none
  int64_t maxDistance = 0;     ///< of relative positions
};

/// One decoder or encoder block.
struct BlockSpec {
  bool isMoe = true;
  int64_t window = 0; ///< of its attention; 0: none
};

/// Probabilities with which training leaves something out.
struct DropoutSpec {
  double embedding = 0; ///< of the sum of embeddings
  double attention = 0; ///< of attention's weights
  double residual = 0;  ///< of what attention and feed-forward blocks add
};

struct ModelSpec {
  int64_t vocabulary = 0;
  int64_t learnedPositions = 0; ///< rows of their table; 0: there is none
  int64_t tokenTypes = 0;       ///< rows of the table of token types, of which every token has the first; 0: none
  Norm norm = Norm::rms;        ///< layer norms have a beta
  double eps = 0;
  bool embeddingNorm = false;
  bool postNorm = false;      ///< norms stand after the residual sums, not on the branches; then there is no final one
  bool headTransform = false; ///< a dense layer, the dense activation and a norm before the head (BERT)
  bool headBias = false;
  bool tiedHead = false; ///< the head is the transposed embedding
  AttentionSpec attention;
  int64_t denseHidden = 0; ///< inner columns of a feed-forward block that is not MoE
  Activation denseActivation = Activation::swiglu;
  bool denseBiases = false;
  llvm::SmallVector<BlockSpec> blocks;
  /// Of an encoder-decoder model, whose encoder is `blocks`: with attention to the encoder's result too.
  llvm::SmallVector<BlockSpec> decoder;
  double headScale = 1; ///< of what the head is multiplied with
  DropoutSpec dropout;
  double auxCoefficient = 0; ///< of the layers' auxiliary losses in the loss
};

} // namespace mlir::moe

#endif // MOE_IMPORT_MODELSPEC_H
