//===- StepCommandLine.h - a training step's options ------------*- C++ -*-===//
#ifndef MOE_TOOLS_COMMANDLINE_STEPCOMMANDLINE_H
#define MOE_TOOLS_COMMANDLINE_STEPCOMMANDLINE_H

#include "moe/Planner/AutoParallel.h"

namespace mlir::moe {

/// Sequences of the whole world in a step (--global-batch), and of a data-parallel rank in a micro-batch.
struct GlobalBatch {
  int64_t sequences, batch;
};

/// Options of a training step: the optimizer, and the choices of visitChoices().
class StepCommandLine {
public:
  explicit StepCommandLine(llvm::cl::OptionCategory &category);

  /// Sets the step's `options`, whose mode and groups are set. A global batch gives the micro-batches. With `isOpen`,
  /// nothing that depends on groups is checked or set. Errors are reported at an unknown place.
  LogicalResult setOptions(MLIRContext &context, PlanOptions &options, std::optional<GlobalBatch> globalBatch,
                           bool isOpen) const;

private:
  FailureOr<MoeOptimizeOptions> getOptimizer(MLIRContext &context) const;
  /// Sets the choices that were given, and as many stages on a device as the order of the pipeline needs.
  LogicalResult setChoices(MLIRContext &context, PlanOptions &options) const;
  LogicalResult setSharding(MLIRContext &context, PlanOptions &options) const;

  llvm::cl::opt<std::string> optimizer;
  llvm::cl::opt<double> momentum, beta1, beta2, eps, weightDecay, clipNorm;
  llvm::cl::opt<std::string> bucketBytes;
  llvm::cl::opt<int64_t> zeroRanks;
  llvm::cl::opt<bool> unroll;
  llvm::cl::opt<std::string> gradDtype;
  /// Options of the choices that visitChoices() has help for.
  std::vector<std::unique_ptr<llvm::cl::Option>> choices;
};

} // namespace mlir::moe

#endif // MOE_TOOLS_COMMANDLINE_STEPCOMMANDLINE_H
