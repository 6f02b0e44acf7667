//===- MoeDialect.h - the moe dialect ---------------------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEDIALECT_H
#define MOE_DIALECT_MOE_IR_MOEDIALECT_H

#include "mlir/IR/Dialect.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h.inc"

namespace mlir::moe {

/// Names of the dialect's discardable attributes.
inline constexpr StringLiteral kParallelAttrName = "moe.parallel";
inline constexpr StringLiteral kLayoutAttrName = "moe.layout";
inline constexpr StringLiteral kNameAttrName = "moe.name";
inline constexpr StringLiteral kRoleAttrName = "moe.role";

/// The module's `#moe.parallel`, or null after an error at `op` that says what is missing.
ParallelAttr getParallel(Operation *op);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_MOEDIALECT_H
