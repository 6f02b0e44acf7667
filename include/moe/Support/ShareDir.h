//===- ShareDir.h - model configs and cluster profiles by name --*- C++ -*-===//
#ifndef MOE_SUPPORT_SHAREDIR_H
#define MOE_SUPPORT_SHAREDIR_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::moe {

/// Finds a JSON file by path or by the name of a shared file: `name` itself if it is a file, else `<share>/<kind>/<last
/// part of name>[.json]` in lower case. <share> is ../share/moeplan relative to the executable's folder, or share/ in
/// the source tree. The error lists the shared files and suggests the nearest name. `argv0` is the path of the
/// executable.
llvm::Expected<std::string> findShareFile(llvm::StringRef kind, llvm::StringRef name, const char *argv0);

} // namespace mlir::moe

#endif // MOE_SUPPORT_SHAREDIR_H
