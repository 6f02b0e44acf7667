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

/// Returns a better order than `order`, or `order` itself. The graph must allow `order`. The algorithm is tabu search
/// as in job shops (Nowicki and Smutnicki 1996, Balas and Vazacopoulos 1998). It only moves tasks of critical rows:
/// neighbours on a stream that the end of the step waits for. A task moves to one end of its row or past a neighbour.
/// `budget` is the sum of the lengths of the orders that are tried.
Order improve(const Graph &graph, ArrayRef<unsigned> order, uint64_t budget);

/// Moves launches of `order` to just before the first launch that needs them, or just after the last launch that they
/// need. Keeps a move if fewer bytes are alive and the step takes at most `seconds` by Timeline.
Order makeLean(const Graph &graph, Order order, const Pricer &pricer, double seconds);

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_SEARCH_H
