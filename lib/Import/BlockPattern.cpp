//===- BlockPattern.cpp - a number for each block -------------------------===//
#include "BlockPattern.h"

#include "Family.h"

using namespace mlir::moe;
using llvm::StringRef;

namespace {
/// A list, or a number that multiplies lists.
struct PatternValue {
  std::vector<int64_t> list;
  std::optional<int64_t> number;
};

class PatternParser {
public:
  explicit PatternParser(StringRef text) : rest(text) {}

  std::optional<std::vector<int64_t>> run() {
    std::optional<PatternValue> value = parseSum();
    if (!value || value->number || !rest.trim().empty())
      return std::nullopt;
    return std::move(value->list);
  }

private:
  bool consume(StringRef text) {
    rest = rest.ltrim();
    return rest.consume_front(text);
  }
  std::optional<PatternValue> parseSum();
  std::optional<PatternValue> parseProduct();
  std::optional<PatternValue> parseFactor();
  std::optional<PatternValue> parseList();
  std::optional<int64_t> parseNumber() {
    int64_t number = 0;
    rest = rest.ltrim();
    return rest.consumeInteger(10, number) ? std::nullopt : std::optional(number);
  }

  StringRef rest;
  int depth = 0;
};
} // namespace

std::optional<PatternValue> PatternParser::parseList() {
  PatternValue value;
  while (!consume("]")) {
    std::optional<int64_t> number = parseNumber();
    if (!number)
      return std::nullopt;
    value.list.push_back(*number);
    consume(",");
  }
  return value;
}

std::optional<PatternValue> PatternParser::parseFactor() {
  constexpr int deepest = 100;
  if (consume("["))
    return parseList();
  if (!consume("(")) {
    std::optional<int64_t> number = parseNumber();
    return number ? std::optional(PatternValue{{}, number}) : std::nullopt;
  }
  if (++depth > deepest)
    return std::nullopt;
  std::optional<PatternValue> value = parseSum();
  --depth;
  return consume(")") ? value : std::nullopt;
}

std::optional<PatternValue> PatternParser::parseProduct() {
  std::optional<PatternValue> value = parseFactor();
  while (value && consume("*")) {
    std::optional<PatternValue> other = parseFactor();
    if (!other || value->number.has_value() == other->number.has_value())
      return std::nullopt;
    if (value->number)
      std::swap(value, other);
    int64_t times = *other->number;
    if (times < 0 || times > kMaxBlocks || static_cast<int64_t>(value->list.size()) * times > kMaxBlocks)
      return std::nullopt;
    std::vector<int64_t> once = std::move(value->list);
    value->list.clear();
    for (int64_t i = 0; i < times; ++i)
      value->list.insert(value->list.end(), once.begin(), once.end());
  }
  return value;
}

std::optional<PatternValue> PatternParser::parseSum() {
  std::optional<PatternValue> value = parseProduct();
  while (value && consume("+")) {
    std::optional<PatternValue> other = parseProduct();
    if (!other || value->number || other->number)
      return std::nullopt;
    value->list.insert(value->list.end(), other->list.begin(), other->list.end());
  }
  return value;
}

std::optional<std::vector<int64_t>> mlir::moe::parseBlockPattern(StringRef text) { return PatternParser(text).run(); }
