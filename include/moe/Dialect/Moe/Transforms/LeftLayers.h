//===- LeftLayers.h - layers that a schedule's pass leaves ------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_LEFTLAYERS_H
#define MOE_DIALECT_MOE_TRANSFORMS_LEFTLAYERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::moe {

/// For passes that rewrite layers: warns that `pass` leaves the layer of `dispatch` as it is, with the reason, and
/// notes it there (kLeftAttrName).
void leaveLayer(Operation *dispatch, StringRef pass, const Twine &reason);

/// The passes that left every layer of `function`, which has layers. Takes the notes away.
llvm::StringSet<> takeLeftLayers(func::FuncOp function);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_LEFTLAYERS_H
