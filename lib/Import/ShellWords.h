//===- ShellWords.h - the words of a shell script ---------------*- C++ -*-===//
#ifndef MOE_LIB_IMPORT_SHELLWORDS_H
#define MOE_LIB_IMPORT_SHELLWORDS_H

#include "moe/Import/ModelConfig.h"

#include <vector>

namespace mlir::moe {

struct ShellWord {
  std::string text; ///< without quotes, and with the values of variables that the script sets before
  ConfigPlace place;
  /// Variable in it that the script sets to different values, of which `text` has the last one; empty without such a
  /// variable.
  std::string doubtful;
  bool isQuoted = false; ///< a part of it is in quotes, which makes it no word of the shell
};

/// Splits a script into words. It knows comments, quotes, `\` at line ends, NAME=value, NAME=(words) and NAME="words
/// with --flags", whose words become those of the script, followed by a `)`. Conditions, loops and commands are words
/// like any others.
std::vector<ShellWord> splitShellWords(llvm::StringRef script);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_SHELLWORDS_H
