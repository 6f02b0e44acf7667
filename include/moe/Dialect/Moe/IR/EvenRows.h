//===- EvenRows.h - rows that even routing gives ----------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_EVENROWS_H
#define MOE_DIALECT_MOE_IR_EVENROWS_H

#include "moe/Dialect/Moe/IR/MoeInterfaces.h"

namespace mlir::moe {

/// How much of its memory for rows an op uses, where tokens choose experts evenly.
class EvenRows {
public:
  /// Ops come in program order: a routing says how many rows the ops behind it have.
  void visit(Operation *op);
  /// What `cost`, that of `op`, has to be multiplied with; 1 where it is not ragged.
  double getUse(Operation *op, const OpCost &cost) const;

private:
  double rowsOfCount = 0; ///< of one expert's count, by the last op that routes
};

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_EVENROWS_H
