//===- EvenRows.h - rows that even routing gives ----------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_EVENROWS_H
#define MOE_DIALECT_MOE_IR_EVENROWS_H

#include "llvm/ADT/DenseMap.h"

#include "moe/Dialect/Moe/IR/MoeInterfaces.h"

namespace mlir::moe {

/// How much of its memory for rows an op uses, where tokens choose experts evenly. Follows the rules for counts, from
/// the routing on.
class EvenRows {
public:
  /// Ops come in program order: a routing says how many rows the ops behind it have.
  void visit(Operation *op);
  /// What `cost`, that of `op`, has to be multiplied with; 1 where it is not ragged, and where no rule says how many
  /// rows there are.
  double getUse(Operation *op, const OpCost &cost) const;

private:
  llvm::DenseMap<Value, double> rows;   ///< by counts: that each of them stands for
  llvm::DenseMap<Value, double> tokens; ///< by choices that were sent: of all ranks that they come from
};

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_EVENROWS_H
