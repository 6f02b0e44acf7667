//===- ShellScript.h - words of a shell script ------------------*- C++ -*-===//
#ifndef MOE_IMPORT_SHELLSCRIPT_H
#define MOE_IMPORT_SHELLSCRIPT_H

#include "moe/Import/ModelConfig.h"

#include <vector>

namespace mlir::moe {

struct ShellWord {
  std::string text; ///< without quotes, and with the values of variables that the script sets before
  ConfigPlace place;
  /// Variable in it that the script sets to different values; empty: none.
  std::string doubtful;
  bool isQuoted = false; ///< a part of it is in quotes, which makes it no word of the shell
  /// Reason why no command may get the word, such as "in a condition"; empty if one gets it.
  std::string obstacle;
};

struct ShellScript {
  std::vector<ShellWord> words;
  std::vector<ConfigRemark> remarks; ///< warnings of parts that are not read
};

/// Splits a script into words, without running it. It knows comments, quotes, `\` at line ends, `$((1 + N))`,
/// NAME=value, NAME=(words) and NAME="words with --flags", whose words become those of the script, followed by a `)`.
/// Words in conditions and loops, in functions that no command calls, and in variables that none uses have an obstacle.
/// If the script uses none of its variables, it takes the words of all. The rest are words like any others.
ShellScript readShellScript(llvm::StringRef text);

} // namespace mlir::moe

#endif // MOE_IMPORT_SHELLSCRIPT_H
