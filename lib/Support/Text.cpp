//===- Text.cpp - numbers and names as people write them ------------------===//
#include "moe/Support/Text.h"
#include "moert/ByteSize.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <charconv>

using llvm::StringRef;

llvm::Expected<int64_t> mlir::moe::parseByteSize(StringRef text) {
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

std::string mlir::moe::getFloatLiteral(double value) {
  char digits[32];
  auto end = std::to_chars(digits, digits + sizeof(digits), value, std::chars_format::scientific).ptr;
  auto [mantissa, exponent] = StringRef(digits, end - digits).split('e');
  std::string text = mantissa.str();
  if (!mantissa.contains('.'))
    text += ".0";
  int power = 0;
  exponent.consume_front("+");
  exponent.getAsInteger(10, power);
  return power == 0 ? text : text + "e" + std::to_string(power);
}

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
