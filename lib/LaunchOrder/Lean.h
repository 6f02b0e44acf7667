//===- Lean.h - the same order with fewer bytes alive -----------*- C++ -*-===//
#ifndef MOE_LIB_LAUNCHORDER_LEAN_H
#define MOE_LIB_LAUNCHORDER_LEAN_H

#include "Price.h"

namespace mlir::moe {

/// Moves launches of `order` to just before the first launch that needs them, or just after the last launch that they
/// need. Keeps a move if fewer bytes are alive and the step takes at most `seconds` by Timeline.
Order makeLean(const Graph &graph, const Order &order, const Pricer &pricer, double seconds);

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_LEAN_H
