//===- Checkpoint.h - parameters and published checkpoints ------*- C++ -*-===//
#ifndef MOE_LIB_IMPORT_CHECKPOINT_H
#define MOE_LIB_IMPORT_CHECKPOINT_H

#include "moe/Import/ModelSpec.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::moe {

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
  /// Dimensions of the one tensor of all experts' matrices: 3 for [E, rows, columns], 2 for [E rows, columns]; 0: each
  /// expert has its own tensor.
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
  llvm::ArrayRef<Rule> ofDecoderBlock = {};
  /// Prefix of the names, except for those of the head's tensors, unless the checkpoint lacks the head.
  llvm::StringRef prefix = {};
};

/// Lists the tensors of a published checkpoint that make a parameter of a whole model, with the keys of
/// docs/Checkpoints.md. Null if the checkpoint has none for it. In a family with encoder and decoder, blocks after the
/// last of model.blocks are the decoder's.
DictionaryAttr getSource(Builder &builder, const CheckpointNames &names, const ModelSpec &model,
                         llvm::StringRef parameter, RankedTensorType type);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_CHECKPOINT_H
