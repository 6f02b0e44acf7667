//===- InputFile.cpp - files that tools read ------------------------------===//
#include "moe/Support/InputFile.h"

#include "moe/Support/Text.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <set>

using llvm::StringRef;
using llvm::Twine;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

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

/// The folders of shared files of one kind, the installed one first.
static std::vector<std::string> getFolders(StringRef kind) {
  llvm::SmallString<256> installed(
      fs::getMainExecutable(nullptr, reinterpret_cast<void *>(reinterpret_cast<intptr_t>(&getFolders))));
  path::remove_filename(installed);
  path::append(installed, "..", "share", "moeplan", kind);
  path::remove_dots(installed, /*remove_dot_dot=*/true);
  std::vector<std::string> folders = {installed.str().str()};
#ifdef MOE_SHARE_DIR
  llvm::SmallString<256> source(MOE_SHARE_DIR);
  path::append(source, kind);
  folders.push_back(source.str().str());
#endif
  return folders;
}

llvm::Expected<std::string> mlir::moe::findShareFile(StringRef kind, StringRef name) {
  if (fs::exists(name) && !fs::is_directory(name))
    return name.str();
  bool isModel = kind == "models";
  llvm::SmallString<256> config(name);
  path::append(config, "config.json");
  if (isModel && !name.empty() && fs::exists(config))
    return config.str().str();
  std::string stem = StringRef(path::filename(name)).lower();
  if (StringRef(stem).ends_with(".json"))
    stem.resize(stem.size() - 5);
  std::set<std::string> known;
  for (const std::string &folder : getFolders(kind)) {
    llvm::SmallString<256> file(folder);
    path::append(file, stem + ".json");
    if (!stem.empty() && !name.contains('/') && fs::exists(file))
      return file.str().str();
    std::error_code ec;
    for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec))
      if (path::extension(it->path()) == ".json")
        known.insert(path::stem(it->path()).str());
  }
  std::vector<StringRef> names(known.begin(), known.end());
  return llvm::createStringError("error: '" + name + "': expected a file" +
                                 (isModel ? ", a folder with a config.json" : "") +
                                 " or the name of one of the shared " + kind + ", which are " +
                                 llvm::join(known, ", ") + suggestName(stem, names));
}
