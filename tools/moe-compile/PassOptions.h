//===- PassOptions.h - MLIR's own options for passes ------------*- C++ -*-===//
#ifndef MOE_TOOLS_MOE_COMPILE_PASSOPTIONS_H
#define MOE_TOOLS_MOE_COMPILE_PASSOPTIONS_H

#include <deque>

#include "moe/Compiler/Compiler.h"

namespace mlir::moe {

/// Registers MLIR's options for passes, before the command line is parsed; --help lists the short ones.
void registerPassOptions(llvm::cl::OptionCategory &category);

/// Applies MLIR's options to each stage of a compilation that it runs, and reports times at its end.
class PassWatcher {
public:
  explicit PassWatcher(MLIRContext &context);

  /// Prints each stage as `name: pipeline`.
  void printPipelines() { printsPipelines = true; }
  /// Refers to this object; null without an option.
  PassRunner getRunner();

private:
  LogicalResult run(llvm::StringRef stage, PassManager &passes, llvm::function_ref<LogicalResult()> runPasses);

  MLIRContext &context;
  bool printsPipelines = false;
  DefaultTimingManager timing;
  TimingScope all;
  /// One address for each stage, by which MLIR tells timers apart: names and addresses of passes recur.
  std::deque<char> stages;
};

} // namespace mlir::moe

#endif // MOE_TOOLS_MOE_COMPILE_PASSOPTIONS_H
