//===- Family.h - what differs between families of models -------*- C++ -*-===//
//
// A family is one entry of a table. It has the behaviour of its published code that neither the configuration nor a
// default of transformers' class gives (`layer` and `model`; the defaults are in ClassDefaults.inc). It also has the
// keys of its configuration, and the names of its checkpoints' tensors. ReadLayer.cpp and ReadModel.cpp read the keys.
// A function of the entry covers only the rest.
//
// To add a family, add an entry to Families*.cpp, its model type to test/oracle/class_defaults.py and run that, its
// names to CheckpointNames.h if it has names of its own, a tiny configuration to test/Integration/models, and its
// definition to test/oracle/models.py.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_IMPORT_FAMILY_H
#define MOE_LIB_IMPORT_FAMILY_H

#include "moe/Import/ModelConfig.h"
#include "moe/Support/JsonReader.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include <utility>

namespace mlir::moe {

// Bounds that keep every product of sizes inside 64 bits.
inline constexpr int64_t kMaxSize = 1 << 20;
inline constexpr int64_t kMaxExperts = 1 << 16;
inline constexpr int64_t kMaxVocabulary = 1 << 24;
inline constexpr int64_t kMaxBlocks = 10000;

// Other values are mistakes, such as an exponent without its sign.
inline constexpr NumberRange kNormEps{0, 0.1, false, "a number greater than 0 and at most 0.1"};
inline constexpr NumberRange kRotaryBase{1, 1e12, true, "a number from 1 to 1e12"};

/// A name of an activation in configurations.
using ActivationName = std::pair<llvm::StringRef, Activation>;
inline constexpr ActivationName kGatedActivations[] = {{"silu", Activation::swiglu}, {"swish", Activation::swiglu}};
inline constexpr ActivationName kPlainActivations[] = {{"gelu", Activation::gelu},
                                                       {"gelu_new", Activation::gelu_tanh},
                                                       {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                       {"relu", Activation::relu},
                                                       {"silu", Activation::silu}};

/// Keys that may have one value only. MoePlan lacks the meaning of another value, or transformers ignores the key
/// although the models' own code does not. A missing key has that value.
struct FixedKeys {
  llvm::SmallVector<llvm::StringRef> mustBeFalse = {}, mustBeOne = {};
  llvm::SmallVector<std::pair<llvm::StringRef, llvm::StringRef>> mustBe = {}; ///< a key and its string
  llvm::SmallVector<llvm::StringRef> ignored = {};                            ///< may have any value
  /// A key that transformers ignores, and the JSON of the value that it computes with. With another value the key is
  /// named as one that has no effect.
  llvm::SmallVector<std::pair<llvm::StringRef, llvm::StringRef>> ignoredAs = {};
};

/// Keys of the groups of experts, of which only the best are chosen from.
struct GroupKeys {
  llvm::StringRef groups = "n_group", topGroups = "topk_group";
  GroupScore score = GroupScore::max; ///< if there is more than one group
  int64_t minSize = 1;                ///< number of experts of a group
  bool fitsFewExperts = false;        ///< without the key, few experts are one group and not the family's number
  /// Restricts groups to configurations whose key has this value; empty: no restriction.
  llvm::StringRef onlyKey = {}, onlyValue = {}, otherValue = {};
};

/// Keys that describe an MoE layer. An empty name means that the configuration never has the key. The family's
/// LayerSpec gives the value of a missing key; a size of 0 there means that the key is needed.
struct LayerKeys {
  llvm::StringRef hidden = "hidden_size", expertHidden = "moe_intermediate_size";
  llvm::StringRef object = {};             ///< object of all keys but the hidden size; empty: the same object
  int64_t expansion = 0;                   ///< default of expertHidden in multiples of the hidden size; 0: none
  llvm::StringRef experts = "num_experts"; ///< empty: the models have no experts
  llvm::StringRef topK = "num_experts_per_tok";
  llvm::StringRef activation = "hidden_act";
  llvm::ArrayRef<ActivationName> activations = kGatedActivations;
  llvm::StringRef renormalize = {};
  llvm::StringRef scale = {};
  std::optional<GroupKeys> groups = {};
  /// Inner columns of the shared expert, or their number in multiples of an expert's.
  llvm::StringRef sharedHidden = {}, sharedCount = {};
  llvm::StringRef gateBias = {};
  llvm::StringRef capacityFactor = {};
  FixedKeys fixed = {};
  void (*readMore)(JsonReader &, LayerSpec &) = nullptr; ///< reads the rest
};

/// Keys of the columns that have rotary positions.
struct RotaryKeys {
  bool isPartial = false;       ///< `partial_rotary_factor` gives the part of a head's columns
  double part = 1;              ///< without that key
  llvm::StringRef columns = {}; ///< key of their number, which precedes `partial_rotary_factor`
  bool hasAlpha = false;        ///< "dynamic" scaling with `alpha` enlarges the base (Hunyuan)
  llvm::StringRef base = "rope_theta";
  /// Type of the blocks, for configurations whose `rope_parameters` has an object for each type of block.
  llvm::StringRef type = {};
};

/// Keys of the MoE blocks: block i is MoE if (i + 1) % step == 0, first <= i, and no list excludes it. `types` is a
/// list of "dense" and "sparse" instead; without it the first block alone is dense.
struct SparseKeys {
  llvm::StringRef step = {}, first = {}, denseList = {}, types = {};
};

/// Keys of the blocks whose attention has a window.
struct WindowKeys {
  llvm::StringRef size = {};
  bool isNeeded = false;      ///< false: a missing size means no window
  int64_t every = 1;          ///< step between blocks with the window, from the first on
  llvm::StringRef types = {}; ///< list with the type of each block
  /// Key of a number of further blocks, which are no part of the model. The list may have their types, too.
  llvm::StringRef further = {};
};

/// Keys of the loss that training adds for the routers. Without `added` the family decides.
struct RouterLossKeys {
  llvm::StringRef balance = {}, square = {}, added = {};
};
inline RouterLossKeys getRouterLossKeys() {
  return {.balance = "router_aux_loss_coef", .added = "output_router_logits"};
}

/// Keys that describe a whole model. The family's ModelSpec gives the value of an empty name or a missing key; a size
/// of 0 there means that the key is needed.
struct ModelKeys {
  llvm::StringRef blocks = "num_hidden_layers"; ///< empty: readMore reads the blocks
  llvm::StringRef vocabulary = "vocab_size";
  llvm::StringRef padding = "pad_token_id"; ///< key of the row that the family's embedding does not train; null: none
  llvm::StringRef eps = "rms_norm_eps";
  llvm::StringRef tiedHead = "tie_word_embeddings";
  llvm::StringRef heads = "num_attention_heads";
  llvm::StringRef keyHeads = "num_key_value_heads"; ///< missing: as many as heads
  llvm::StringRef headDim = "head_dim";             ///< missing: the heads share the hidden columns
  llvm::StringRef biases = {}, inputBiases = {};    ///< keys of all biases of attention, or of q, k and v
  llvm::StringRef learnedPositions = {}, tokenTypes = {};
  llvm::StringRef relativeBuckets = {}, maxDistance = {};
  llvm::StringRef embeddingDropout = {}, attentionDropout = "attention_dropout", residualDropout = {};
  llvm::StringRef hiddenDropout = {}, jitter = {};
  RouterLossKeys routerLoss = {};
  RotaryKeys rotary = {};
  WindowKeys window = {};
  SparseKeys sparse = {};
  /// Inner columns of dense blocks, if there are any. Empty: dense blocks have the size and activation of experts.
  llvm::StringRef denseHidden = "intermediate_size";
  FixedKeys fixed = {};
  void (*readMore)(JsonReader &, const LayerSpec &, ModelSpec &) = nullptr; ///< reads the rest
};

/// Sources of a parameter.
struct Rule {
  llvm::StringRef parameter;
  llvm::StringRef tensor;
  llvm::StringRef second = {}; ///< tensor whose columns alternate with the first's
  bool transpose = false;
  /// Index of the part of the tensor's columns, and the number of equal parts.
  int64_t part = 0, parts = 1;
  /// Numbers of the tensor's columns before and after the parameter's; null: none.
  int64_t (*before)(const AttentionSpec &) = nullptr, (*after)(const AttentionSpec &) = nullptr;
  bool ofHeads = false; ///< the columns before and after belong to each head
  /// Dimensions of the tensor of all experts: 3 for [E, rows, columns], 2 for [E rows, columns]; 0: one for each
  /// expert.
  int64_t stacked = 0;
  bool halves = false; ///< columns of the tensor's two halves alternate
  bool isRow = false;  ///< the tensor has a dimension of 1 before the others
};

/// The names of a family's tensors.
struct CheckpointNames {
  llvm::StringRef block = {}; ///< prefix of the names of a block's tensors
  /// Rules in search order. The names of blocks' parameters lack "layer{i}.".
  llvm::SmallVector<llvm::ArrayRef<Rule>, 2> ofBlock = {};
  llvm::ArrayRef<Rule> ofModel = {};
  llvm::StringRef decoderBlock = {};
  llvm::SmallVector<llvm::ArrayRef<Rule>, 2> ofDecoderBlock = {};
  /// Prefix of the names, except for those of the head's tensors, unless the checkpoint lacks the head.
  llvm::StringRef prefix = {};
};

struct Family {
  llvm::SmallVector<llvm::StringRef, 2> architectures;
  llvm::SmallVector<llvm::StringRef, 2> modelTypes;
  LayerSpec layer = {};
  LayerKeys layerKeys = {};
  ModelSpec model = {};
  ModelKeys modelKeys = {};
  CheckpointNames checkpoint = {};
  /// Object of all keys in multimodal models. If it is missing, they are at the top.
  llvm::StringRef nested = {};
  /// Feature that MoePlan lacks for whole models, or also for their MoE layers; empty: none.
  llvm::StringRef missing = {}, missingInLayers = {};
};

/// All families, in the order in which errors list them.
llvm::ArrayRef<Family> getFamilies();

// Parts of that table.
llvm::SmallVector<Family, 0> getLlamaFamilies();
llvm::SmallVector<Family, 0> getDeepseekFamilies();
llvm::SmallVector<Family, 0> getOtherFamilies();
llvm::SmallVector<Family, 0> getRecentFamilies();
llvm::SmallVector<Family, 0> getMixedFamilies();
llvm::SmallVector<Family, 0> getDenseFamilies();

/// Keys of DeepSeek-V3's routing in families that differ from it in attention.
LayerKeys getV3LayerKeys();

/// Adds the defaults that transformers' configuration class of `modelType` gives to missing keys, and the class's other
/// names of keys. An unknown class changes nothing.
void addClassDefaults(JsonReader &reader, llvm::StringRef modelType);

/// True if `key`, at any depth, changes neither the logits nor the loss of any model of transformers.
bool isHarmlessKey(llvm::StringRef key);

/// Reads the MoE layer of the family's model. Errors are kept in the reader.
LayerSpec readLayer(JsonReader &reader, const Family &family);

/// Reads the whole model, whose MoE layer is `layer`. Errors are kept in the reader.
ModelSpec readModel(JsonReader &reader, const Family &family, const LayerSpec &layer);

/// Reads rotary positions of heads of `dim` columns, which `dimKey` gives; `rotary` has the defaults.
void readRotary(JsonReader &reader, const RotaryKeys &keys, llvm::StringRef dimKey, int64_t dim, RotarySpec &rotary);
/// Factor of the products of queries and keys in latent attention, whose rotary positions have been read.
double readLatentScale(JsonReader &reader, const AttentionSpec &attention);

/// Reads the size of dense blocks, if other keys than those of the table have made some.
void readDenseHidden(JsonReader &reader, ModelSpec &model);

/// Reports keys with another value than the necessary one.
void checkFixedKeys(JsonReader &reader, const FixedKeys &keys);

/// Read the value of `key`, and keep `value` if it is missing or empty. A size of 0 means that the key is needed.
void readSize(JsonReader &reader, llvm::StringRef key, int64_t max, int64_t &value);
void readFlag(JsonReader &reader, llvm::StringRef key, bool &value);
void readNumber(JsonReader &reader, llvm::StringRef key, const NumberRange &range, double &value);

/// Lists the tensors of a published checkpoint that make a parameter of a whole model, with the keys of
/// docs/Checkpoints.md. Null if the checkpoint has none for it. Blocks after the last of model.blocks are the
/// decoder's.
DictionaryAttr getSource(Builder &builder, const CheckpointNames &names, const ModelSpec &model,
                         llvm::StringRef parameter, RankedTensorType type);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_FAMILY_H
