//===- OptimizerPass.h - the pass that updates parameters -------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_OPTIMIZERPASS_H
#define MOE_DIALECT_MOE_TRANSFORMS_OPTIMIZERPASS_H

#include <memory>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace mlir::moe {

/// Options of moe-optimize.
enum class OptimizerKind { Sgd, Adam };

#define GEN_PASS_DECL
#include "moe/Dialect/Moe/Transforms/OptimizerPass.h.inc"

#define GEN_PASS_REGISTRATION
#include "moe/Dialect/Moe/Transforms/OptimizerPass.h.inc"

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_OPTIMIZERPASS_H
