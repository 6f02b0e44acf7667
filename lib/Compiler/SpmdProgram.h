//===- SpmdProgram.h - programs of ranks as text ----------------*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_SPMDPROGRAM_H
#define MOE_LIB_COMPILER_SPMDPROGRAM_H

#include "moe/Compiler/Schedule.h"

namespace mlir::moe {

/// The functions of a module behind the model graph.
inline constexpr StringLiteral kRankName = "rank", kReferenceName = "reference";

/// On a module at the SPMD stage: the schedule that was asked for, where `plan.schedule`, what could be had of it, is
/// another. It decides whether the launches are put into another order.
inline constexpr StringLiteral kRequestedAttrName = "plan.requested";

/// What a module at the SPMD stage says of itself.
struct SpmdHeader {
  ParallelAttr parallel;
  ParsedSchedule schedule;
  std::optional<OrderPolicy> order;
};

/// Reads a module at the SPMD stage, which may be written by hand, and makes of it what compileSchedule() has at that
/// stage. Fails with an error where its functions are none of a rank. `reference`: whether to keep the reference.
FailureOr<SpmdHeader> takeSpmdHeader(ModuleOp module, bool reference);

/// Every type that the program holds is small enough to count its bytes, and those of many such, in 64 bits.
LogicalResult checkSizes(func::FuncOp program);

/// Arguments and results, which are found by name at run time, have names of their own and one of the roles.
LogicalResult checkNames(func::FuncOp function, StringRef what, ArrayRef<StringRef> argumentRoles,
                         ArrayRef<StringRef> resultRoles);

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_SPMDPROGRAM_H
