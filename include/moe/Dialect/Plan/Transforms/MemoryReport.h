//===- MemoryReport.h - what holds the peak ---------------------*- C++ -*-===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_MEMORYREPORT_H
#define MOE_DIALECT_PLAN_TRANSFORMS_MEMORYREPORT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "moe/Dialect/Plan/IR/PlanDialect.h"

namespace mlir::plan {

/// A buffer that holds a value.
struct LiveBuffer {
  /// The launch that writes it first.
  LaunchOp writer;
  int64_t bytes;
  /// Offset in the arena, absent before plan-assign-memory.
  std::optional<int64_t> offset;

  /// Name of the writer's layer, which may be empty.
  StringRef getLabel() const { return LaunchOp(writer).getLabel().value_or(""); }
};

/// The use of one arena by a rank program.
struct ArenaReport {
  Space space;
  /// Bytes that plan-assign-memory reserves, 0 before.
  int64_t arenaBytes = 0;
  /// The most bytes that hold values at one launch, in program order. The arena is larger if streams run ahead or
  /// offsets leave gaps.
  int64_t liveBytes = 0;
  /// The first launch with that many live bytes, and the buffers alive then, largest first.
  LaunchOp peak;
  std::vector<LiveBuffer> live;
};

/// One report for each memory space, in the order of `Space`. Expects a program that passes verifyRankProgram.
SmallVector<ArenaReport, 2> reportMemory(func::FuncOp program);

/// Writes the memory that one rank of a program at the plan stage needs, and the buffers at the peak of each arena.
void printMemory(func::FuncOp program, raw_ostream &os);

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_TRANSFORMS_MEMORYREPORT_H
