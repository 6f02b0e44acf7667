//===- Order.h - the order in which launches are issued ---------*- C++ -*-===//
//
// A plan's streams run in the order in which it was issued, so the order decides what overlaps. plan-order chooses it;
// plan-assign-streams turns what dependences cross streams into waits; nothing later changes it.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LAUNCHORDER_ORDER_H
#define MOE_LAUNCHORDER_ORDER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace mlir::moe {

class CostModel;

/// What plan-order's description says of each.
enum class OrderPolicy { Program, MPipeMoe, FasterMoe, Search };

/// "program", "mpipemoe", "fastermoe", "search".
llvm::StringRef getName(OrderPolicy policy);
std::optional<OrderPolicy> parseOrderPolicy(llvm::StringRef name);

/// Ranks that a search simulates one by one for each order that it tries. Of more it takes the routing to be even,
/// where one rank stands for all that are like it.
inline constexpr int64_t kMaxUnevenRanks = 64;

/// Puts the launches of `program` on streams and into the policy's order. `model` is of the program's ranks; it may be
/// null where the policy is not Search. Fails after an error where `program` is no rank program, or one of some ranks
/// only, or has waits or offsets; where its rings cannot be kept in any order; and, for Search, where the cost model or
/// the simulator do. Programs in one order stay as they are.
LogicalResult orderPlan(func::FuncOp program, OrderPolicy policy, const CostModel *model);

} // namespace mlir::moe

#endif // MOE_LAUNCHORDER_ORDER_H
