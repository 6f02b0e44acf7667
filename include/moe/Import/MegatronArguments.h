//===- MegatronArguments.h - the arguments of a Megatron-LM job -*- C++ -*-===//
//
// The command line of pretrain_gpt.py, or a file of such arguments, becomes one JSON object under Megatron's names with
// underscores ("num_layers": 32). It is then read as configurations are, with the same defaults and errors.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_IMPORT_MEGATRONARGUMENTS_H
#define MOE_IMPORT_MEGATRONARGUMENTS_H

#include "moe/Import/ModelConfig.h"

#include <vector>

namespace mlir::moe {

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

/// Reads the model that the arguments describe, as parseModelConfig does.
llvm::Expected<ModelConfig> readMegatronModel(const MegatronArguments &arguments, bool whole);

} // namespace mlir::moe

#endif // MOE_IMPORT_MEGATRONARGUMENTS_H
