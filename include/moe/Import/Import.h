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
  /// Whether a layer is x + moe(x), as in a block of a model, or moe(x) alone.
  bool residual = true;
  /// MoE layers, 1 unless given; of a whole model its first blocks, all unless given.
  std::optional<int64_t> layers = std::nullopt;
  ImportType dtype = ImportType::f32;
  /// Replaces the config's own token form: a capacity factor or dropless, not both.
  std::optional<double> capacityFactor;
  bool dropless = false;
  /// Bound of a dropless layer's rows, in multiples of the mean.
  std::optional<double> maxLoad;
  /// The same where `maxLoad` is absent and the model is dropless; the module's `moe.default_max_load` says so.
  std::optional<double> defaultMaxLoad;
  /// Blocks of tokens that are routed apart from each other, of the whole graph; data parallelism may ask for more.
  /// Without it the model's own: its sequences or 1. An expert's capacity in a sequence becomes that of a block in
  /// proportion.
  std::optional<int64_t> groups;
  /// The graph has batch * seq * dataParallel tokens.
  int64_t dataParallel = 1;
  /// The whole model, which the configuration must have been parsed for.
  bool whole = false;
  /// Of a whole model the loss, for training, instead of the logits.
  bool loss = false;
};

/// Builds `func.func @model(x, parameters..) -> (y, aux)`. Each argument carries `moe.name` and `moe.role` ("input" or
/// "parameter"), each result the same with role "output"; `aux` is the sum over the layers. The parameters of layer i
/// are named layer<i>.gate, gate_bias, selection_bias, w1, w2, b1, b2, shared_w1, shared_w2, shared_gate, those that it
/// has, in this order. An error is a complete diagnostic.
///
/// A whole model is `@model(tokens, labels, step, parameters..) -> (logits, aux)`, or `-> (loss, cross_entropy)` of
/// roles "loss" and "metric", with `loss` the cross entropy plus the model's coefficient times aux. labels is there
/// only with a loss, step (role "step") only where dropout is used. `moe.below` on tokens and labels bounds the ids,
/// and `moe.source` on a parameter says what it is in a published checkpoint; docs/Runtime.md lists both, and all
/// names.
llvm::Expected<OwningOpRef<ModuleOp>> importModel(MLIRContext &context, const ModelConfig &config,
                                                  const ImportOptions &options);

} // namespace mlir::moe

#endif // MOE_IMPORT_IMPORT_H
