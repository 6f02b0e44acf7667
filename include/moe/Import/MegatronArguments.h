//===- MegatronArguments.h - the arguments of Megatron-LM -------*- C++ -*-===//
//
// A job's arguments, and the one table of those that MoePlan reads, writes or ignores.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_IMPORT_MEGATRONARGUMENTS_H
#define MOE_IMPORT_MEGATRONARGUMENTS_H

#include "moe/Import/ModelConfig.h"

#include <vector>

namespace mlir::moe {

/// The command line of pretrain_gpt.py, or a file of such arguments, as one JSON object under Megatron's names with
/// underscores ("num_layers": 32). It is then read as configurations are, with the same defaults and errors.
struct MegatronArguments {
  std::string fileName;
  /// Keeps every argument on its line of the file, for errors to name that line.
  std::string json;
  /// Warnings of unknown arguments, of arguments that MoePlan replaces, and of uncertain values.
  std::vector<ConfigRemark> remarks;
};

/// Reads arguments: a file with a flag on each line, a command line, or a shell script with them. It understands the
/// comments, quotes, arrays, variables and `\` at line ends of shells. An error is a complete diagnostic,
/// `file:line:column: error: ..`. Source: megatron/training/arguments.py of Megatron-LM, core_v0.15.
llvm::Expected<MegatronArguments> parseMegatronArguments(llvm::StringRef text, llvm::StringRef fileName);

/// Reads the model that the arguments describe, as parseModelConfig does. `vocabulary` replaces theirs.
llvm::Expected<ModelConfig> readMegatronModel(const MegatronArguments &arguments, bool whole,
                                              std::optional<int64_t> vocabulary = std::nullopt);

/// Marks a flag that takes all values up to the next flag.
inline constexpr int kManyValues = -1;

struct MegatronFlag {
  llvm::StringRef name; ///< without dashes at its beginning
  int values = 0;       ///< number of values after it
  /// Substitute that MoePlan takes for it; empty if it is taken as it is.
  llvm::StringRef instead = {};
  /// Values for which the substitute is the same, with spaces between them.
  llvm::StringRef same = {};
  /// No result of MoePlan depends on it.
  bool isHarmless = false;
  /// Field of Megatron-Bridge's configuration that means the same. A name that ends in '.' is a part of the
  /// configuration, whose field has the name of the flag.
  llvm::StringRef bridge = {};

  std::string getBridgeField() const;
};

/// Null if the flag is not known.
const MegatronFlag *findMegatronFlag(llvm::StringRef name);
/// All names, for suggestions.
llvm::SmallVector<llvm::StringRef> getMegatronFlagNames();

/// Values of --data-parallel-sharding-strategy, by stage of ZeRO.
inline constexpr llvm::StringRef kMegatronShardings[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};

} // namespace mlir::moe

#endif // MOE_IMPORT_MEGATRONARGUMENTS_H
