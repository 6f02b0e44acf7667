//===- Improve.h - local search on the streams' orders ----------*- C++ -*-===//
#ifndef MOE_LIB_LAUNCHORDER_IMPROVE_H
#define MOE_LIB_LAUNCHORDER_IMPROVE_H

#include "Graph.h"

namespace mlir::moe {

/// Returns a better order than `order`, or `order` itself. The graph must allow `order`. The algorithm is tabu search
/// as in job shops (Nowicki and Smutnicki 1996, Balas and Vazacopoulos 1998). It only moves tasks of critical rows:
/// neighbours on a stream that the end of the step waits for. A task moves to one end of its row or past a neighbour.
/// `budget` is the sum of the lengths of the orders that are tried.
Order improve(const Graph &graph, ArrayRef<unsigned> order, uint64_t budget);

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_IMPROVE_H
