//===- FurtherPasses.h - passes that a routing demands ----------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_FURTHERPASSES_H
#define MOE_LIB_SIMULATOR_FURTHERPASSES_H

#include "mlir/IR/BuiltinOps.h"

#include "moe/Simulator/Simulator.h"

namespace mlir::moe {

/// A copy of `plan` in which each subprogram is written out as often as the routing of `options` demands on any rank.
/// On a rank with fewer passes the others have no rows. Null where no plan runs subprograms, or routing is even.
llvm::Expected<OwningOpRef<ModuleOp>> writeFurtherPasses(ModuleOp plan, const CostModel &model,
                                                         const SimOptions &options);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_FURTHERPASSES_H
