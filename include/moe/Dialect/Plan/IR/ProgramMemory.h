//===- ProgramMemory.h - what a plan needs on a device ----------*- C++ -*-===//
#ifndef MOE_DIALECT_PLAN_IR_PROGRAMMEMORY_H
#define MOE_DIALECT_PLAN_IR_PROGRAMMEMORY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::moe {

/// The names of a rank program's parameters.
llvm::StringSet<> getParameters(func::FuncOp program);

/// Bytes of one rank of a program at the plan stage.
struct ProgramMemory {
  int64_t parameters = 0, gradients = 0; ///< bytes of the parameters and of their gradients
  int64_t states = 0;                    ///< bytes of the optimizer's states; 0 without an optimizer
  int64_t values = 0;                    ///< other arguments and results
  int64_t arena = 0;                     ///< in the device's memory
  int64_t pinned = 0;                    ///< in the host's

  /// Bytes of Adam's two moments, in the parameters' type, if gradients are results. The caller then holds the moments,
  /// and not the runtime.
  int64_t getOptimizerStates() const { return gradients ? 2 * parameters : 0; }
  /// Bytes of the device's memory that the plan itself takes.
  int64_t getPlanBytes() const { return parameters + gradients + states + values + arena; }
  /// Bytes that a device needs, with the optimizer.
  int64_t getDeviceBytes() const { return getPlanBytes() + getOptimizerStates(); }
};

ProgramMemory getMemory(func::FuncOp program);
/// The rank program of a plan that needs the most memory of a device.
func::FuncOp getLargestProgram(ModuleOp plan);
/// Bytes that a plan takes of the fullest device.
int64_t getDeviceBytes(ModuleOp plan);

} // namespace mlir::moe

#endif // MOE_DIALECT_PLAN_IR_PROGRAMMEMORY_H
