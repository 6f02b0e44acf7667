//===- Verify.h - the parts of plan-verify ----------------------*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_PLAN_TRANSFORMS_VERIFY_H
#define MOE_LIB_DIALECT_PLAN_TRANSFORMS_VERIFY_H

#include "moe/Dialect/Plan/Transforms/HappensBefore.h"

namespace mlir::plan {

/// A rank program and the ranks that run it.
struct Program {
  func::FuncOp function;
  HappensBefore order;
  bool isWhole = true; ///< whether `order` has all iterations
  int64_t firstRank = 0, numRanks = 1;
};

/// Fails after an error if two launches race, or if a launch reads other bytes than its buffer's writer left there.
LogicalResult verifyMemory(const Program &program);

/// Fails after an error if the collectives of `programs`, which together run on the ranks of one world, can hang.
/// `world` is 0 if unknown.
LogicalResult verifyCollectives(ArrayRef<Program> programs, int64_t world);

} // namespace mlir::plan

#endif // MOE_LIB_DIALECT_PLAN_TRANSFORMS_VERIFY_H
