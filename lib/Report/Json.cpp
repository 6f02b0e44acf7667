//===- Json.cpp - parts of reports in JSON --------------------------------===//
#include "Json.h"

using namespace mlir::moe;
using llvm::StringRef;

void mlir::moe::writePage(StringRef page, llvm::function_ref<void(llvm::json::OStream &)> write,
                          llvm::raw_ostream &os) {
  std::string data;
  llvm::raw_string_ostream stream(data);
  llvm::json::OStream json(stream);
  json.object([&] { write(json); });
  auto [head, tail] = page.split("{{data}}");
  os << head;
  // JSON has `<` only in strings. As an escape it can neither end the script nor open a comment.
  llvm::interleave(llvm::split(data, '<'), os, "\\u003c");
  os << tail;
}
