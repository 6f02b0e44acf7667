//===- Passes.h - passes that need the whole compiler -----------*- C++ -*-===//
#ifndef MOE_PLANNER_PASSES_H
#define MOE_PLANNER_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::moe {

#define GEN_PASS_DECL
#include "moe/Planner/Passes.h.inc"

} // namespace mlir::moe

#endif // MOE_PLANNER_PASSES_H
