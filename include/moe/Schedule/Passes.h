//===- Passes.h - the order of plans ----------------------------*- C++ -*-===//
#ifndef MOE_SCHEDULE_PASSES_H
#define MOE_SCHEDULE_PASSES_H

#include "mlir/Pass/Pass.h"

#include "moe/Schedule/Order.h"

namespace mlir::moe {

#define GEN_PASS_DECL
#include "moe/Schedule/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "moe/Schedule/Passes.h.inc"

} // namespace mlir::moe

#endif // MOE_SCHEDULE_PASSES_H
