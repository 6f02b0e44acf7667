//===- ShareDir.h - model configs and cluster profiles by name --*- C++ -*-===//
#ifndef MOE_SUPPORT_SHAREDIR_H
#define MOE_SUPPORT_SHAREDIR_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::moe {

/// Finds a JSON file by path or by the name of a shared one: `name` itself if that is a file, or
/// `<share>/<kind>/<last part of name>[.json]`, in lower case. <share> is ../share/moeplan beside the executable's
/// folder, or the source tree's share/. The error names the shared files that there are, and the nearest of them.
llvm::Expected<std::string> findShareFile(llvm::StringRef kind, llvm::StringRef name);

} // namespace mlir::moe

#endif // MOE_SUPPORT_SHAREDIR_H
