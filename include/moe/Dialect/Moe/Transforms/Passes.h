//===- Passes.h - passes of the moe dialect ---------------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_PASSES_H
#define MOE_DIALECT_MOE_TRANSFORMS_PASSES_H

#include <memory>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace mlir::moe {

/// Options of moe-pause-mp.
enum class PauseMpSchedule { S1, S2, Chosen };

/// Options of moe-smart-schedule.
enum class SmartOrder { Ring, Topology };
/// The ranks of a group where none are said: of `ranks` that exchange those of a node, or inside a node a fourth.
int64_t getSmartGroupSize(int64_t ranks, int64_t nodeRanks);

/// Options of moe-optimize.
enum class OptimizerKind { Sgd, Adam };

#define GEN_PASS_DECL
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_PASSES_H
