//===- Version.h - what --version prints ------------------------*- C++ -*-===//
#ifndef MOE_TOOLS_VERSION_H
#define MOE_TOOLS_VERSION_H

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"

namespace mlir::moe {

/// Makes --version print MoePlan's version, and LLVM's on a second line. Call it before the command line is parsed.
inline void setVersion(const char *tool) {
  llvm::cl::SetVersionPrinter(
      [tool](llvm::raw_ostream &os) { os << tool << " (MoePlan) " MOE_VERSION "\nLLVM " LLVM_VERSION_STRING "\n"; });
}

} // namespace mlir::moe

#endif // MOE_TOOLS_VERSION_H
