//===- Import.h - a model config as an L0 graph -----------------*- C++ -*-===//
#ifndef MOE_IMPORT_IMPORT_H
#define MOE_IMPORT_IMPORT_H

#include "moe/Import/ModelConfig.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::moe {

enum class ImportType { f32, f64, bf16 };

struct ImportOptions {
  int64_t batch = 1; ///< sequences for each data-parallel rank
  int64_t seq = 512; ///< tokens of a sequence
  int64_t layers = 1;
  ImportType dtype = ImportType::f32;
  /// Replaces the config's own token form: a capacity factor or dropless, not both.
  std::optional<double> capacityFactor;
  bool dropless = false;
  /// Bound of a dropless layer's rows, in multiples of the mean.
  std::optional<double> maxLoad;
  /// The graph has batch * seq * dataParallel tokens.
  int64_t dataParallel = 1;
};

/// Builds `func.func @model(x, parameters..) -> (y, aux)`. Each argument carries `moe.name` and `moe.role` ("input" or
/// "parameter"), each result the same with role "output"; `aux` is the sum over the layers. The parameters of layer i
/// are named layer<i>.gate, gate_bias, selection_bias, w1, w2, b1, b2, shared_w1, shared_w2, shared_gate, those that it
/// has, in this order. An error is a complete diagnostic.
llvm::Expected<OwningOpRef<ModuleOp>> importModel(MLIRContext &context, const ModelConfig &config,
                                                  const ImportOptions &options);

} // namespace mlir::moe

#endif // MOE_IMPORT_IMPORT_H
