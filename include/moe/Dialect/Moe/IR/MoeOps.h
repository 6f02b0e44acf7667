//===- MoeOps.h - ops of the moe dialect ------------------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEOPS_H
#define MOE_DIALECT_MOE_IR_MOEOPS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"

namespace mlir::moe {

/// Sizes of the windows of a worker, as moe.window defines them.
struct WindowSizes {
  int64_t workers = 1, rows = 1, chunks = 1, chunkRows = 0, phases = 1;

  /// The most passes that any routing needs. `slots` [S, k] are those of one of `members` members, whose tokens choose
  /// among `experts` experts.
  int64_t countMostPasses(RankedTensorType slots, int64_t members, int64_t experts) const;
};

} // namespace mlir::moe

#define GET_OP_CLASSES
#include "moe/Dialect/Moe/IR/MoeOps.h.inc"

#endif // MOE_DIALECT_MOE_IR_MOEOPS_H
