//===- Variants.h - plans of several batch shapes ---------------*- C++ -*-===//
//
// A module at the plan stage is a plan of one shape: @rank, @reference and their attributes. A plan of several shapes
// is a module that contains only such modules, its variants. Each variant states the number of sequences (B) and of
// tokens in a sequence (L) of a data-parallel rank. Variants for one shape have different schedules, and the plan
// chooses the one with the fewest predicted seconds at run time.
//
// A plan for another program's training loop has a variant for the forward, followed by one for the backward. A plan of
// one shape then is a module of these two, and they may lack B and L.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_CONVERSION_VARIANTS_H
#define MOE_CONVERSION_VARIANTS_H

#include "mlir/IR/BuiltinOps.h"

#include "moe/Dialect/Plan/IR/RankProgram.h"

namespace mlir::plan {

/// Attributes of a variant: B and L (i64), and [alpha, beta] (f64). alpha + beta * (B * L) are its predicted seconds of
/// communication.
inline constexpr StringLiteral kBatchAttrName = "plan.batch";
inline constexpr StringLiteral kSequenceAttrName = "plan.sequence";
inline constexpr StringLiteral kSecondsAttrName = "plan.seconds";
/// Number of chunks of the layers (i64), if variants differ in it.
inline constexpr StringLiteral kChunksAttrName = "plan.chunks";

/// Attribute of a variant that is only a forward or a backward (string), and its values.
inline constexpr StringLiteral kHalfAttrName = "plan.half", kForwardHalf = "forward", kBackwardHalf = "backward";

/// Variants of a module at the plan stage, in order. Empty for a plan of one shape.
SmallVector<ModuleOp> getVariants(ModuleOp plan);

} // namespace mlir::plan

#endif // MOE_CONVERSION_VARIANTS_H
