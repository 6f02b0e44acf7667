//===- Search.h - the fastest order that is found ---------------*- C++ -*-===//
#ifndef MOE_LIB_LAUNCHORDER_SEARCH_H
#define MOE_LIB_LAUNCHORDER_SEARCH_H

#include "PaperOrders.h"
#include "Price.h"

namespace mlir::moe {

/// Returns the fastest order by `pricer`, or a slightly slower one that needs less memory, as plan-order's description
/// says. `graph` has times. `bars` has at least one possible order, and the result is never slower than any of them.
/// Rings give memory more weight. The search is the same on every machine. Fails if `pricer` fails for a bar.
llvm::Expected<Order> searchOrder(const Graph &graph, const PaperOrders &papers, Pricer &pricer, ArrayRef<Order> bars,
                                  bool hasRings);

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_SEARCH_H
