//===- InOrder.h - exchanges for which computation waits --------*- C++ -*-===//
//
// A plan computes beside its exchanges whatever does not depend on them. A framework whose stream of computation waits
// for each exchange does not: what it issues later begins later.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_SIMULATOR_INORDER_H
#define MOE_LIB_SIMULATOR_INORDER_H

#include "moe/Simulator/Program.h"

#include "llvm/ADT/StringSet.h"

namespace mlir::moe {

/// Adds events, so that exchanges by one of `kernels` run in program order with the computation of the same direction:
/// the forwards of all micro-batches, or their backwards. The other direction may run beside them, as in a window.
void orderExchanges(SimProgram &program, const llvm::StringSet<> &kernels);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_INORDER_H
