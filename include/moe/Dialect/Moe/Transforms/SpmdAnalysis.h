//===- SpmdAnalysis.h - over which axes each value varies -------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_SPMDANALYSIS_H
#define MOE_DIALECT_MOE_TRANSFORMS_SPMDANALYSIS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include "moe/Dialect/Moe/IR/SpmdAxes.h"

namespace mlir::moe {

/// Follows the states of values through an SPMD program, from the layouts of its arguments, by MoeSpmdOpInterface.
/// Programs are one block without control flow, so one walk in order is the whole data flow.
class SpmdAnalysis {
public:
  /// Fails with an error at the first op that no cast can satisfy, or that has no such interface.
  static FailureOr<SpmdAnalysis> compute(func::FuncOp function);

  AxisSet getState(Value value) const { return states.lookup(value); }
  const SpmdAxes &getAxes() const { return axes; }
  /// The state that each operand of `op` must have. For the terminator it is the state of each result's layout.
  SmallVector<AxisSet> getRequired(Operation *op) const { return required.lookup(op); }

private:
  explicit SpmdAnalysis(SpmdAxes axes) : axes(std::move(axes)) {}
  LogicalResult visitArguments(func::FuncOp function);
  LogicalResult visit(Operation &op);
  LogicalResult visitReturn(func::FuncOp function, Operation &op);

  SpmdAxes axes;
  llvm::DenseMap<Value, AxisSet> states;
  llvm::DenseMap<Operation *, SmallVector<AxisSet>> required;
};

/// Casts every operand to the state that its op requires, by one moe.to_varying for all users right after its
/// definition.
LogicalResult insertToVarying(func::FuncOp function);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_SPMDANALYSIS_H
