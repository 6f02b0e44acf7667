//===- PassOptions.cpp - MLIR's own options for passes --------------------===//
#include "PassOptions.h"

#include "../Register.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

void mlir::moe::registerPassOptions(cl::OptionCategory &category) {
  // Some options take names of passes.
  registerToolPasses();
  registerPassManagerCLOptions();
  registerDefaultTimingManagerCLOptions();
  // The other options list every pass in the help, or are for people who debug passes.
  for (StringRef name : {"mlir-timing", "mlir-pass-statistics", "mlir-print-ir-before-all", "mlir-print-ir-after-all",
                         "mlir-print-ir-after-change"})
    if (cl::Option *option = cl::getRegisteredOptions().lookup(name)) {
      option->addCategory(category);
      option->setHiddenFlag(cl::Hidden);
    }
}

/// True if an option was given whose name begins with `prefix`.
static bool isPassOptionGiven(StringRef prefix) {
  return llvm::any_of(cl::getRegisteredOptions(), [&](const auto &option) {
    return option.getKey().starts_with(prefix) && option.getValue()->getNumOccurrences() > 0;
  });
}

PassWatcher::PassWatcher(MLIRContext &context) : context(context) {
  applyDefaultTimingManagerCLOptions(timing);
  all = timing.getRootScope();
}

LogicalResult PassWatcher::run(StringRef stage, PassManager &passes, function_ref<LogicalResult()> runPasses) {
  if (printsPipelines) {
    llvm::outs() << stage << ": ";
    passes.printAsTextualPipeline(llvm::outs());
    llvm::outs() << "\n";
  }
  // Printing needs whole modules, which no other thread may change. Earlier searches had their threads.
  if (isPassOptionGiven("mlir-print-ir-"))
    context.disableMultithreading();
  if (failed(applyPassManagerCLOptions(passes)))
    return failure();
  TimingScope scope = all.nest(&stages.emplace_back(), [&] { return stage.str(); });
  passes.enableTiming(scope);
  return runPasses();
}

PassRunner PassWatcher::getRunner() {
  if (!printsPipelines && !isPassOptionGiven("mlir-"))
    return nullptr;
  return [this](StringRef stage, PassManager &passes, function_ref<LogicalResult()> runPasses) {
    return run(stage, passes, runPasses);
  };
}
