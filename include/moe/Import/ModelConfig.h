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
  Score score = Score::softmax;
  bool renormalize = false;
  double routingScale = 1.0;
  int64_t expertGroups = 1;
  int64_t topGroups = 1;
  GroupScore groupScore = GroupScore::max;
  bool gateBias = false;
  bool selectionBias = false;
  bool expertBiases = false;
  int64_t sharedHidden = 0; ///< inner columns of the shared expert; 0: there is none
  bool sharedGate = false;
  std::optional<double> capacityFactor; ///< absent: dropless
};

struct ModelConfig {
  std::string architecture;
  std::string fileName;
  /// Where the file gives the number of experts, one-based: the location of the imported layers.
  unsigned line = 1;
  unsigned column = 1;
  LayerSpec layer;
  std::optional<ModelSpec> model; ///< where it was asked for
};

/// Reads a Hugging Face config.json; `whole`: not only the MoE layer. An error is a complete diagnostic,
/// `file:line:column: error: 'key': expected ..`.
llvm::Expected<ModelConfig> parseModelConfig(llvm::StringRef text, llvm::StringRef fileName, bool whole = false);

/// The names under `architectures` that parseModelConfig knows.
llvm::SmallVector<llvm::StringRef> getKnownArchitectures();

} // namespace mlir::moe

#endif // MOE_IMPORT_MODELCONFIG_H
