//===- MegatronArguments.h - the arguments of a Megatron-LM job -*- C++ -*-===//
//
// The command line of pretrain_gpt.py, or a file of such arguments, becomes one JSON object under Megatron's names with
// underscores ("num_layers": 32). So typed reads, defaults and errors are those of configurations.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_IMPORT_MEGATRONARGUMENTS_H
#define MOE_IMPORT_MEGATRONARGUMENTS_H

#include "moe/Import/ModelConfig.h"

#include <vector>

namespace mlir::moe {

struct MegatronArguments {
  std::string fileName;
  /// Every argument stands on the line on which the file has it, so that errors about the JSON name that line.
  std::string json;
  /// Arguments that are not known, or that MoePlan takes for something else, and values that are not certain.
  std::vector<ConfigRemark> remarks;
};

/// Reads arguments: a file with a flag on each line, a command line, or a shell script with them. Of shell it knows
/// comments, quotes, `\` at line ends, arrays, and variables that the file sets. An error is a complete diagnostic,
/// `file:line:column: error: ..`. Source: megatron/training/arguments.py of Megatron-LM, core_v0.15.
llvm::Expected<MegatronArguments> parseMegatronArguments(llvm::StringRef text, llvm::StringRef fileName);

/// The model that the arguments describe, as parseModelConfig gives it.
llvm::Expected<ModelConfig> readMegatronModel(const MegatronArguments &arguments, bool whole);

} // namespace mlir::moe

#endif // MOE_IMPORT_MEGATRONARGUMENTS_H
