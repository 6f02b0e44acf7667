//===- PlanReport.h - a plan in a table and in figures ----------*- C++ -*-===//
#ifndef MOE_REPORT_PLANREPORT_H
#define MOE_REPORT_PLANREPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::moe {

/// Writes a table of the rank program at the plan stage: its launches with their stream, group, FLOPs and bytes, and
/// its memory with the buffers at the peak of each arena.
LogicalResult printReport(ModuleOp plan, llvm::raw_ostream &os);

/// Writes a JSON object with figures of each rank program of `module` by name: launches, FLOPs and bytes of each kernel
/// and stream, and the bytes that one rank sends over each group. Each arena has its size, the most bytes alive at a
/// launch, and the buffers alive then with their writers, largest first. `prediction` is a JSON value, or empty.
void writePlanReport(ModuleOp module, StringRef prediction, raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_REPORT_PLANREPORT_H
