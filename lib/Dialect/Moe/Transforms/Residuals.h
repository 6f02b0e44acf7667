//===- Residuals.h - what the backward needs of the forward -----*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_RESIDUALS_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_RESIDUALS_H

#include "mlir/IR/Operation.h"

namespace mlir::moe {

/// The place of a backward op: its forward op's layer, marked.
Location getBackwardLoc(Operation *op);

/// Gives the ops from behind the last of `forward` up to `terminator`, the backward, the values of the forward as
/// `moe.residual` of these says.
void provideResiduals(ArrayRef<Operation *> forward, Operation *terminator);

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_TRANSFORMS_RESIDUALS_H
