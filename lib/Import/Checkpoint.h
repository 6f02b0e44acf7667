//===- Checkpoint.h - parameters and published checkpoints ------*- C++ -*-===//
#ifndef MOE_LIB_IMPORT_CHECKPOINT_H
#define MOE_LIB_IMPORT_CHECKPOINT_H

#include "moe/Import/ModelSpec.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::moe {

/// What a parameter is made of.
struct Rule {
  llvm::StringRef parameter;
  llvm::StringRef tensor;
  llvm::StringRef second = {}; ///< its columns follow the first's one by one
  bool transpose = false;
  /// Which of how many equal parts of the tensor's columns.
  int64_t part = 0, parts = 1;
  /// How many of the tensor's columns stand before and after the parameter's; null: none.
  int64_t (*before)(const AttentionSpec &) = nullptr, (*after)(const AttentionSpec &) = nullptr;
  bool ofHeads = false; ///< before and after those of each head
  /// One tensor has all experts' matrices, as [E, rows, columns] (3) or as [E rows, columns] (2); 0: one for each
  /// expert.
  int64_t stacked = 0;
  bool halves = false; ///< columns of the tensor's two halves alternate
  bool isRow = false;  ///< the tensor has a dimension of 1 before the others
};

/// The names of a family's tensors.
struct CheckpointNames {
  llvm::StringRef block = {}; ///< what the names of a block's tensors begin with
  /// Searched in this order; parameters of blocks without "layer{i}.".
  llvm::SmallVector<llvm::ArrayRef<Rule>, 2> ofBlock = {};
  llvm::ArrayRef<Rule> ofModel = {};
  llvm::StringRef decoderBlock = {};
  llvm::ArrayRef<Rule> ofDecoderBlock = {};
  /// What names begin with but for those of the head's tensors, unless the checkpoint is of the model without its head.
  llvm::StringRef prefix = {};
};

/// Of which tensors of a published checkpoint with these names a parameter of a whole model is made, in the keys of
/// docs/Runtime.md; null where the checkpoint has nothing for it. Blocks after the last of model.blocks are the
/// decoder's in a family that has both.
DictionaryAttr getSource(Builder &builder, const CheckpointNames &names, const ModelSpec &model,
                         llvm::StringRef parameter, RankedTensorType type);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_CHECKPOINT_H
