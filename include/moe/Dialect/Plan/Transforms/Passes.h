//===- Passes.h - passes of the plan dialect --------------------*- C++ -*-===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_PASSES_H
#define MOE_DIALECT_PLAN_TRANSFORMS_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"

namespace mlir::plan {

#define GEN_PASS_DECL
#include "moe/Dialect/Plan/Transforms/Passes.h.inc"

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_TRANSFORMS_PASSES_H
