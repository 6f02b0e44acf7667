//===- InputFile.h - files that tools read ----------------------*- C++ -*-===//
#ifndef MOE_SUPPORT_INPUTFILE_H
#define MOE_SUPPORT_INPUTFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <string>

namespace mlir::moe {

/// Reads the text at `path`; `-` is standard input. Fails for anything that is no file or pipe, such as folders and
/// endless devices, and for more than 1 GiB. The text of an error is a complete diagnostic, `path: error: ..`.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readInputFile(llvm::StringRef path);

/// Refuses text that MLIR's parser must not get: bytecode, which the parser trusts, and brackets nested more than 256
/// deep, which could exceed its stack. The text of an error is a complete diagnostic.
llvm::Error checkMlirText(llvm::StringRef text, llvm::StringRef path);

/// Finds a JSON file: `name` itself if that is a file, `name`/config.json of a folder if `kind` is models, or
/// `<share>/<kind>/<name>[.json]`, in lower case, for a name without `/`. <share> is ../share/moeplan beside the
/// executable's folder, or the source tree's share/. The error names the shared files that there are, and the nearest
/// of them.
llvm::Expected<std::string> findShareFile(llvm::StringRef kind, llvm::StringRef name);

} // namespace mlir::moe

#endif // MOE_SUPPORT_INPUTFILE_H
