//===- ModelConfig.h - what a Hugging Face config says of its MoE layers --===//
//
// A config.json becomes the description of one MoE layer, in the terms of `moe.layer`, and of the model around it. No
// IR is involved.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_IMPORT_MODELCONFIG_H
#define MOE_IMPORT_MODELCONFIG_H

#include "moe/Import/ModelSpec.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mlir::moe {

/// One MoE layer. Each field means what the operand or attribute of `moe.layer` of that name means.
struct LayerSpec {
  int64_t hidden = 0;       ///< M
  int64_t expertHidden = 0; ///< H, inner columns of one expert
  int64_t experts = 0;      ///< E
  int64_t topK = 0;
  Activation activation = Activation::swiglu;
  double activationAlpha = 1.702, activationLimit = 7.0; ///< of swiglu_clamped
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
  int64_t sharedHidden = 0; ///< inner columns of the shared expert; 0: there is none
  bool sharedGate = false;
  std::optional<double> capacityFactor = std::nullopt;  ///< absent, and expertCapacity too: dropless
  std::optional<int64_t> expertCapacity = std::nullopt; ///< choices of a routing group that an expert takes at most
  bool sequenceGroups = false; ///< each sequence is a routing group of its own; else a rank's tokens are one
};

struct Family;

/// Where something stands in the file, one-based.
struct ConfigPlace {
  unsigned line = 1, column = 1;
};

/// Something that the user of a configuration should know, and where it stands in the file.
struct ConfigRemark {
  std::string text;
  unsigned line = 1, column = 1;
};

struct ModelConfig {
  std::string architecture;
  const Family *family = nullptr; ///< the entry of lib/Import's table
  std::string fileName;
  /// Where the file gives the number of experts, one-based: the location of the imported layers.
  unsigned line = 1;
  unsigned column = 1;
  /// Where it gives the sizes of other parts of a whole model: the locations of attention, of embedding and head, and
  /// of feed-forward blocks that are not MoE.
  ConfigPlace attentionPlace = {}, vocabularyPlace = {}, densePlace = {};
  LayerSpec layer;
  std::optional<ModelSpec> model = std::nullopt; ///< where it was asked for
  /// Keys of the file that are neither understood nor known to be harmless, if there are any.
  std::optional<ConfigRemark> otherKeys = std::nullopt;
};

/// Reads a Hugging Face config.json; `whole`: not only the MoE layer. An error is a complete diagnostic,
/// `file:line:column: error: 'key': expected ..`.
llvm::Expected<ModelConfig> parseModelConfig(llvm::StringRef text, llvm::StringRef fileName, bool whole = false);

/// The names under `architectures` that parseModelConfig knows.
llvm::SmallVector<llvm::StringRef> getKnownArchitectures();

/// The same under `model_type`.
llvm::SmallVector<llvm::StringRef> getKnownModelTypes();

} // namespace mlir::moe

#endif // MOE_IMPORT_MODELCONFIG_H
