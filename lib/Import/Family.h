//===- Family.h - what differs between families of models -------*- C++ -*-===//
//
// A family is one entry of a table: what its published code does where the configuration does not say and transformers'
// class has no default (`layer` and `model`; the defaults are in ClassDefaults.inc), the keys under which the
// configuration says it, and the names of its checkpoints' tensors. ReadLayer.cpp and ReadModel.cpp read the keys; only
// what no key can describe is a function of the entry.
//
// To add a family, add an entry to Families*.cpp, its model type to test/oracle/class_defaults.py and run that, its
// names to CheckpointNames.h if it has names of its own, a tiny configuration to test/Integration/models, and its
// definition to test/oracle/models.py.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_IMPORT_FAMILY_H
#define MOE_LIB_IMPORT_FAMILY_H

#include "Checkpoint.h"

#include "moe/Import/ModelConfig.h"
#include "moe/Support/JsonReader.h"

#include <utility>

namespace mlir::moe {

// Bounds that keep every product of sizes inside 64 bits.
inline constexpr int64_t kMaxSize = 1 << 20;
inline constexpr int64_t kMaxExperts = 1 << 16;
inline constexpr int64_t kMaxVocabulary = 1 << 24;
inline constexpr int64_t kMaxBlocks = 10000;

/// A name of an activation in configurations.
using ActivationName = std::pair<llvm::StringRef, Activation>;
inline constexpr ActivationName kGatedActivations[] = {{"silu", Activation::swiglu}, {"swish", Activation::swiglu}};
inline constexpr ActivationName kPlainActivations[] = {{"gelu", Activation::gelu},
                                                       {"gelu_new", Activation::gelu_tanh},
                                                       {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                       {"relu", Activation::relu},
                                                       {"silu", Activation::silu}};

/// Keys that may have one value only, since what another one would mean is not there, or since transformers ignores the
/// key although the models' own code does not. A missing key has that value.
struct FixedKeys {
  llvm::SmallVector<llvm::StringRef> mustBeFalse = {}, mustBeOne = {};
  llvm::SmallVector<std::pair<llvm::StringRef, llvm::StringRef>> mustBe = {}; ///< a key and its string
  llvm::SmallVector<llvm::StringRef> ignored = {};                            ///< may have any value
};

/// Only the best of the groups of experts are chosen from. Defaults are those of the family's LayerSpec, and 0 means
/// that the keys are needed.
struct GroupKeys {
  llvm::StringRef groups = "n_group", topGroups = "topk_group";
  GroupScore score = GroupScore::max; ///< where there is more than one group
  int64_t minSize = 1;                ///< of a group
  /// There are groups only where this key has this value; empty: always.
  llvm::StringRef onlyKey = {}, onlyValue = {}, otherValue = {};
};

/// Where a configuration says what an MoE layer is. An empty name: it never says, and the family's LayerSpec holds.
/// That holds for a missing key too; a size of 0 there means that the key is needed.
struct LayerKeys {
  llvm::StringRef hidden = "hidden_size", expertHidden = "moe_intermediate_size";
  llvm::StringRef object = {}; ///< the object that has all keys but the hidden size; empty: that of the hidden size
  int64_t expansion = 0;       ///< the default of expertHidden in multiples of the hidden size; 0: there is none
  llvm::StringRef experts = "num_experts"; ///< empty: the models have no experts
  llvm::StringRef topK = "num_experts_per_tok";
  llvm::StringRef activation = "hidden_act";
  llvm::ArrayRef<ActivationName> activations = kGatedActivations;
  llvm::StringRef renormalize = {};
  bool renormalizesOne = true; ///< whether the weight of one choice alone is renormalised
  llvm::StringRef scale = {};
  std::optional<GroupKeys> groups = {};
  /// The shared expert's inner columns, or how many experts' it has.
  llvm::StringRef sharedHidden = {}, sharedCount = {};
  llvm::StringRef gateBias = {};
  llvm::StringRef capacityFactor = {};
  FixedKeys fixed = {};
  void (*readMore)(JsonReader &, LayerSpec &) = nullptr; ///< after all these
};

/// Which columns have rotary positions.
struct RotaryKeys {
  /// Whether `partial_rotary_factor` says of how many of a head's columns, and what holds without it. Otherwise all
  /// have.
  bool isPartial = false;
  double share = 1;
  llvm::StringRef columns = {}; ///< a key that gives their number, before `partial_rotary_factor`
  bool hasAlpha = false;        ///< "dynamic" scaling with `alpha` is a larger base (Hunyuan)
};

/// Which blocks are MoE: block i where (i + offset) % step == 0, first <= i, and no list says otherwise.
struct SparseKeys {
  llvm::StringRef step = {};
  int64_t defaultStep = 1, offset = 1;
  llvm::StringRef first = {};
  int64_t defaultFirst = 0;
  llvm::StringRef denseList = {};
};

/// Which blocks' attention has a window.
struct WindowKeys {
  llvm::StringRef size = {};
  bool isNeeded = false;      ///< otherwise a missing size means that there is no window
  int64_t every = 1;          ///< every so many-th block, from the first on
  llvm::StringRef types = {}; ///< a list that says it of each block
};

/// What training adds for the routers. Without `added` it is the family's to say whether it does.
struct RouterLossKeys {
  llvm::StringRef balance = {}, square = {}, added = {};
};
inline RouterLossKeys getRouterLossKeys() {
  return {.balance = "router_aux_loss_coef", .added = "output_router_logits"};
}
/// As transformers adds it, if it does.
inline RouterLossSpec getRouterLoss(double balance) { return {.balance = balance, .isOverLayers = true}; }

/// Where a configuration says what a whole model is. An empty name or a missing key means what the family's ModelSpec
/// says; a size of 0 there means that the key is needed.
struct ModelKeys {
  llvm::StringRef blocks = "num_hidden_layers"; ///< empty: readMore reads the blocks
  llvm::StringRef vocabulary = "vocab_size";
  llvm::StringRef padding = "pad_token_id"; ///< where the family's embedding does not train that row; null: none
  llvm::StringRef eps = "rms_norm_eps";
  llvm::StringRef tiedHead = "tie_word_embeddings";
  llvm::StringRef heads = "num_attention_heads";
  llvm::StringRef keyHeads = "num_key_value_heads"; ///< missing: as many as heads
  llvm::StringRef headDim = "head_dim";             ///< missing: the heads share the hidden columns
  llvm::StringRef inputBiases = {}, outputBias = {};
  llvm::StringRef learnedPositions = {}, tokenTypes = {};
  llvm::StringRef relativeBuckets = {}, maxDistance = {};
  llvm::StringRef embeddingDropout = {}, attentionDropout = "attention_dropout", residualDropout = {};
  llvm::StringRef hiddenDropout = {}, jitter = {};
  RouterLossKeys routerLoss = {};
  RotaryKeys rotary = {};
  WindowKeys window = {};
  SparseKeys sparse = {};
  /// Inner columns of dense blocks, needed where there are any; empty: dense blocks are as large as experts, and have
  /// their activation.
  llvm::StringRef denseHidden = "intermediate_size";
  FixedKeys fixed = {};
  void (*readMore)(JsonReader &, const LayerSpec &, ModelSpec &) = nullptr; ///< after all these
};

struct Family {
  llvm::SmallVector<llvm::StringRef, 2> architectures;
  llvm::SmallVector<llvm::StringRef, 2> modelTypes;
  LayerSpec layer = {};
  LayerKeys layerKeys = {};
  ModelSpec model = {};
  ModelKeys modelKeys = {};
  CheckpointNames checkpoint = {};
  /// The object inside which all keys are, in models that have more than text; without it they are at the top.
  llvm::StringRef nested = {};
  /// What MoePlan lacks for whole models, or also for their MoE layers; empty: nothing.
  llvm::StringRef missing = {}, missingInLayers = {};
};

/// All families, in the order in which errors list them.
llvm::ArrayRef<Family> getFamilies();

// The parts of that table.
llvm::SmallVector<Family, 0> getLlamaFamilies();
llvm::SmallVector<Family, 0> getDeepseekFamilies();
llvm::SmallVector<Family, 0> getOtherFamilies();
llvm::SmallVector<Family, 0> getRecentFamilies();
llvm::SmallVector<Family, 0> getDenseFamilies();

/// The MoE layer of the family's model. Errors are kept in the reader.
LayerSpec readLayer(JsonReader &reader, const Family &family);

/// The whole model, whose MoE layer is `layer`. Errors are kept in the reader.
ModelSpec readModel(JsonReader &reader, const Family &family, const LayerSpec &layer);

/// Rotary positions of heads of `dim` columns, which `dimKey` gives; `rotary` has the defaults.
void readRotary(JsonReader &reader, const RotaryKeys &keys, llvm::StringRef dimKey, int64_t dim, RotarySpec &rotary);
/// What products of queries and keys are multiplied with in latent attention, whose rotary positions have been read.
double readLatentScale(JsonReader &reader, const AttentionSpec &attention);

/// Reports keys whose value is not the one that they must have.
void checkFixedKeys(JsonReader &reader, const FixedKeys &keys);

/// The number at `key`, or `value` where it is missing; 0 means that it must be there. An empty key is never there.
void readSize(JsonReader &reader, llvm::StringRef key, int64_t max, int64_t &value);
void readFlag(JsonReader &reader, llvm::StringRef key, bool &value);
void readNumber(JsonReader &reader, llvm::StringRef key, const NumberRange &range, double &value);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_FAMILY_H
