//===- MoeAttrs.h - attributes of the moe dialect ---------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEATTRS_H
#define MOE_DIALECT_MOE_IR_MOEATTRS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"

#include "moe/Dialect/Moe/IR/ClusterRates.h"
#include "moe/Scheduling/StageWork.h"

namespace mlir::moe {
/// Ranks that a plan may have.
inline constexpr int64_t kMaxWorld = 4096;
/// Experts that a token may choose.
inline constexpr int64_t kMaxTopK = 32;
} // namespace mlir::moe

#include "moe/Dialect/Moe/IR/MoeEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "moe/Dialect/Moe/IR/MoeAttrs.h.inc"

#endif // MOE_DIALECT_MOE_IR_MOEATTRS_H
