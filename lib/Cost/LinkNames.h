//===- LinkNames.h - the vertices that a link pattern names -----*- C++ -*-===//
#ifndef MOE_LIB_COST_LINKNAMES_H
#define MOE_LIB_COST_LINKNAMES_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::moe {

/// Where the nodes meet.
inline constexpr llvm::StringLiteral kNetwork = "network";

/// The vertices of a node with `devices` devices that `name` stands for, in order. The error says what was expected:
/// `a name such as ..`.
llvm::Expected<llvm::SmallVector<std::string>> expandLinkName(llvm::StringRef name, int64_t devices);

/// The pairs of vertices that a pattern joins, in order. The error says what was expected of `to`.
llvm::Expected<llvm::SmallVector<std::pair<std::string, std::string>>> expandLink(llvm::StringRef from,
                                                                                  llvm::StringRef to, int64_t devices);

} // namespace mlir::moe

#endif // MOE_LIB_COST_LINKNAMES_H
