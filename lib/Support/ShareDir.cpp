//===- ShareDir.cpp - model configs and cluster profiles by name ----------===//

#include "moe/Support/ShareDir.h"
#include "moe/Support/Suggestion.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <vector>

using llvm::StringRef;
using llvm::Twine;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

/// The folders of shared files of one kind, the installed one first.
static std::vector<std::string> getFolders(StringRef kind) {
  std::vector<std::string> folders;
  llvm::SmallString<256> installed(
      fs::getMainExecutable(nullptr, reinterpret_cast<void *>(reinterpret_cast<intptr_t>(&getFolders))));
  path::remove_filename(installed);
  path::append(installed, "..", "share", "moeplan", kind);
  path::remove_dots(installed, /*remove_dot_dot=*/true);
  folders.push_back(installed.str().str());
  llvm::SmallString<256> source(MOE_SHARE_DIR);
  path::append(source, kind);
  folders.push_back(source.str().str());
  return folders;
}

llvm::Expected<std::string> mlir::moe::findShareFile(StringRef kind, StringRef name) {
  if (fs::exists(name) && !fs::is_directory(name))
    return name.str();
  std::string stem = StringRef(path::filename(name)).lower();
  if (StringRef(stem).ends_with(".json"))
    stem.resize(stem.size() - 5);
  std::vector<std::string> known;
  for (const std::string &folder : getFolders(kind)) {
    llvm::SmallString<256> file(folder);
    path::append(file, stem + ".json");
    if (!stem.empty() && fs::exists(file))
      return file.str().str();
    std::error_code ec;
    for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec))
      if (path::extension(it->path()) == ".json")
        known.push_back(path::stem(it->path()).str());
  }
  llvm::sort(known);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::vector<StringRef> names(known.begin(), known.end());
  return llvm::createStringError("error: '" + name + "': expected a file or the name of one of the shared " + kind +
                                 ", which are " + llvm::join(known, ", ") + suggestName(stem, names));
}
