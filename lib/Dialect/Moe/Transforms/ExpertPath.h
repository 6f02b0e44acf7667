//===- ExpertPath.h - from a layer's dispatch to its combine ----*- C++ -*-===//
//
// The ops between a moe.dispatch and the moe.combine of the same routing, whatever the schedule: passes that rewrite
// what lies between, or decide what is kept of it, start from here.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_EXPERTPATH_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_EXPERTPATH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"

namespace mlir::moe {

struct ExpertPath {
  /// What gives the choices their rows.
  MoeSlotsOpInterface slots;
  DispatchOp dispatch;
  CombineOp combine;
  /// In program order, those that lead from the dispatched rows or their counts to the combined ones.
  SmallVector<Operation *> ops;

  /// Fails with what is in the way, a phrase, in `reason`.
  static FailureOr<ExpertPath> find(DispatchOp dispatch, std::string &reason);
  /// The dispatches of `function` to experts, in program order; those to their shadows are left out.
  static SmallVector<DispatchOp> getDispatches(func::FuncOp function);
};

/// Whether an op computes rows of experts, each alone.
bool isExpert(Operation *op);

/// The value without casts that move nothing.
Value skipToVarying(Value value);

/// Whether the op's results are memory of its first operand.
bool isAlias(Operation *op);
/// Whether members of a group meet in the op.
bool isCollective(Operation *op);

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_TRANSFORMS_EXPERTPATH_H
