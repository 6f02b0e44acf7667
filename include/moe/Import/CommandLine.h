//===- CommandLine.h - import options of a command line ---------*- C++ -*-===//
#ifndef MOE_IMPORT_COMMANDLINE_H
#define MOE_IMPORT_COMMANDLINE_H

#include "llvm/Support/CommandLine.h"

#include "moe/Import/Import.h"

namespace mlir::moe {

/// What one graph is for.
struct ImportShape {
  int64_t batch, seq; ///< as in ImportOptions
};

/// The options by which a tool takes a Hugging Face configuration: --batch, --seq, --layers, --whole-model, --dtype,
/// and the token form.
class ImportCommandLine {
public:
  explicit ImportCommandLine(llvm::cl::OptionCategory &category);

  /// The name of an option that was given, or an empty string.
  llvm::StringRef getGivenOption() const;

  /// Each --batch with each --seq, in the order given; one shape unless lists were given. An error is a complete
  /// diagnostic.
  llvm::Expected<llvm::SmallVector<ImportShape>> getShapes() const;

  /// The graph of the configuration at `input` (a path, the name of a shared model, or - for standard input), with
  /// batch * seq * dataParallel tokens. An error is a complete diagnostic. `argv0` finds the shared models. Without a
  /// `shape` the options must give one. `loss`: of a whole model, for training.
  llvm::Expected<OwningOpRef<ModuleOp>> importFile(MLIRContext &context, llvm::StringRef input, const char *argv0,
                                                   int64_t dataParallel, bool loss,
                                                   std::optional<ImportShape> shape = std::nullopt) const;

private:
  ImportOptions getOptions(ImportShape shape) const;

  llvm::cl::list<int64_t> batch, seq;
  llvm::cl::opt<int64_t> layers;
  llvm::cl::opt<bool> whole;
  llvm::cl::opt<double> capacityFactor;
  llvm::cl::opt<bool> dropless;
  llvm::cl::opt<double> maxLoad;
  llvm::cl::opt<int64_t> groups;
  llvm::cl::opt<ImportType> dtype;
};

} // namespace mlir::moe

#endif // MOE_IMPORT_COMMANDLINE_H
