//===- LinkNames.h - the vertices that a link pattern names -----*- C++ -*-===//
#ifndef MOE_LIB_COST_LINKNAMES_H
#define MOE_LIB_COST_LINKNAMES_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::moe {

/// Vertex where the nodes meet.
inline constexpr llvm::StringLiteral kNetwork = "network";

/// Vertices that `name` stands for in a node with `devices` devices, in order. The text of an error is the expectation:
/// `a name such as ..`.
llvm::Expected<llvm::SmallVector<std::string>> expandLinkName(llvm::StringRef name, int64_t devices);

/// Pairs of vertices that a pattern joins, in order. The text of an error is the expectation of `to`.
llvm::Expected<llvm::SmallVector<std::pair<std::string, std::string>>> expandLink(llvm::StringRef from,
                                                                                  llvm::StringRef to, int64_t devices);

} // namespace mlir::moe

#endif // MOE_LIB_COST_LINKNAMES_H
