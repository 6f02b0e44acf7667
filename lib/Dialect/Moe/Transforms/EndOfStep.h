//===- EndOfStep.h - what a step does once, behind micro-batches -*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_ENDOFSTEP_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_ENDOFSTEP_H

#include "Stages.h"

#include <set>

namespace mlir::moe {

/// Places the ops of the end of a step: sums of gradients over ranks, the optimizer, and all other ops that need
/// micro-batches without being part of one. Some parameters have their gradients early, because their stages are done
/// while others of the device are not. The following ops then run beside the rest.
class EndOfStep {
public:
  /// Expects the ops of `function` without a unit in `others`, in program order.
  EndOfStep(func::FuncOp function, ArrayRef<Operation *> others, OpTimer timer, int64_t devices);

  /// Records that an op of a unit of `device` has its place.
  void place(Operation *op, int64_t device);
  /// Returns ops that can follow a window of `device`. Their operands are there, and the exchanges that made these have
  /// most probably ended, so that the device does not wait. Exchanges in a lane that micro-batches use come after all
  /// micro-batches, whose exchanges would wait for them.
  SmallVector<Operation *> take(int64_t device);

private:
  struct Ready {
    Operation *op;
    double since; ///< device time since when it is ready
  };
  struct Device {
    double computed = 0, exchanged = 0; ///< seconds after which it has done the ops with a place
    SmallVector<Ready> ready;
    std::set<Lane> used; ///< lanes that units use
  };

  void await(Operation *op, Operation *needed);
  void awaitReaders(Operation *op, Value argument);
  /// Lets ops that wait for `op` go on after `end`.
  void finish(Operation *op, Device &device, double end);

  OpTimer timer;
  llvm::DenseSet<Operation *> ends;
  /// Exchanges, and ops for which exchanges wait. Other computation would only delay them.
  llvm::DenseSet<Operation *> urgent;
  llvm::DenseMap<Operation *, SmallVector<Operation *, 1>> waiting; ///< ops by the op for which they wait
  llvm::DenseMap<Operation *, int64_t> missing;                     ///< by op: number of awaited ops without a place
  std::vector<Device> devices;
};

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_TRANSFORMS_ENDOFSTEP_H
