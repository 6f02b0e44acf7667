//===- ExpertPath.h - from a layer's dispatch to its combine ----*- C++ -*-===//
//
// The ops between a moe.dispatch and the moe.combine of the same routing, in any schedule. Passes that rewrite them, or
// decide which of their results to keep, start from here.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_EXPERTPATH_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_EXPERTPATH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"

namespace mlir::moe {

struct ExpertPath {
  /// Op that gives the choices their rows.
  MoeSlotsOpInterface slots;
  DispatchOp dispatch;
  CombineOp combine;
  /// Ops that lead from the dispatched rows or their counts to the combined rows, in program order.
  SmallVector<Operation *> ops;

  /// Fails with the obstacle (a phrase) in `reason`.
  static FailureOr<ExpertPath> find(DispatchOp dispatch, std::string &reason);
  /// The dispatches of `function` to experts, in program order, without those to shadows.
  static SmallVector<DispatchOp> getDispatches(func::FuncOp function);
};

/// Whether an op computes each row of experts alone.
bool isExpert(Operation *op);

/// Returns the value before its casts, which do not move data.
Value skipToVarying(Value value);

/// Whether the op's results are memory of its first operand.
bool isAlias(Operation *op);
/// Whether the members of a group call the op together.
bool isCollective(Operation *op);

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_TRANSFORMS_EXPERTPATH_H
