//===- MoeInterfaces.h - what every op tells the passes ---------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEINTERFACES_H
#define MOE_DIALECT_MOE_IR_MOEINTERFACES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include "moe/Dialect/Moe/IR/SpmdAxes.h"

namespace mlir::moe {

/// What one op needs on one rank. Bytes sent go to the other members of its group, in equal parts.
struct OpCost {
  double flops = 0;
  int64_t bytesRead = 0;
  int64_t bytesWritten = 0;
  int64_t bytesSent = 0;
  /// In the dropless form, the number of rows for which the figures hold; they scale with the rows really used. 0:
  /// fixed.
  int64_t raggedRows = 0;
};

/// Bytes of a tensor of static shape.
int64_t getByteSize(Type type);
/// Every operand read once, every result written once.
OpCost getMemoryCost(Operation *op);

} // namespace mlir::moe

#include "moe/Dialect/Moe/IR/MoeInterfaces.h.inc"

#endif // MOE_DIALECT_MOE_IR_MOEINTERFACES_H
