//===- SpmdProgram.h - programs of ranks as text ----------------*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_SPMDPROGRAM_H
#define MOE_LIB_COMPILER_SPMDPROGRAM_H

#include "moe/Compiler/Schedule.h"

namespace mlir::moe {

/// Names of the functions of a module that was compiled from a model graph.
inline constexpr StringLiteral kRankName = "rank", kReferenceName = "reference";

/// Attribute of a module at the SPMD stage: the schedule that was asked for, if `plan.schedule`, the applied part of
/// it, is another. It decides whether the launches are put into another order.
inline constexpr StringLiteral kRequestedAttrName = "plan.requested";

/// Attributes of a module at the SPMD stage.
struct SpmdHeader {
  ParallelAttr parallel;
  ParsedSchedule schedule;
  std::optional<OrderPolicy> order;
};

/// Reads a module at the SPMD stage, which may be written by hand, and turns it into the form that compileSchedule()
/// has at that stage. Fails with an error if its functions are not those of a rank. `reference`: whether to keep the
/// reference.
FailureOr<SpmdHeader> takeSpmdHeader(ModuleOp module, bool reference);

/// Checks that each type of the program is small enough to count the bytes of many such values in 64 bits.
LogicalResult checkSizes(func::FuncOp program);

/// Checks that arguments and results, which are found by name at run time, have different names and one of the roles.
LogicalResult checkNames(func::FuncOp function, StringRef what, ArrayRef<StringRef> argumentRoles,
                         ArrayRef<StringRef> resultRoles);

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_SPMDPROGRAM_H
