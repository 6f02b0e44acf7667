//===- PlanTable.h - what a plan does, in words -----------------*- C++ -*-===//
#ifndef MOE_REPORT_PLANTABLE_H
#define MOE_REPORT_PLANTABLE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::moe {

/// Writes a table of the rank program at the plan stage: its launches with their stream, group, FLOPs and bytes, and
/// its memory with the buffers at the peak of each arena.
LogicalResult printReport(ModuleOp plan, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_REPORT_PLANTABLE_H
