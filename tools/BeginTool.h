//===- BeginTool.h - what every tool does first -----------------*- C++ -*-===//
#ifndef MOE_TOOLS_BEGINTOOL_H
#define MOE_TOOLS_BEGINTOOL_H

#include "llvm/Support/CommandLine.h"

#include <fcntl.h>
#include <unistd.h>

namespace mlir::moe {

/// Call it first in main. Makes --version print MoePlan's version, and LLVM's on a second line. Keeps writing to a
/// closed standard output an error: LLVM would open /dev/null in its place, and all output would seem to be written.
inline void beginTool(const char *tool) {
  llvm::cl::SetVersionPrinter(
      [tool](llvm::raw_ostream &os) { os << tool << " (MoePlan) " MOE_VERSION "\nLLVM " LLVM_VERSION_STRING "\n"; });
  if (fcntl(STDOUT_FILENO, F_GETFD) >= 0)
    return;
  int file = open("/dev/null", O_RDONLY);
  if (file >= 0 && file != STDOUT_FILENO) {
    dup2(file, STDOUT_FILENO);
    close(file);
  }
}

} // namespace mlir::moe

#endif // MOE_TOOLS_BEGINTOOL_H
