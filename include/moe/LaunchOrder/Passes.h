//===- Passes.h - the order of plans ----------------------------*- C++ -*-===//
#ifndef MOE_LAUNCHORDER_PASSES_H
#define MOE_LAUNCHORDER_PASSES_H

#include "mlir/Pass/Pass.h"

#include "moe/LaunchOrder/Order.h"

namespace mlir::moe {

#define GEN_PASS_DECL
#include "moe/LaunchOrder/Passes.h.inc"

} // namespace mlir::moe

#endif // MOE_LAUNCHORDER_PASSES_H
