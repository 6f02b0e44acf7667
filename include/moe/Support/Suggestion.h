//===- Suggestion.h - the name that a user may have meant -------*- C++ -*-===//
#ifndef MOE_SUPPORT_SUGGESTION_H
#define MOE_SUPPORT_SUGGESTION_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::moe {

/// Returns the end of an error about `given`, which is not in `known`: "; did you mean 'hgx-h100'?". It suggests the
/// names that contain `given`, or those with the fewest edits, ignoring case. Empty if no name is near, or if more than
/// three are equally near.
std::string suggestName(llvm::StringRef given, llvm::ArrayRef<llvm::StringRef> known);

} // namespace mlir::moe

#endif // MOE_SUPPORT_SUGGESTION_H
