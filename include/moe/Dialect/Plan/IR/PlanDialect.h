//===- PlanDialect.h - the plan dialect -------------------------*- C++ -*-===//
#ifndef MOE_DIALECT_PLAN_IR_PLANDIALECT_H
#define MOE_DIALECT_PLAN_IR_PLANDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"

namespace mlir::plan {

/// The members of a group between which a value is transferred.
struct Channel {
  int64_t from, to;
};

} // namespace mlir::plan

#include "moe/Dialect/Plan/IR/PlanDialect.h.inc"
#include "moe/Dialect/Plan/IR/PlanEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "moe/Dialect/Plan/IR/PlanAttrs.h.inc"
#define GET_OP_CLASSES
#include "moe/Dialect/Plan/IR/PlanOps.h.inc"

namespace mlir::plan {

/// Names of the function attributes of rank programs.
inline constexpr StringLiteral kInputsAttrName = "plan.inputs";
inline constexpr StringLiteral kArenasAttrName = "plan.arenas";
inline constexpr StringLiteral kRanksAttrName = "plan.ranks";
/// Mark (unit) of a function that launches of "repeat" run. They name it by the symbol kProgramAttrName.
inline constexpr StringLiteral kSubprogramAttrName = "plan.subprogram";
inline constexpr StringLiteral kProgramAttrName = "plan.program";
/// Kernel of launches that run a subprogram.
inline constexpr StringLiteral kRepeatKernel = "repeat";
/// Name of the cluster for which the launches of a module have `seconds`.
inline constexpr StringLiteral kClusterAttrName = "plan.cluster";
/// Schedules that were compared (array of dictionaries), on a module whose chunks or strategy were left open.
/// moe/Planner/Explanation.h writes and reads this and the other explanations.
inline constexpr StringLiteral kSearchAttrName = "plan.search";
/// ScheduleExplanation as a dictionary of its fields, on a module whose whole schedule was left open. Candidates have
/// those fields that are not 0, false or empty.
inline constexpr StringLiteral kExplainAttrName = "plan.explain";
/// Order, as plan-order names it, if such a schedule is compiled in another order than its own.
inline constexpr StringLiteral kOrderAttrName = "plan.order";
/// GroupsExplanation as a dictionary, on a module whose groups were left open.
inline constexpr StringLiteral kExplainParallelAttrName = "plan.explain_parallel";

/// Streams of a rank program.
inline constexpr StringLiteral kComputeStream = "compute";
inline constexpr StringLiteral kIntraStream = "comm.intra";
inline constexpr StringLiteral kInterStream = "comm.inter";
inline constexpr StringLiteral kCopyStream = "copy";
/// Prefixes of the streams of transfers, before the number of the other member. Each channel has streams of its own, so
/// that none waits for another one.
inline constexpr StringLiteral kSendStreamPrefix = "comm.send.";
inline constexpr StringLiteral kReceiveStreamPrefix = "comm.receive.";

/// Bytes of the largest arena. With this limit no sum of an offset and the bytes of a buffer overflows.
inline constexpr int64_t kMaxArenaBytes = int64_t(1) << 62;
/// Names the types for which isBufferType holds, for messages.
inline constexpr StringLiteral kBufferTypes =
    "a dense row-major memref of f32, f64, bf16, f16 or i32 with rank 4 and 2^48 bytes at most";

/// Whether calls can take a value of this type: static, dense and row-major, of f32, f64, bf16, f16 or i32, of rank 4
/// and moe::kMaxTensorBytes at most.
bool isBufferType(MemRefType type);
/// Bytes of a value for which isBufferType holds.
int64_t getByteSize(MemRefType type);
inline int64_t getByteSize(Value value) { return getByteSize(cast<MemRefType>(value.getType())); }
/// The buffer or argument in which a value lies. A plan.view lies in the memory of its source.
Value getMemory(Value value);
/// The launches that use `buffer` or a view of it. A launch appears once for each use.
SmallVector<LaunchOp> getLaunches(BufferOp buffer);

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_IR_PLANDIALECT_H
