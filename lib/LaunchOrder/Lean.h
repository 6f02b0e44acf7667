//===- Lean.h - the same order with fewer bytes alive -----------*- C++ -*-===//
#ifndef MOE_LIB_LAUNCHORDER_LEAN_H
#define MOE_LIB_LAUNCHORDER_LEAN_H

#include "Price.h"

namespace mlir::moe {

/// `order` with launches moved to just before what needs them first, or just behind what they need last, wherever that
/// leaves fewer bytes alive and Timeline thinks that the step takes at most `seconds`.
Order makeLean(const Graph &graph, const Order &order, const Pricer &pricer, double seconds);

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_LEAN_H
