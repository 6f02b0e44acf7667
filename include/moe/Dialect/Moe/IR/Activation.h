//===- Activation.h - what the kinds of activation have in common -*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_ACTIVATION_H
#define MOE_DIALECT_MOE_IR_ACTIVATION_H

#include "moe/Dialect/Moe/IR/MoeAttrs.h"

namespace mlir::moe {

/// Number of input columns for each output column: 2 for the kinds that take interleaved (gate, up) pairs, 1 for the
/// others.
inline int64_t getActivationWidth(Activation kind) {
  return kind == Activation::swiglu || kind == Activation::swiglu_clamped ? 2 : 1;
}

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_ACTIVATION_H
