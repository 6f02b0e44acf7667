//===- Checkpoint.h - parameters and published checkpoints ------*- C++ -*-===//
#ifndef MOE_LIB_IMPORT_CHECKPOINT_H
#define MOE_LIB_IMPORT_CHECKPOINT_H

#include "moe/Import/ModelSpec.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::moe {

/// Of which tensors of a published checkpoint of the family a parameter of a whole model is made, in the keys of
/// docs/Runtime.md; null where the checkpoint has nothing for it. Blocks after the last of model.blocks are the
/// decoder's in a family that has both.
DictionaryAttr getSource(Builder &builder, llvm::StringRef architecture, const ModelSpec &model,
                         llvm::StringRef parameter, RankedTensorType type);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_CHECKPOINT_H
