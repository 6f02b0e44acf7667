//===- Search.h - the fastest order that is found ---------------*- C++ -*-===//
#ifndef MOE_LIB_LAUNCHORDER_SEARCH_H
#define MOE_LIB_LAUNCHORDER_SEARCH_H

#include "PaperOrders.h"
#include "Price.h"

namespace mlir::moe {

/// The fastest by `pricer`, or one hardly slower that needs less memory, as plan-order's description says. `graph` has
/// times; `bars` are possible orders than which the result is never slower, one at least. With rings memory counts
/// more. Looks at the same orders in the same sequence whatever the machine. Fails where `pricer` does for a bar.
llvm::Expected<Order> searchOrder(const Graph &graph, const PaperOrders &papers, Pricer &pricer, ArrayRef<Order> bars,
                                  bool hasRings);

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_SEARCH_H
