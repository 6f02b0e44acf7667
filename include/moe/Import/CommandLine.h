//===- CommandLine.h - import options of a command line ---------*- C++ -*-===//
#ifndef MOE_IMPORT_COMMANDLINE_H
#define MOE_IMPORT_COMMANDLINE_H

#include "llvm/Support/CommandLine.h"

#include "moe/Import/Import.h"

namespace mlir::moe {

/// The options by which a tool takes a Hugging Face configuration: --batch, --seq, --layers, --dtype, and the token
/// form.
class ImportCommandLine {
public:
  explicit ImportCommandLine(llvm::cl::OptionCategory &category);

  /// The name of an option that was given, or an empty string.
  llvm::StringRef getGivenOption() const;

  /// The graph of the configuration at `input` (a path, the name of a shared model, or - for standard input), with
  /// batch * seq * dataParallel tokens. An error is a complete diagnostic. `argv0` finds the shared models.
  llvm::Expected<OwningOpRef<ModuleOp>> importFile(MLIRContext &context, llvm::StringRef input, const char *argv0,
                                                   int64_t dataParallel) const;

private:
  ImportOptions getOptions() const;

  llvm::cl::opt<int64_t> batch, seq, layers;
  llvm::cl::opt<double> capacityFactor;
  llvm::cl::opt<bool> dropless;
  llvm::cl::opt<double> maxLoad;
  llvm::cl::opt<ImportType> dtype;
};

} // namespace mlir::moe

#endif // MOE_IMPORT_COMMANDLINE_H
