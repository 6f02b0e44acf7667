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
/// On an i32 argument that is ids: an integer that they are below, to draw random ones from.
inline constexpr StringLiteral kBelowAttrName = "moe.below";
/// On an i32 argument that is tokens (i64): how many of them are a sequence.
inline constexpr StringLiteral kSequenceAttrName = "moe.sequence";
/// On a parameter (f64): what a new model has everywhere, where that is not random.
inline constexpr StringLiteral kFillAttrName = "moe.fill";
/// On a parameter (unit) that optimizers do not decay, though it is no vector: the biases of experts.
inline constexpr StringLiteral kNoDecayAttrName = "moe.no_decay";
/// On a parameter: a dictionary that says of which tensors of a checkpoint it is made (docs/Runtime.md).
inline constexpr StringLiteral kSourceAttrName = "moe.source";
/// On a parameter or state that is a bucket: an array of a dictionary for each of its pieces. It has what would be said
/// of the piece if it were an argument, its type on a rank (`type`), and the element at which it begins (`at`).
inline constexpr StringLiteral kPiecesAttrName = "moe.pieces";
/// On an op of parameters alone (unit): moe-accumulate repeats it for each micro-batch.
inline constexpr StringLiteral kEachMicroBatchAttrName = "moe.each_micro_batch";
/// On ops: `#moe.chunk`, `#moe.ring` for the results, and `#moe.residual` for them, keep where absent.
inline constexpr StringLiteral kChunkAttrName = "moe.chunk";
inline constexpr StringLiteral kRingAttrName = "moe.ring";
inline constexpr StringLiteral kResidualAttrName = "moe.residual";
/// On ops of a further pass of a dropless layer (a name): all ops of that name are repeated together, as often as the
/// routing demands.
inline constexpr StringLiteral kPassAttrName = "moe.pass";
/// On ops, as `#moe.chunk`: which micro-batch an op belongs to.
inline constexpr StringLiteral kMicroBatchAttrName = "moe.micro_batch";
/// f64: how long an op takes, by a cost model (moe-price-ops).
inline constexpr StringLiteral kSecondsAttrName = "moe.seconds";
/// On ops, as `#moe.stage`: which stage of a pipeline an op belongs to.
inline constexpr StringLiteral kStageAttrName = "moe.stage";
/// On a function that is cut everywhere where it can be, a dense array of f64: of each part the bytes that it receives
/// from the parts before it.
inline constexpr StringLiteral kPartBytesAttrName = "moe.part_bytes";
/// On an argument (i64): the bytes that it counts as where parameters share buckets, in place of its own.
inline constexpr StringLiteral kCountedBytesAttrName = "moe.counted_bytes";
/// The device of each stage. Absent: stage s is on device s mod devices.
inline constexpr StringLiteral kStageDevicesAttrName = "moe.stage_devices";
/// On a function, where it is the program of some ranks only: the first of them and how many they are.
inline constexpr StringLiteral kRanksAttrName = "moe.ranks";
/// On a result: the name of the argument whose place it takes, in its memory.
inline constexpr StringLiteral kUpdatesAttrName = "moe.updates";
/// On an argument of a plan (unit): its value after a step is a result.
inline constexpr StringLiteral kUpdatedAttrName = "moe.updated";
/// On an op that moe-differentiate has repeated in the backward (unit): CSE leaves it there.
inline constexpr StringLiteral kRepeatedAttrName = "moe.repeated";
/// What a pass that chooses between schedules found, on a function: an array of a dictionary for each layer. Of
/// moe-pause-mp: `layer` (name), `chosen` (s1 or s2), `obstacle` (why s1 cannot be, or empty), `tokens` of a rank, the
/// terms `all_to_all`, `all_gather` and `overlapped` as [seconds, seconds a byte, bytes, seconds for these bytes], `s1`
/// and `s2` (t1 and t2, seconds), and `s1_alpha` and `s2_alpha`, what they are without tokens.
inline constexpr StringLiteral kScheduleChoicesAttrName = "moe.schedule_choices";
/// On a moe.dispatch: the schedule that moe-pause-mp gives its layer, "s1" or "s2".
inline constexpr StringLiteral kPauseMpAttrName = "moe.pause_mp";
/// On a module: the #moe.cluster for which passes decide.
inline constexpr StringLiteral kClusterAttrName = "moe.cluster";
/// On a moe.dispatch: the passes, an array of their names, that left its layer as it is.
inline constexpr StringLiteral kLeftAttrName = "moe.left";

/// Roles of arguments and results (`moe.role`) that passes know.
inline constexpr StringLiteral kInputRole = "input", kParameterRole = "parameter", kGradientRole = "gradient",
                               kCotangentRole = "cotangent", kLossRole = "loss", kMetricRole = "metric",
                               kStepRole = "step", kStateRole = "state", kRateRole = "rate", kUpdateRole = "update",
                               kResidualRole = "residual";

/// Gives `to`, which is built for `from`, what says to which part of the work that belongs: its micro-batch and stage.
void inheritUnit(Operation *from, Operation *to);
/// The same with its chunk, and with its further pass.
void inheritPlace(Operation *from, Operation *to);

/// The module's `#moe.parallel`, or null after an error at `op` that says what is missing.
ParallelAttr getParallel(Operation *op);
/// The rates of the nearest `moe.cluster` around `op`, or the defaults.
ClusterRates getClusterRates(Operation *op);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_MOEDIALECT_H
