//===- StageCut.h - stages of about equal time ------------------*- C++ -*-===//
#ifndef MOE_SCHEDULING_STAGECUT_H
#define MOE_SCHEDULING_STAGECUT_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>

namespace mlir::moe {

/// Divides consecutive parts of a program into stages, such that the slowest stage takes as little time as possible.
struct StageCutProblem {
  /// Seconds that each part takes.
  SmallVector<double> seconds;
  /// Seconds that each part needs, if it begins a stage, to receive the results of the parts before it.
  SmallVector<double> receive;
  int64_t stages = 1;

  /// The mistake in the input, or an empty string.
  std::string check() const;
  /// The mistake in a solution, or an empty string.
  std::string verify(ArrayRef<size_t> first) const;
};

/// The first part of each stage. Expects a problem without a mistake.
SmallVector<size_t> cutIntoStages(const StageCutProblem &problem);

} // namespace mlir::moe

#endif // MOE_SCHEDULING_STAGECUT_H
