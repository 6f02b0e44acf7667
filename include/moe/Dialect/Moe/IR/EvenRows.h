//===- EvenRows.h - rows that even routing gives ----------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_EVENROWS_H
#define MOE_DIALECT_MOE_IR_EVENROWS_H

#include "llvm/ADT/DenseMap.h"

#include "moe/Dialect/Moe/IR/MoeInterfaces.h"

namespace mlir::moe {

/// Follows the rules for counts through a program, from the routing on, to tell how much of its memory for rows an op
/// uses if tokens choose experts evenly.
class EvenRows {
public:
  /// Takes the ops in program order, since a routing decides how many rows the later ops have.
  void visit(Operation *op);
  /// Factor for `cost`, the cost of `op`. It is 1 if the cost is not ragged, or if no rule gives the number of rows.
  double getUse(Operation *op, const OpCost &cost) const;

private:
  llvm::DenseMap<Value, double> rows;   ///< rows that each count stands for, by counts
  llvm::DenseMap<Value, double> tokens; ///< tokens of all senders, by choices that were sent
};

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_EVENROWS_H
