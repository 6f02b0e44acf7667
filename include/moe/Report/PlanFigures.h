//===- PlanFigures.h - a plan in figures ------------------------*- C++ -*-===//
#ifndef MOE_REPORT_PLANFIGURES_H
#define MOE_REPORT_PLANFIGURES_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::moe {

/// Writes a JSON object with, for each rank program of `module` by name: the launches, FLOPs and bytes of each kernel
/// and of each stream, the bytes that one rank sends over each group, and for each arena its size, the most bytes alive
/// at a launch, and the buffers alive then with the launch that wrote them, largest first. `prediction` is a JSON value
/// that becomes the attribute of this name; empty for none.
void writePlanReport(ModuleOp module, StringRef prediction, raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_REPORT_PLANFIGURES_H
