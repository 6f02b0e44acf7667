//===- InputFile.cpp - files that tools read ------------------------------===//
#include "moe/Support/InputFile.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"

namespace fs = llvm::sys::fs;
using llvm::StringRef;
using llvm::Twine;

static constexpr uint64_t maxBytes = uint64_t(1) << 30;
static constexpr unsigned maxNesting = 256;

static llvm::Error makeError(StringRef path, const Twine &message) {
  return llvm::createStringError(path + ": error: " + message);
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> mlir::moe::readInputFile(StringRef path) {
  fs::file_status status;
  if (path != "-") {
    if (std::error_code error = fs::status(path, status))
      return makeError(path, "cannot read the file: " + error.message());
    bool isFile = status.type() == fs::file_type::regular_file;
    if (!isFile && status.type() != fs::file_type::fifo_file)
      return makeError(path, Twine("expected a file but got a ") +
                                 (status.type() == fs::file_type::directory_file ? "folder" : "device or a socket"));
    if (isFile && status.getSize() > maxBytes)
      return makeError(path, "expected at most " + Twine(maxBytes) + " bytes but got " + Twine(status.getSize()));
  }
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> file = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/true);
  if (!file)
    return makeError(path == "-" ? "<stdin>" : path, "cannot read the file: " + file.getError().message());
  return std::move(*file);
}

llvm::Error mlir::moe::checkMlirText(StringRef text, StringRef path) {
  if (text.starts_with("ML\xefR"))
    return makeError(path, "expected MLIR text but got bytecode; moe-opt writes a file that you trust as text");
  unsigned depth = 0, line = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\n') {
      ++line;
    } else if (c == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        i += text[i] == '\\';
    } else if (text.substr(i).starts_with("//")) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (StringRef("([{<").contains(c)) {
      if (++depth > maxNesting)
        return makeError((path + ":" + Twine(line)).str(),
                         "expected brackets nested at most " + Twine(maxNesting) + " deep");
    } else if (StringRef(")]}>").contains(c) && depth > 0 && !(c == '>' && i > 0 && text[i - 1] == '-')) {
      --depth;
    }
  }
  return llvm::Error::success();
}
