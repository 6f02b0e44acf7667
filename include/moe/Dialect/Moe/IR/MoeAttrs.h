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

namespace mlir::moe {
/// Number of input columns for each output column: 2 for the kinds that take interleaved (gate, up) pairs, 1 for the
/// others.
inline int64_t getActivationWidth(Activation kind) {
  return kind == Activation::swiglu || kind == Activation::swiglu_clamped ? 2 : 1;
}
} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_MOEATTRS_H
