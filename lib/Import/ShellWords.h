//===- ShellWords.h - the words of a shell script ---------------*- C++ -*-===//
#ifndef MOE_LIB_IMPORT_SHELLWORDS_H
#define MOE_LIB_IMPORT_SHELLWORDS_H

#include "moe/Import/ModelConfig.h"

#include <vector>

namespace mlir::moe {

struct ShellWord {
  std::string text; ///< without quotes, and with the variables that the script sets before
  ConfigPlace place;
  /// A variable in it that the script sets to different values, of which `text` has the last one; else empty.
  std::string doubtful;
  bool isQuoted = false; ///< a part of it stood in quotes, so that it is no shell's word
};

/// Knows comments, quotes, `\` at line ends, NAME=value, NAME=(words) and NAME="words with --flags", whose words are
/// those of the script, and then a `)`. Conditions, loops and commands are words like any others.
std::vector<ShellWord> splitShellWords(llvm::StringRef script);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_SHELLWORDS_H
