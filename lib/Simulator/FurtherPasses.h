//===- FurtherPasses.h - passes that a routing demands ----------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_FURTHERPASSES_H
#define MOE_LIB_SIMULATOR_FURTHERPASSES_H

#include "mlir/IR/BuiltinOps.h"

#include "moe/Simulator/Simulator.h"

namespace mlir::moe {

/// Returns a copy of `plan` with each subprogram written out as often as the routing of `options` demands on any rank.
/// On a rank with fewer passes the other copies have no rows. Null if the plan runs no subprograms, or if routing is
/// even.
llvm::Expected<OwningOpRef<ModuleOp>> writeFurtherPasses(ModuleOp plan, const CostModel &model,
                                                         const SimOptions &options);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_FURTHERPASSES_H
