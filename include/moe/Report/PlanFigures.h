//===- PlanFigures.h - a plan in figures ------------------------*- C++ -*-===//
#ifndef MOE_REPORT_PLANFIGURES_H
#define MOE_REPORT_PLANFIGURES_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::moe {

/// Writes a JSON object with figures of each rank program of `module` by name: launches, FLOPs and bytes of each kernel
/// and stream, and the bytes that one rank sends over each group. Each arena has its size, the most bytes alive at a
/// launch, and the buffers alive then with the launch that wrote them, largest first. `prediction` is a JSON value that
/// becomes the attribute of this name; empty for none.
void writePlanReport(ModuleOp module, StringRef prediction, raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_REPORT_PLANFIGURES_H
