//===- Checkpoint.h - parameters and published checkpoints ------*- C++ -*-===//
#ifndef MOE_LIB_IMPORT_CHECKPOINT_H
#define MOE_LIB_IMPORT_CHECKPOINT_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::moe {

/// Of which tensors of a published checkpoint of the family a parameter of a whole model is made, in the keys of
/// docs/Runtime.md; null where the checkpoint has nothing for it. Blocks from number `encoderBlocks` on are the
/// decoder's in a family that has both.
DictionaryAttr getSource(Builder &builder, llvm::StringRef architecture, int64_t encoderBlocks,
                         llvm::StringRef parameter, RankedTensorType type);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_CHECKPOINT_H
