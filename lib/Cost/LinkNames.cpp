//===- LinkNames.cpp - the vertices that a link pattern names -------------===//
#include "LinkNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <optional>

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

static constexpr int64_t maxNumber = 4095;

static llvm::Error expect(const Twine &what) { return llvm::createStringError(what); }

/// Parses a number without a sign or leading zeros.
static std::optional<int64_t> parseNumber(StringRef text) {
  int64_t number;
  if (text.getAsInteger(10, number) || number < 0 || number > maxNumber || text != std::to_string(number))
    return std::nullopt;
  return number;
}

namespace {
/// `stem*`, `stem[first-last]` or just `stem`.
struct NamePattern {
  StringRef stem;
  bool isPattern = false;
  int64_t first = 0, last = 0;
};
} // namespace

static std::optional<NamePattern> parsePattern(StringRef name, int64_t devices) {
  NamePattern pattern{name};
  if (name.ends_with("*")) {
    pattern = {name.drop_back(), true, 0, devices - 1};
  } else if (name.ends_with("]")) {
    auto [stem, numbers] = name.drop_back().split('[');
    auto [first, last] = numbers.split('-');
    std::optional<int64_t> from = parseNumber(first), to = parseNumber(last);
    if (!from || !to || *from > *to)
      return std::nullopt;
    pattern = {stem, true, *from, *to};
  }
  auto fits = [](char c) { return llvm::isLower(c) || llvm::isDigit(c) || c == '_'; };
  if (pattern.stem.empty() || !llvm::isLower(pattern.stem.front()) || !llvm::all_of(pattern.stem, fits))
    return std::nullopt;
  // device*1 or pcie1* would name vertices twice: a pattern's numbers are all of a name's digits.
  if (pattern.isPattern && llvm::isDigit(pattern.stem.back()))
    return std::nullopt;
  return pattern;
}

llvm::Expected<llvm::SmallVector<std::string>> mlir::moe::expandLinkName(StringRef name, int64_t devices) {
  std::optional<NamePattern> pattern = parsePattern(name, devices);
  if (!pattern || (pattern->isPattern && pattern->stem == kNetwork))
    return expect("a name such as device0, device*, device[0-3], nic*, pcie0 or network");
  if (pattern->stem.starts_with("device")) {
    // Only names of devices begin this way.
    std::optional<int64_t> number = pattern->isPattern ? pattern->last : parseNumber(pattern->stem.drop_front(6));
    if (!number || *number >= devices || (pattern->isPattern && pattern->stem != "device"))
      return expect("devices from device0 to device" + Twine(devices - 1));
  }
  llvm::SmallVector<std::string> names;
  if (!pattern->isPattern)
    names.push_back(name.str());
  else
    for (int64_t i = pattern->first; i <= pattern->last; ++i)
      names.push_back((pattern->stem + Twine(i)).str());
  return names;
}

llvm::Expected<llvm::SmallVector<std::pair<std::string, std::string>>>
mlir::moe::expandLink(StringRef from, StringRef to, int64_t devices) {
  auto fromNames = expandLinkName(from, devices);
  if (!fromNames)
    return fromNames.takeError();
  auto toNames = expandLinkName(to, devices);
  if (!toNames)
    return toNames.takeError();
  auto isPattern = [](StringRef name) { return name.ends_with("*") || name.ends_with("]"); };
  bool pairwise = isPattern(from) && isPattern(to);
  if (pairwise && fromNames->size() != toNames->size())
    return expect("a name that stands for " + Twine(fromNames->size()) + " vertices, as '" + from + "' does,");
  llvm::SmallVector<std::pair<std::string, std::string>> links;
  for (size_t i = 0; i < fromNames->size(); ++i)
    for (size_t j = pairwise ? i : 0, end = pairwise ? i + 1 : toNames->size(); j < end; ++j) {
      if ((*fromNames)[i] == (*toNames)[j])
        return expect("another vertex than '" + Twine((*fromNames)[i]) + "', where the link begins,");
      links.emplace_back((*fromNames)[i], (*toNames)[j]);
    }
  return links;
}
