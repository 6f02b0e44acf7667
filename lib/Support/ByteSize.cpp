//===- ByteSize.cpp - sizes of memory as people write them ----------------===//
#include "moe/Support/ByteSize.h"
#include "moert/ByteSize.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

llvm::Expected<int64_t> mlir::moe::parseByteSize(llvm::StringRef text) {
  int64_t bytes = 0;
  if (std::string error = moert::parseByteSize(text, bytes); !error.empty())
    return llvm::createStringError(error);
  return bytes;
}

std::string mlir::moe::formatByteSize(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const moert::ByteUnit &unit : llvm::reverse(llvm::ArrayRef(moert::kByteUnits).take_front(5)))
    if (unit.bytes > 1 && bytes >= unit.bytes) {
      os << llvm::format("%.1f ", static_cast<double>(bytes) / static_cast<double>(unit.bytes)) << unit.name;
      return text;
    }
  os << bytes << " bytes";
  return text;
}
