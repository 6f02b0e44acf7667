//===- Passes.h - passes of the moe dialect ---------------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_PASSES_H
#define MOE_DIALECT_MOE_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/Transforms/ScheduleOptions.h"
#include "moe/Scheduling/Pipeline.h"

namespace mlir::moe {

/// Option of moe-optimize.
enum class OptimizerKind { Sgd, Adam };

#define GEN_PASS_DECL
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_PASSES_H
