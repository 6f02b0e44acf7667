//===- InputFile.h - files that tools read ----------------------*- C++ -*-===//
#ifndef MOE_SUPPORT_INPUTFILE_H
#define MOE_SUPPORT_INPUTFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace mlir::moe {

/// The text at `path`; `-` is standard input. Refuses what is no file or pipe (a folder, a device that has no end) and
/// more than 1 GiB. An error is a complete diagnostic, `path: error: ..`.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readInputFile(llvm::StringRef path);

/// Refuses what MLIR's parser must not get: bytecode, which it trusts, and brackets nested more than 256 deep, which
/// would take all of its stack. An error is a complete diagnostic.
llvm::Error checkMlirText(llvm::StringRef text, llvm::StringRef path);

} // namespace mlir::moe

#endif // MOE_SUPPORT_INPUTFILE_H
