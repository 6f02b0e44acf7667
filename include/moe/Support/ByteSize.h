//===- ByteSize.h - sizes of memory as people write them --------*- C++ -*-===//
#ifndef MOE_SUPPORT_BYTESIZE_H
#define MOE_SUPPORT_BYTESIZE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace mlir::moe {

/// The bytes that `text` says: a whole number, or a number and a unit, as in 80GB, 74.5GiB or 512 MB. Units are B, kB,
/// MB, GB and TB (powers of 1000) and KiB, MiB, GiB and TiB (powers of 1024), in any case. The error says what was
/// expected and what `text` is.
llvm::Expected<int64_t> parseByteSize(llvm::StringRef text);

/// "80.0 GB", "512.0 MB" or "100 bytes", in powers of 1000.
std::string formatByteSize(int64_t bytes);

} // namespace mlir::moe

#endif // MOE_SUPPORT_BYTESIZE_H
