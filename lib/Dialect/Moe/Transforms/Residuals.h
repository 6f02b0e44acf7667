//===- Residuals.h - what the backward needs of the forward -----*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_RESIDUALS_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_RESIDUALS_H

#include "mlir/IR/Operation.h"

namespace mlir::moe {

/// Location of a backward op: its forward op's layer, marked.
Location getBackwardLoc(Operation *op);

/// Gives the backward, which is the ops after the last of `forward` up to `terminator`, the values of the forward as
/// their `moe.residual` demands.
void provideResiduals(ArrayRef<Operation *> forward, Operation *terminator);

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_TRANSFORMS_RESIDUALS_H
