//===- BlockPattern.h - a number for each block -----------------*- C++ -*-===//
#ifndef MOE_LIB_IMPORT_BLOCKPATTERN_H
#define MOE_LIB_IMPORT_BLOCKPATTERN_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mlir::moe {

/// Reads a list as Megatron-LM takes it for --moe-layer-freq: sums and multiples of lists of numbers, such as
/// `([0]*3+[1]*58)`. Null if it is no list, or has more than 10000 numbers.
std::optional<std::vector<int64_t>> parseBlockPattern(llvm::StringRef text);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_BLOCKPATTERN_H
