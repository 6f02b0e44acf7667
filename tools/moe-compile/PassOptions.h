//===- PassOptions.h - MLIR's own options for passes ------------*- C++ -*-===//
#ifndef MOE_TOOLS_MOE_COMPILE_PASSOPTIONS_H
#define MOE_TOOLS_MOE_COMPILE_PASSOPTIONS_H

#include <deque>

#include "mlir/Support/Timing.h"
#include "llvm/Support/CommandLine.h"

#include "moe/Compiler/Compiler.h"

namespace mlir::moe {

/// Registers MLIR's options for passes; --help lists the short ones in `category`. Call it before the command line is
/// parsed.
void registerPassOptions(llvm::cl::OptionCategory &category);

/// What MLIR's options ask for, done for each stage of a compilation that it runs. Times are reported at its end.
class PassWatcher {
public:
  explicit PassWatcher(MLIRContext &context);

  /// Prints each stage as `name: pipeline`.
  void printPipelines() { printsPipelines = true; }
  /// Refers to this; null where nothing is asked for.
  PassRunner getRunner();

private:
  LogicalResult run(llvm::StringRef stage, PassManager &passes, llvm::function_ref<LogicalResult()> runPasses);

  MLIRContext &context;
  bool printsPipelines = false;
  DefaultTimingManager timing;
  TimingScope all;
  /// One address for each stage, by which MLIR tells timers apart: names, and the addresses of passes, come again.
  std::deque<char> stages;
};

} // namespace mlir::moe

#endif // MOE_TOOLS_MOE_COMPILE_PASSOPTIONS_H
