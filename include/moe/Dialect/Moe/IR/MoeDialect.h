//===- MoeDialect.h - the moe dialect ---------------------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEDIALECT_H
#define MOE_DIALECT_MOE_IR_MOEDIALECT_H

#include "mlir/IR/Dialect.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h.inc"

namespace mlir::moe {

/// Names of the dialect's discardable attributes.
inline constexpr StringLiteral kParallelAttrName = "moe.parallel";
inline constexpr StringLiteral kLayoutAttrName = "moe.layout";
inline constexpr StringLiteral kNameAttrName = "moe.name";
inline constexpr StringLiteral kRoleAttrName = "moe.role";
/// On ops: `#moe.chunk`, `#moe.ring` for the results, and `#moe.residual` for them, keep where absent.
inline constexpr StringLiteral kChunkAttrName = "moe.chunk";
inline constexpr StringLiteral kRingAttrName = "moe.ring";
inline constexpr StringLiteral kResidualAttrName = "moe.residual";
/// On an op that moe-differentiate has repeated in the backward (unit): CSE leaves it there.
inline constexpr StringLiteral kRepeatedAttrName = "moe.repeated";
/// What a pass that chooses between schedules found, on a function: an array of a dictionary for each layer. Of
/// moe-pause-mp: `layer` (name), `chosen` (s1 or s2), `obstacle` (why s1 cannot be, or empty), `tokens` of a rank, the
/// terms `all_to_all`, `all_gather` and `overlapped` as [seconds, seconds a byte, bytes, seconds for these bytes], `s1`
/// and `s2` (t1 and t2, seconds), and `s1_alpha` and `s2_alpha`, what they are without tokens.
inline constexpr StringLiteral kScheduleChoicesAttrName = "moe.schedule_choices";

/// The module's `#moe.parallel`, or null after an error at `op` that says what is missing.
ParallelAttr getParallel(Operation *op);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_MOEDIALECT_H
