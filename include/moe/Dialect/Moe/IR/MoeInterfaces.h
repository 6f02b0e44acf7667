//===- MoeInterfaces.h - what every op tells the passes ---------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEINTERFACES_H
#define MOE_DIALECT_MOE_IR_MOEINTERFACES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include "moe/Cost/OpCost.h"
#include "moe/Dialect/Moe/IR/SpmdAxes.h"

namespace mlir::moe {

/// One of `parts` equal parts of a value along dimension 0, another one on each block of neighbouring members of
/// `group`: member m has part (m / (size / parts) + shift) mod parts.
struct RankPart {
  GroupAttr group;
  int64_t shift, parts;
};

/// Bytes of a tensor of static shape.
int64_t getByteSize(Type type);
/// Of Resource::Memory: every operand read once, every result written once.
OpCost getMemoryCost(Operation *op);

} // namespace mlir::moe

#include "moe/Dialect/Moe/IR/MoeInterfaces.h.inc"

#endif // MOE_DIALECT_MOE_IR_MOEINTERFACES_H
