//===- PartCosts.h - the costs of a program, part by part -------*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_PARTCOSTS_H
#define MOE_LIB_PLANNER_PARTCOSTS_H

#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Simulator/Simulator.h"

namespace mlir::moe {

/// A part of a model on one rank, between two places at which moe-cut-stages may cut.
struct PartCost {
  double forward = 0, backward = 0; ///< seconds for each micro-batch
  /// Exposed seconds, in which nothing is computed, and seconds of all exchanges.
  double forwardExposed = 0, backwardExposed = 0, forwardExchange = 0, backwardExchange = 0;
  double forwardIssue = 0, backwardIssue = 0; ///< seconds in which a host issues them
  /// Seconds in which the forward of a micro-batch and the backward of another one run side by side; 0 if they are not
  /// known. getPartCosts() does not know them.
  double window = 0;
  double once = 0;      ///< seconds once a step: sums of gradients, the optimizer
  double held = 0;      ///< bytes for the whole step: parameters, states
  double gradients = 0; ///< bytes from the first backward to the tail of the step
  double tail = 0;      ///< bytes at the peak of the tail, gradients included, without those held
  double kept = 0;      ///< bytes between forward and backward, for each micro-batch under way
  /// Most bytes in use during the forward and the backward, without the bytes above.
  double forwardPeak = 0, backwardPeak = 0;
  double received = 0; ///< bytes from the parts before it, for each micro-batch; getPartCosts() does not know them
  std::string layer{}; ///< the name of the layer that takes most of its time, up to a dot
};

/// The parts of a program whose launches are marked with their part (CompileOptions::markParts), on the first simulated
/// rank. With several micro-batches, seconds and bytes are those of the last one; differences of the others are in
/// `once`. `memory` is the program's.
SmallVector<PartCost> getPartCosts(const SimResult &step, const ProgramMemory &memory, const HostIssue &host,
                                   size_t numParts);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_PARTCOSTS_H
