//===- Suggestion.cpp - the name that a user may have meant ---------------===//
#include "moe/Support/Suggestion.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using llvm::StringRef;

/// A typing error is one edit, or one for every three letters.
static unsigned getMostEdits(StringRef given) { return std::max<unsigned>(1, static_cast<unsigned>(given.size()) / 3); }

static llvm::SmallVector<StringRef> findNearest(StringRef given, llvm::ArrayRef<StringRef> known) {
  llvm::SmallVector<StringRef> nearest;
  // Shorter texts are part of too many names.
  constexpr size_t fewestLetters = 3;
  if (given.size() >= fewestLetters)
    llvm::copy_if(known, std::back_inserter(nearest), [&](StringRef name) { return name.contains_insensitive(given); });
  if (!nearest.empty())
    return nearest;
  unsigned fewest = getMostEdits(given);
  for (StringRef name : known) {
    unsigned edits = given.edit_distance_insensitive(name, /*AllowReplacements=*/true, /*MaxEditDistance=*/fewest);
    if (edits > fewest)
      continue;
    if (edits < fewest)
      nearest.clear();
    fewest = edits;
    nearest.push_back(name);
  }
  return nearest;
}

std::string mlir::moe::suggestName(StringRef given, llvm::ArrayRef<StringRef> known) {
  constexpr size_t most = 3;
  llvm::SmallVector<StringRef> nearest = findNearest(given, known);
  if (given.empty() || nearest.empty() || nearest.size() > most)
    return "";
  std::string names =
      llvm::join(llvm::map_range(nearest, [](StringRef name) { return "'" + name.str() + "'"; }), " or ");
  return "; did you mean " + names + "?";
}
