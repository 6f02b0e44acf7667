//===- Page.cpp - a page with data in it ----------------------------------===//
#include "Page.h"

using namespace mlir::moe;
using llvm::StringRef;

void mlir::moe::writePage(StringRef page, llvm::function_ref<void(llvm::json::OStream &)> writeData,
                          llvm::raw_ostream &os) {
  std::string data;
  llvm::raw_string_ostream stream(data);
  llvm::json::OStream json(stream);
  writeData(json);
  auto [head, tail] = page.split("{{data}}");
  os << head;
  // JSON has `<` only in strings. As an escape it can neither end the script nor open a comment.
  for (StringRef rest = data; !rest.empty();) {
    auto [before, after] = rest.split('<');
    os << before;
    if (before.size() < rest.size())
      os << "\\u003c";
    rest = after;
  }
  os << tail;
}
