//===- Order.h - the order in which launches are issued ---------*- C++ -*-===//
//
// Streams of a plan run launches in the order of issue, so this order decides what overlaps. plan-order chooses it.
// plan-assign-streams then turns dependences between streams into waits. Later passes keep the order.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LAUNCHORDER_ORDER_H
#define MOE_LAUNCHORDER_ORDER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace mlir::moe {

class CostModel;

/// plan-order's description explains each policy.
enum class OrderPolicy { Program, MPipeMoe, FasterMoe, Search };

/// "program", "mpipemoe", "fastermoe", "search".
llvm::StringRef getName(OrderPolicy policy);
std::optional<OrderPolicy> parseOrderPolicy(llvm::StringRef name);

/// Most ranks that a search simulates one by one for each order. With more ranks it takes the routing to be even, so
/// that one rank stands for all similar ones.
inline constexpr int64_t kMaxUnevenRanks = 64;

/// Puts the launches of `program` on streams and into the policy's order. `model` is a model of the program's ranks. It
/// may be null unless the policy is Search. Fails after an error if `program` is no rank program, is for some of the
/// ranks only, or has waits or offsets, or if no order suits its rings. With Search, also fails if the cost model or
/// the simulator fail. Programs that are in order do not change.
LogicalResult orderPlan(func::FuncOp program, OrderPolicy policy, const CostModel *model);

} // namespace mlir::moe

#endif // MOE_LAUNCHORDER_ORDER_H
