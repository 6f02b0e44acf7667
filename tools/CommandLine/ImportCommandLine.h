//===- ImportCommandLine.h - import options of a command line ---*- C++ -*-===//
#ifndef MOE_TOOLS_COMMANDLINE_IMPORTCOMMANDLINE_H
#define MOE_TOOLS_COMMANDLINE_IMPORTCOMMANDLINE_H

#include "llvm/ADT/StringSet.h"

#include "Parsers.h"
#include "moe/Import/Import.h"
#include "moe/Import/MegatronArguments.h"
#include "moe/Import/ReducedModel.h"
#include "moe/Planner/Remedies.h"

#include <mutex>

namespace mlir::moe {

/// The batch shape of a graph.
struct ImportShape {
  int64_t batch, seq; ///< as in ImportOptions
};

/// The options by which a tool takes a Hugging Face configuration, or the arguments of a Megatron-LM job: --batch,
/// --seq, --layers, --whole-model, --dtype, --strict, --megatron-args, --vocab-size, and the token form.
class ImportCommandLine {
public:
  explicit ImportCommandLine(llvm::cl::OptionCategory &category);

  /// The name of an option that was given, or an empty string.
  llvm::StringRef getGivenOption() const;

  /// Each --batch with each --seq, in the order given. An error is a complete diagnostic.
  llvm::Expected<llvm::SmallVector<ImportShape>> getShapes() const;

  /// Imports the configuration at `input` (a path, the name of a shared model, or - for standard input) in `form`, in
  /// the smallest sizes for `reduced`. Without a `shape` the options must give one. A whole model has a loss with
  /// `loss`, for training. An error is a complete diagnostic.
  llvm::Expected<OwningOpRef<ModuleOp>> importFile(MLIRContext &context, llvm::StringRef input, const ModelForm &form,
                                                   bool loss, std::optional<ImportShape> shape = std::nullopt,
                                                   const ReducedSizes *reduced = nullptr) const;

  /// Flags with which a plan for `shape` needs less. With a global batch, a smaller batch makes more micro-batches.
  std::vector<MemoryFlag> getMemoryFlags(ImportShape shape, bool hasGlobalBatch, const ModelForm &asked) const;

  /// The first block that is like each block that is used. Empty without --whole-model, and with an encoder.
  llvm::Expected<std::vector<int64_t>> getBlockKinds(llvm::StringRef input) const;

  /// --megatron-args, whose model is imported instead of the `input`; empty if it is not given.
  llvm::StringRef getMegatronFile() const { return megatronFile; }
  /// The arguments in it. Warns of those that are not understood, once; with --strict they are an error.
  llvm::Expected<const MegatronArguments *> getMegatron() const;
  /// Reads the configuration at `input`. An error is a complete diagnostic.
  llvm::Expected<ModelConfig> parse(llvm::StringRef input) const;
  /// Blocks of the model that are used: --layers or all.
  int64_t countBlocks(const ModelConfig &config) const;

  /// --dtype: "f32", ..
  llvm::StringRef getDType() const;
  /// Bounds the rows of a dropless layer without --max-load.
  void setDefaultMaxLoad(double load) { defaultMaxLoad = load; }
  std::optional<double> getDefaultMaxLoad() const {
    return maxLoad.getNumOccurrences() ? std::nullopt : defaultMaxLoad;
  }

  /// --batch where it is given.
  bool hasBatch() const { return batch.getNumOccurrences() > 0; }

private:
  llvm::Expected<ModelConfig> parseFile(llvm::StringRef input) const;
  /// Warns of what is not understood in `file`; with --strict it is an error.
  llvm::Error report(llvm::StringRef file, const ConfigRemark &remark, llvm::StringRef hint = "") const;
  /// Warns of options that say how experts take tokens, once of each file, where no block that is taken has experts.
  void warnOfNoExperts(const ModelConfig &config) const;
  ImportOptions getOptions(ImportShape shape) const;

  llvm::cl::list<int64_t> batch, seq;
  llvm::cl::opt<int64_t> layers;
  llvm::cl::opt<bool> residual, whole;
  llvm::cl::opt<double> capacityFactor;
  llvm::cl::opt<bool> dropless;
  llvm::cl::opt<Bound> maxLoad;
  llvm::cl::opt<int64_t> groups;
  llvm::cl::opt<ImportType, false, NameParser<ImportType>> dtype;
  llvm::cl::opt<bool> strict;
  llvm::cl::opt<std::string> megatronFile;
  llvm::cl::opt<int64_t> vocabulary;
  mutable std::optional<MegatronArguments> megatron;
  std::optional<double> defaultMaxLoad;
  mutable llvm::StringSet<> warnedOfNoExperts; ///< files
  mutable std::mutex mutex;                    ///< guards `parsed`, since searches read the model in threads
  mutable std::optional<ModelConfig> parsed;
};

} // namespace mlir::moe

#endif // MOE_TOOLS_COMMANDLINE_IMPORTCOMMANDLINE_H
