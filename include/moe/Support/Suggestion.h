//===- Suggestion.h - the name that a user may have meant -------*- C++ -*-===//
#ifndef MOE_SUPPORT_SUGGESTION_H
#define MOE_SUPPORT_SUGGESTION_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::moe {

/// The end of an error about `given`, which is none of the `known` names: "; did you mean 'hgx-h100'?". It names those
/// that contain `given`, or else those that are the fewest edits away from it, whatever their case. Empty where more
/// than three are as near as each other, and where nothing is near.
std::string suggestName(llvm::StringRef given, llvm::ArrayRef<llvm::StringRef> known);

} // namespace mlir::moe

#endif // MOE_SUPPORT_SUGGESTION_H
