//===- Variants.h - plans of several batch shapes ---------------*- C++ -*-===//
//
// A module at the plan stage is a plan of one shape: @rank, @reference and what they were compiled for. A plan of
// several is a module of nothing but such modules, its variants. Each says for how many sequences (B) of how many
// tokens (L) of a data-parallel rank it is; where several are for one shape they are of different schedules, and the
// one that the fewest seconds are predicted for is chosen at run time.
//
// A plan for a training loop of somebody else has a variant for the forward and, behind it, one for the backward. Then
// a plan of one shape is a module of these two, and they need not say B and L.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_CONVERSION_VARIANTS_H
#define MOE_CONVERSION_VARIANTS_H

#include "mlir/IR/BuiltinOps.h"

#include "moe/Dialect/Plan/IR/RankProgram.h"

namespace mlir::plan {

/// Attributes of a variant: B and L (i64), and [alpha, beta] (f64): alpha + beta * (B * L) seconds of communication are
/// predicted for it.
inline constexpr StringLiteral kBatchAttrName = "plan.batch";
inline constexpr StringLiteral kSequenceAttrName = "plan.sequence";
inline constexpr StringLiteral kSecondsAttrName = "plan.seconds";
/// i64: chunks of the layers (pipeline:N), where variants differ in them.
inline constexpr StringLiteral kChunksAttrName = "plan.chunks";

/// String, on a variant that is a forward or a backward alone, and its values.
inline constexpr StringLiteral kHalfAttrName = "plan.half", kForwardHalf = "forward", kBackwardHalf = "backward";

/// The variants of a module at the plan stage, in order; none in a plan of one shape.
SmallVector<ModuleOp> getVariants(ModuleOp plan);

} // namespace mlir::plan

#endif // MOE_CONVERSION_VARIANTS_H
