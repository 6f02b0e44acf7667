//===- ModelConfig.h - what a Hugging Face config says of its MoE layers --===//
//
// A config.json becomes the description of one MoE layer, in the terms of `moe.layer`, and of the model around it. No
// IR is involved.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_IMPORT_MODELCONFIG_H
#define MOE_IMPORT_MODELCONFIG_H

#include "moe/Import/ModelSpec.h"
#include "moe/Support/JsonReader.h"

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
