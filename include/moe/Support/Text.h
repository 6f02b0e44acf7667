//===- Text.h - numbers and names as people write them ----------*- C++ -*-===//
#ifndef MOE_SUPPORT_TEXT_H
#define MOE_SUPPORT_TEXT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace mlir::moe {

/// The bytes that `text` says: a whole number, or a number and a unit, as in 80GB, 74.5GiB or 512 MB. Units are B, kB,
/// MB, GB and TB (powers of 1000) and KiB, MiB, GiB and TiB (powers of 1024), in any case.
llvm::Expected<int64_t> parseByteSize(llvm::StringRef text);
/// "80.0 GB", "512.0 MB" or "100 bytes", in powers of 1000.
std::string formatByteSize(int64_t bytes);

/// Shortest float literal of MLIR, such as "1.0e9", that reads back as `value`. `value` must be finite.
std::string getFloatLiteral(double value);

/// Returns the end of an error about `given`, which is not in `known`: "; did you mean 'hgx-h100'?". It suggests up to
/// three names that contain `given`, or have the fewest edits, ignoring case. Empty if no name or more are near.
std::string suggestName(llvm::StringRef given, llvm::ArrayRef<llvm::StringRef> known);

} // namespace mlir::moe

#endif // MOE_SUPPORT_TEXT_H
