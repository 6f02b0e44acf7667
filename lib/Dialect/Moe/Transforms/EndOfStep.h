//===- EndOfStep.h - what a step does once, behind micro-batches -*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_ENDOFSTEP_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_ENDOFSTEP_H

#include "Stages.h"

#include <set>

namespace mlir::moe {

/// Sums of gradients over ranks, the optimizer, and whatever else needs the micro-batches without being of one. Some
/// parameters have their gradients early: their stages are done while others of the device are not. What follows for
/// them then runs beside the rest.
class EndOfStep {
public:
  /// `others`, in program order: ops of `function` that are not of a unit.
  EndOfStep(func::FuncOp function, ArrayRef<Operation *> others, OpTimer timer, int64_t devices);

  /// An op of a unit of `device` has its place.
  void place(Operation *op, int64_t device);
  /// Ops that have their place now, behind a window of `device`: what they need is there, and exchanges of that have
  /// most probably ended, so that the device does not wait for them. Exchanges in a lane that micro-batches use come
  /// behind all of these, whose exchanges would wait for them.
  SmallVector<Operation *> take(int64_t device);

private:
  struct Ready {
    Operation *op;
    double since; ///< in the device's time
  };
  struct Device {
    double computed = 0, exchanged = 0; ///< when it has done what has its place: seconds
    SmallVector<Ready> ready;
    std::set<Lane> used; ///< by units
  };

  void await(Operation *op, Operation *needed);
  void awaitReaders(Operation *op, Value argument);
  /// What waits for `op` may go on after `end`.
  void finish(Operation *op, Device &device, double end);

  OpTimer timer;
  llvm::DenseSet<Operation *> ends;
  /// Those that are exchanges, or that exchanges wait for. What else there is to compute would only be in the way.
  llvm::DenseSet<Operation *> urgent;
  llvm::DenseMap<Operation *, SmallVector<Operation *, 1>> waiting; ///< by what they wait for
  llvm::DenseMap<Operation *, int64_t> missing;                     ///< how many of those have no place yet
  std::vector<Device> devices;
};

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_TRANSFORMS_ENDOFSTEP_H
