//===- LeftLayers.h - layers that a schedule's pass leaves ------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_LEFTLAYERS_H
#define MOE_DIALECT_MOE_TRANSFORMS_LEFTLAYERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::moe {

/// Warns that `pass` leaves the layer of `dispatch` as it is, with the reason, and notes it there (kLeftAttrName).
void leaveLayer(Operation *dispatch, StringRef pass, const Twine &reason);

/// The passes that left every layer of `function`. Removes the notes. Expects a function with layers.
llvm::StringSet<> takeLeftLayers(func::FuncOp function);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_LEFTLAYERS_H
