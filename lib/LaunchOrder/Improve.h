//===- Improve.h - local search on the streams' orders ----------*- C++ -*-===//
#ifndef MOE_LIB_LAUNCHORDER_IMPROVE_H
#define MOE_LIB_LAUNCHORDER_IMPROVE_H

#include "Graph.h"

namespace mlir::moe {

/// A better order than `order`, which the graph allows, or itself. Tabu search as in job shops (Nowicki and Smutnicki
/// 1996, Balas and Vazacopoulos 1998): only tasks that the step's end waits for, one behind the other on a stream, are
/// worth moving, to the ends of such a row or past a neighbour. Looks at `budget` tasks in all, each as often as an
/// order with it is tried.
Order improve(const Graph &graph, ArrayRef<unsigned> order, uint64_t budget);

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_IMPROVE_H
