//===- StandardOutput.h - a closed standard output is an error --*- C++ -*-===//
#ifndef MOE_TOOLS_STANDARDOUTPUT_H
#define MOE_TOOLS_STANDARDOUTPUT_H

#include <fcntl.h>
#include <unistd.h>

namespace mlir::moe {

/// Keeps writing to a closed standard output an error. Call it first in main: LLVM would open /dev/null in its place,
/// and all output would seem to be written.
inline void keepStandardOutputClosed() {
  if (fcntl(STDOUT_FILENO, F_GETFD) >= 0)
    return;
  int file = open("/dev/null", O_RDONLY);
  if (file >= 0 && file != STDOUT_FILENO) {
    dup2(file, STDOUT_FILENO);
    close(file);
  }
}

} // namespace mlir::moe

#endif // MOE_TOOLS_STANDARDOUTPUT_H
