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
/// Bound of an i32 argument of ids, from below which random ids are drawn.
inline constexpr StringLiteral kBelowAttrName = "moe.below";
/// Number of tokens (i64) of a sequence, on an i32 argument of tokens.
inline constexpr StringLiteral kSequenceAttrName = "moe.sequence";
/// Value (f64) of all elements of a parameter in a new model, if it is not random.
inline constexpr StringLiteral kFillAttrName = "moe.fill";
/// Mark (unit) of a parameter that optimizers do not decay, although it is no vector: the biases of experts.
inline constexpr StringLiteral kNoDecayAttrName = "moe.no_decay";
/// Dictionary of the tensors of a checkpoint from which a parameter is made (docs/Checkpoints.md).
inline constexpr StringLiteral kSourceAttrName = "moe.source";
/// Array of a dictionary for each piece of a bucket of parameters or states. A piece has the attributes that it would
/// have as an argument, its type on a rank (`type`), and the element at which it begins (`at`).
inline constexpr StringLiteral kPiecesAttrName = "moe.pieces";
/// Mark (unit) of an op that depends on parameters alone, which moe-accumulate repeats for each micro-batch.
inline constexpr StringLiteral kEachMicroBatchAttrName = "moe.each_micro_batch";
/// Attributes of ops: `#moe.chunk`, `#moe.ring` for the results, and `#moe.residual` for the results, `keep` by
/// default.
inline constexpr StringLiteral kChunkAttrName = "moe.chunk";
inline constexpr StringLiteral kRingAttrName = "moe.ring";
inline constexpr StringLiteral kResidualAttrName = "moe.residual";
/// Name of the further pass of a dropless layer to which an op belongs. All ops of that name are repeated together, as
/// often as the routing demands.
inline constexpr StringLiteral kPassAttrName = "moe.pass";
/// Micro-batch of an op, as `#moe.chunk`.
inline constexpr StringLiteral kMicroBatchAttrName = "moe.micro_batch";
/// Seconds (f64) of an op by a cost model (moe-price-ops).
inline constexpr StringLiteral kSecondsAttrName = "moe.seconds";
/// Stage of a pipeline to which an op belongs, as `#moe.stage`.
inline constexpr StringLiteral kStageAttrName = "moe.stage";
/// Bytes that each part receives from the parts before it (dense array of f64), on a function that is cut at every
/// possible place.
inline constexpr StringLiteral kPartBytesAttrName = "moe.part_bytes";
/// Bytes (i64) that an argument counts as where parameters share buckets, in place of its own bytes.
inline constexpr StringLiteral kCountedBytesAttrName = "moe.counted_bytes";
/// Device of each stage. By default stage s is on device s mod devices.
inline constexpr StringLiteral kStageDevicesAttrName = "moe.stage_devices";
/// First rank and number of ranks of a function that is the program of some ranks only.
inline constexpr StringLiteral kRanksAttrName = "moe.ranks";
/// Name of the argument whose place a result takes, in the memory of the argument.
inline constexpr StringLiteral kUpdatesAttrName = "moe.updates";
/// Mark (unit) of an argument of a plan whose value after a step is a result.
inline constexpr StringLiteral kUpdatedAttrName = "moe.updated";
/// Mark (unit) of an op that moe-differentiate has repeated in the backward, where CSE must leave it.
inline constexpr StringLiteral kRepeatedAttrName = "moe.repeated";
/// Findings of a pass that chooses between schedules, on a function: an array of a dictionary for each layer. Those of
/// moe-pause-mp are `layer` (name), `chosen` (s1 or s2), `obstacle` (why s1 is impossible, or empty), `tokens` of a
/// rank, the terms `all_to_all`, `all_gather` and `overlapped` as [seconds, seconds a byte, bytes, seconds for these
/// bytes], `s1` and `s2` (t1 and t2, seconds), and `s1_alpha` and `s2_alpha`, their parts that do not depend on tokens.
inline constexpr StringLiteral kScheduleChoicesAttrName = "moe.schedule_choices";
/// Schedule that moe-pause-mp gives the layer of a moe.dispatch, "s1" or "s2".
inline constexpr StringLiteral kPauseMpAttrName = "moe.pause_mp";
/// The #moe.cluster of a module, for which passes decide.
inline constexpr StringLiteral kClusterAttrName = "moe.cluster";
/// Types of a module's program, and of its sums of gradients, as `--dtype` and `--grad-dtype` ask for them.
inline constexpr StringLiteral kDTypeAttrName = "moe.dtype";
inline constexpr StringLiteral kGradientDTypeAttrName = "moe.grad_dtype";
/// Names of the passes (array) that left the layer of a moe.dispatch as it is.
inline constexpr StringLiteral kLeftAttrName = "moe.left";

/// Roles of arguments and results (`moe.role`) that passes know.
inline constexpr StringLiteral kInputRole = "input", kParameterRole = "parameter", kGradientRole = "gradient",
                               kCotangentRole = "cotangent", kLossRole = "loss", kMetricRole = "metric",
                               kStepRole = "step", kStateRole = "state", kRateRole = "rate", kUpdateRole = "update",
                               kResidualRole = "residual";

/// The role of an argument or result of a function, or an empty text.
StringRef getRole(BlockArgument argument);
StringRef getRole(OpOperand &result);
/// Attributes of an argument or result. `layout`, `updates` and `pieces` may be null or empty.
DictionaryAttr describeValue(StringAttr name, StringRef role, Attribute layout, StringRef updates = "",
                             ArrayAttr pieces = {});

/// Gives `to`, which is built for `from`, the micro-batch and stage of `from`.
void inheritUnit(Operation *from, Operation *to);
/// Gives `to` the micro-batch, stage, chunk and further pass of `from`.
void inheritPlace(Operation *from, Operation *to);

/// The module's `#moe.parallel`, or null after an error at `op` that says what is missing.
ParallelAttr getParallel(Operation *op);
/// The rates of the nearest `moe.cluster` around `op`, or the defaults.
ClusterRates getClusterRates(Operation *op);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_MOEDIALECT_H
