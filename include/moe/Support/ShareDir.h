//===- ShareDir.h - model configs and cluster profiles by name --*- C++ -*-===//
#ifndef MOE_SUPPORT_SHAREDIR_H
#define MOE_SUPPORT_SHAREDIR_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::moe {

/// The path of a JSON file given by path or by the name of a shared one: `name` itself where that is a file, else
/// `<share>/<kind>/<last part of name>[.json]`, in lower case. <share> is ../share/moeplan beside the executable's
/// folder, or the source tree's share/. The error names the shared files that there are, and the
/// nearest of them. `argv0` finds the executable.
llvm::Expected<std::string> findShareFile(llvm::StringRef kind, llvm::StringRef name, const char *argv0);

} // namespace mlir::moe

#endif // MOE_SUPPORT_SHAREDIR_H
