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

/// The members of a group between which something is handed over.
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
/// On a function (unit): it is the program of launches of "repeat", which name it (kProgramAttrName, a symbol).
inline constexpr StringLiteral kSubprogramAttrName = "plan.subprogram";
inline constexpr StringLiteral kProgramAttrName = "plan.program";
/// The kernel of such launches.
inline constexpr StringLiteral kRepeatKernel = "repeat";
/// On a module: the name of the cluster for which the launches' `seconds` are.
inline constexpr StringLiteral kClusterAttrName = "plan.cluster";
/// On a module whose chunks or strategy were left open: the schedules that were compared, as an array of dictionaries.
/// moe/Planner/Explanation.h writes and reads this and the other explanations.
inline constexpr StringLiteral kSearchAttrName = "plan.search";
/// On a module whose whole schedule was left open: a ScheduleExplanation as a dictionary of its fields; candidates have
/// those that are not 0, false or empty.
inline constexpr StringLiteral kExplainAttrName = "plan.explain";
/// On such a module, where the schedule is compiled in another order than by itself: the order, as plan-order names it.
inline constexpr StringLiteral kOrderAttrName = "plan.order";
/// On a module whose groups were left open: a GroupsExplanation likewise.
inline constexpr StringLiteral kExplainParallelAttrName = "plan.explain_parallel";

/// Streams of a rank program.
inline constexpr StringLiteral kComputeStream = "compute";
inline constexpr StringLiteral kIntraStream = "comm.intra";
inline constexpr StringLiteral kInterStream = "comm.inter";
inline constexpr StringLiteral kCopyStream = "copy";
/// Of each channel its own, so that one never waits for another: with the number of the other member.
inline constexpr StringLiteral kSendStreamPrefix = "comm.send.";
inline constexpr StringLiteral kReceiveStreamPrefix = "comm.receive.";

/// Bytes of the largest arena: no sum of an offset and of the bytes of a buffer overflows.
inline constexpr int64_t kMaxArenaBytes = int64_t(1) << 62;
/// For messages: the types for which isBufferType holds.
inline constexpr StringLiteral kBufferTypes =
    "a dense row-major memref of f32, f64, bf16, f16 or i32 with rank 4 and 2^48 bytes at most";

/// Whether calls can take such a value: static, dense and row-major, of f32, f64, bf16, f16 or i32, of rank 4 and
/// moe::kMaxTensorBytes at most.
bool isBufferType(MemRefType type);
/// Bytes of a value for which isBufferType holds.
int64_t getByteSize(MemRefType type);
/// The buffer or argument in which a value lies: itself, or what a plan.view, or a view of it, is part of.
Value getMemory(Value value);
/// The launches that use `buffer` or a view of it, each as often as it does.
SmallVector<LaunchOp> getLaunches(BufferOp buffer);

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_IR_PLANDIALECT_H
