//===- StepCommandLine.h - a training step's options ------------*- C++ -*-===//
#ifndef MOE_COMPILER_STEPCOMMANDLINE_H
#define MOE_COMPILER_STEPCOMMANDLINE_H

#include "llvm/Support/CommandLine.h"

#include "moe/Compiler/Compiler.h"

namespace mlir::moe {

/// --optimizer, what it takes, --micro-batches, and how a pipeline goes through them.
class StepCommandLine {
public:
  explicit StepCommandLine(llvm::cl::OptionCategory &category);

  /// Sets what belongs to the step in `options`, whose mode is set. Errors are reported at an unknown place.
  LogicalResult setOptions(MLIRContext &context, CompileOptions &options) const;

private:
  FailureOr<MoeOptimizeOptions> getOptimizer(MLIRContext &context) const;

  llvm::cl::opt<std::string> optimizer;
  llvm::cl::opt<double> momentum, beta1, beta2, eps, weightDecay, clipNorm;
  llvm::cl::opt<bool> zero;
  llvm::cl::opt<int64_t> microBatches, interleave;
  llvm::cl::opt<bool> recompute, sequenceParallel;
};

} // namespace mlir::moe

#endif // MOE_COMPILER_STEPCOMMANDLINE_H
