//===- Passes.h - passes that make a rank's program -------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_PASSES_H
#define MOE_DIALECT_MOE_TRANSFORMS_PASSES_H

#include <memory>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"
#include "moe/Scheduling/Pipeline.h"

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace mlir::moe {

#define GEN_PASS_DECL
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_PASSES_H
