//===- MoeAttrs.h - attributes of the moe dialect ---------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEATTRS_H
#define MOE_DIALECT_MOE_IR_MOEATTRS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"

#include "moe/Dialect/Moe/IR/ClusterRates.h"
#include "moe/Scheduling/StageWork.h"

namespace mlir::moe {
/// Limit for the ranks of a plan.
inline constexpr int64_t kMaxWorld = 4096;
/// Limit for the experts that a token chooses.
inline constexpr int64_t kMaxTopK = 32;
} // namespace mlir::moe

#include "moe/Dialect/Moe/IR/MoeEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "moe/Dialect/Moe/IR/MoeAttrs.h.inc"

#endif // MOE_DIALECT_MOE_IR_MOEATTRS_H
