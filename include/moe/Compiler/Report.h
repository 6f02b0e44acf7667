//===- Report.h - what a plan does, in words --------------------*- C++ -*-===//
#ifndef MOE_COMPILER_REPORT_H
#define MOE_COMPILER_REPORT_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::moe {

/// Writes what memory one rank of a program at the plan stage needs, and what holds the peak of each arena.
void printMemory(Operation *program, llvm::raw_ostream &os);

/// Writes a table of the rank program at the plan stage: its launches with their stream, group, FLOPs and bytes, and
/// its memory with what holds the peak of each arena.
LogicalResult printReport(ModuleOp plan, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_COMPILER_REPORT_H
