//===- Import.h - a model config as an L0 graph -----------------*- C++ -*-===//
#ifndef MOE_IMPORT_IMPORT_H
#define MOE_IMPORT_IMPORT_H

#include "moe/Import/ModelConfig.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::moe {

enum class ImportType { f32, f64, bf16, f16 };

struct ImportOptions {
  int64_t batch = 1; ///< sequences for each data-parallel rank
  int64_t seq = 512; ///< tokens of a sequence
  /// True: a layer is x + moe(x), as in a block of a model; false: moe(x) alone.
  bool residual = true;
  /// Number of MoE layers, by default 1; for a whole model the number of its first blocks, by default all.
  std::optional<int64_t> layers = std::nullopt;
  ImportType dtype = ImportType::f32;
  /// Replaces the config's own token form by a capacity factor or dropless. They are mutually exclusive.
  std::optional<double> capacityFactor;
  bool dropless = false;
  /// Bound of a dropless layer's rows, in multiples of the mean.
  std::optional<double> maxLoad;
  /// Default of `maxLoad` for a dropless model, which the module records as `moe.default_max_load`.
  std::optional<double> defaultMaxLoad;
  /// Number of blocks of tokens that are routed apart; data parallelism may need more. Default: the model's own, which
  /// is the number of sequences, or 1. An expert's capacity in a sequence becomes that of a block in proportion.
  std::optional<int64_t> groups;
  /// The graph has batch * seq * dataParallel tokens.
  int64_t dataParallel = 1;
  /// Imports the whole model, which the configuration must have been parsed for.
  bool whole = false;
  /// Computes the loss of a whole model, for training, instead of the logits.
  bool loss = false;
};

/// Builds `func.func @model(x, parameters..) -> (y, aux)`. Each argument has `moe.name` and `moe.role` ("input" or
/// "parameter"); each result has them with role "output". `aux` is the sum over the layers. The parameters of layer i
/// are named layer<i>.gate, gate_bias, selection_bias, w1, w2, b1, b2, shared_w1, shared_w2, shared_gate, in this
/// order; a layer lacks those that it does not need. An error is a complete diagnostic.
///
/// A whole model is `@model(tokens, labels, step, parameters..) -> (logits, aux)`, or `-> (loss, cross_entropy)` of
/// roles "loss" and "metric", with `loss` the cross entropy plus the model's coefficient times aux. The argument labels
/// exists only with a loss, and step (role "step") only with dropout. `moe.below` on tokens and labels bounds the ids.
/// `moe.source` is a parameter's place in a published checkpoint. docs/Checkpoints.md lists both, and all names.
llvm::Expected<OwningOpRef<ModuleOp>> importModel(MLIRContext &context, const ModelConfig &config,
                                                  const ImportOptions &options);

} // namespace mlir::moe

#endif // MOE_IMPORT_IMPORT_H
