//===- ImportCommandLine.h - import options of a command line ---*- C++ -*-===//
#ifndef MOE_TOOLS_COMMANDLINE_IMPORTCOMMANDLINE_H
#define MOE_TOOLS_COMMANDLINE_IMPORTCOMMANDLINE_H

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"

#include "Parsers.h"
#include "moe/Import/Import.h"
#include "moe/Import/MegatronArguments.h"
#include "moe/Import/ReducedModel.h"
#include "moe/Planner/Remedies.h"

namespace mlir::moe {

/// What one graph is for.
struct ImportShape {
  int64_t batch, seq; ///< as in ImportOptions
};

/// The options by which a tool takes a Hugging Face configuration, or the arguments of a Megatron-LM job: --batch,
/// --seq, --layers, --whole-model, --dtype, --strict, --megatron-args, and the token form.
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
  /// `shape` the options must give one. `loss`: of a whole model, for training. `blocks`:
  /// of a whole model its blocks of these indices alone; empty for all. `change`: instead of what is asked for.
  /// `reduced`: in the smallest sizes for these groups.
  llvm::Expected<OwningOpRef<ModuleOp>> importFile(MLIRContext &context, llvm::StringRef input, const char *argv0,
                                                   int64_t dataParallel, bool loss,
                                                   std::optional<ImportShape> shape = std::nullopt,
                                                   llvm::ArrayRef<int64_t> blocks = {}, const ModelChange &change = {},
                                                   const ReducedSizes *reduced = nullptr) const;

  /// Flags that are not given, and with which a plan for `shape` needs less memory. `hasGlobalBatch`: a smaller batch
  /// makes more micro-batches, not a smaller step.
  std::vector<MemoryFlag> getMemoryFlags(ImportShape shape, bool hasGlobalBatch, const ModelChange &asked) const;

  /// Of each block of the whole model at `input` that is taken the first that is like it; nothing without --whole-model
  /// and of models of an encoder and a decoder.
  llvm::Expected<std::vector<int64_t>> getBlockKinds(llvm::StringRef input, const char *argv0) const;

  /// --megatron-args, whose model is imported whatever the `input`; empty: it is not given.
  llvm::StringRef getMegatronFile() const { return megatronFile; }
  /// The arguments in it. Warns of those that are not understood, once; with --strict they are an error.
  llvm::Expected<const MegatronArguments *> getMegatron() const;
  /// What the configuration at `input` says. An error is a complete diagnostic.
  llvm::Expected<ModelConfig> parse(llvm::StringRef input, const char *argv0) const;
  /// Blocks of the model that are used: --layers or all.
  int64_t countBlocks(const ModelConfig &config) const;

  /// --dtype: "f32", ..
  llvm::StringRef getDType() const;
  /// Rows of a dropless layer are bounded so where --max-load does not say.
  void setDefaultMaxLoad(double load) { defaultMaxLoad = load; }
  std::optional<double> getDefaultMaxLoad() const {
    return maxLoad.getNumOccurrences() ? std::nullopt : defaultMaxLoad;
  }

  /// --batch where it is given.
  bool hasBatch() const { return batch.getNumOccurrences() > 0; }

private:
  llvm::Expected<ModelConfig> parseFile(llvm::StringRef input, const char *argv0) const;
  /// Warns of keys that are not understood, once of each file; with --strict they are an error.
  llvm::Error checkKeys(const ModelConfig &config) const;
  /// Warns of options that say how experts take tokens, once of each file, where no block that is taken has experts.
  void warnOfNoExperts(const ModelConfig &config) const;
  ImportOptions getOptions(ImportShape shape) const;

  llvm::cl::list<int64_t> batch, seq;
  llvm::cl::opt<int64_t> layers;
  llvm::cl::opt<bool> residual;
  llvm::cl::opt<bool> whole;
  llvm::cl::opt<double> capacityFactor;
  llvm::cl::opt<bool> dropless;
  llvm::cl::opt<Bound> maxLoad;
  llvm::cl::opt<int64_t> groups;
  llvm::cl::opt<ImportType, false, NameParser<ImportType>> dtype;
  llvm::cl::opt<bool> strict;
  llvm::cl::opt<std::string> megatronFile;
  mutable std::optional<MegatronArguments> megatron;
  std::optional<double> defaultMaxLoad;
  mutable llvm::StringSet<> warned, warnedOfNoExperts; ///< files
};

} // namespace mlir::moe

#endif // MOE_TOOLS_COMMANDLINE_IMPORTCOMMANDLINE_H
