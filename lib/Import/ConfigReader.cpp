//===- ConfigReader.cpp - typed reads of a JSON object, with places -------===//

#include "ConfigReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

/// The JSON parser of LLVM recurses, so what it is given must not nest deeper than the stack allows.
static constexpr unsigned maxDepth = 64;

/// The value as it stands in a file, cut where it is long.
static std::string describe(const llvm::json::Value &value) {
  constexpr size_t longest = 60;
  std::string text = llvm::formatv("{0}", value).str();
  if (text.size() <= longest)
    return text;
  size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return text.substr(0, end) + "...";
}

static std::string quoteAll(llvm::ArrayRef<StringRef> strings) {
  return llvm::join(llvm::map_range(strings, [](StringRef s) { return ("\"" + s + "\"").str(); }), ", ");
}

llvm::Error ConfigReader::makeError(Place place, const Twine &message) const {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), Twine(fileName) + ":" + Twine(place.line) + ":" +
                                                                     Twine(place.column) + ": error: " + message);
}

unsigned ConfigReader::locateKeys(StringRef text) {
  unsigned depth = 0, deepest = 0;
  Place here;
  bool seenObject = false;
  // At depth 1 a string is a key unless a colon went before it.
  bool expectKey = false;
  for (size_t i = 0; i < text.size(); ++i, ++here.column) {
    switch (text[i]) {
    case '\n':
      ++here.line;
      here.column = 0;
      break;
    case '{':
    case '[':
      if (!seenObject) {
        seenObject = true;
        objectPlace = here;
      }
      deepest = std::max(deepest, ++depth);
      expectKey = text[i] == '{' && depth == 1;
      break;
    case '}':
    case ']':
      if (depth > 0)
        --depth;
      break;
    case ',':
      expectKey = depth == 1;
      break;
    case '"': {
      size_t end = i + 1;
      while (end < text.size() && text[end] != '"' && text[end] != '\n')
        end += text[end] == '\\' ? 2 : 1;
      if (end >= text.size() || text[end] != '"')
        return deepest;
      StringRef token = text.slice(i, end + 1);
      if (expectKey) {
        expectKey = false;
        // Parsing the token again undoes its escapes.
        if (llvm::Expected<llvm::json::Value> key = llvm::json::parse(token))
          places[*key->getAsString()] = here;
        else
          llvm::consumeError(key.takeError());
      }
      here.column += token.size() - 1;
      i = end;
      break;
    }
    default:
      break;
    }
  }
  return deepest;
}

llvm::Expected<ConfigReader> ConfigReader::parse(StringRef text, StringRef fileName) {
  ConfigReader reader(fileName);
  if (reader.locateKeys(text) > maxDepth)
    return reader.makeError({}, "expected JSON nested at most " + Twine(maxDepth) + " deep");
  llvm::Expected<llvm::json::Value> root = llvm::json::parse(text);
  if (!root) {
    // The text of the error is "[line:column, byte=offset]: reason"; its column counts the characters of the line up to
    // and with the wrong one.
    std::string message = llvm::toString(root.takeError());
    StringRef rest = message;
    Place place;
    unsigned column = 0;
    if (rest.consume_front("[") && !rest.consumeInteger(10, place.line) && rest.consume_front(":") &&
        !rest.consumeInteger(10, column)) {
      place.column = std::max(column, 1u);
      rest = rest.split("]: ").second;
    } else {
      place = Place();
      rest = message;
    }
    return reader.makeError(place, "expected JSON: " + rest);
  }
  llvm::json::Object *object = root->getAsObject();
  if (!object)
    return reader.makeError(reader.objectPlace, "expected a JSON object but got " + describe(*root));
  reader.object = std::move(*object);
  return reader;
}

const llvm::json::Value *ConfigReader::find(StringRef key) const {
  const llvm::json::Value *value = object.get(key);
  return value && value->kind() != llvm::json::Value::Null ? value : nullptr;
}

ConfigReader::Place ConfigReader::getPlace(StringRef key) const {
  auto it = places.find(key);
  return it == places.end() ? objectPlace : it->second;
}

void ConfigReader::fail(StringRef key, const Twine &expected) {
  if (hasFailed())
    return;
  const llvm::json::Value *value = object.get(key);
  std::string got = value ? " but got " + describe(*value) : std::string(" but the key is missing");
  error = llvm::toString(makeError(getPlace(key), "'" + key + "': expected " + expected + got));
}

llvm::Error ConfigReader::takeError() {
  if (!hasFailed())
    return llvm::Error::success();
  return llvm::createStringError(llvm::inconvertibleErrorCode(), error);
}

int64_t ConfigReader::getInteger(StringRef key, int64_t min, int64_t max, std::optional<int64_t> defaultValue) {
  const llvm::json::Value *value = find(key);
  if (!value && defaultValue)
    return *defaultValue;
  if (value)
    if (std::optional<int64_t> integer = value->getAsInteger(); integer && *integer >= min && *integer <= max)
      return *integer;
  fail(key, "an integer from " + Twine(min) + " to " + Twine(max));
  return min;
}

double ConfigReader::getPositive(StringRef key, double defaultValue) {
  const llvm::json::Value *value = find(key);
  if (!value)
    return defaultValue;
  if (std::optional<double> number = value->getAsNumber(); number && std::isfinite(*number) && *number > 0)
    return *number;
  fail(key, "a number greater than 0");
  return defaultValue;
}

bool ConfigReader::getBool(StringRef key, bool defaultValue) {
  const llvm::json::Value *value = find(key);
  if (!value)
    return defaultValue;
  if (std::optional<bool> boolean = value->getAsBoolean())
    return *boolean;
  fail(key, "true or false");
  return defaultValue;
}

size_t ConfigReader::getChoice(StringRef key, llvm::ArrayRef<StringRef> accepted, size_t defaultIndex) {
  const llvm::json::Value *value = find(key);
  if (!value)
    return defaultIndex;
  if (std::optional<StringRef> string = value->getAsString())
    if (const auto *it = llvm::find(accepted, *string); it != accepted.end())
      return it - accepted.begin();
  fail(key, (accepted.size() > 1 ? "one of " : "") + quoteAll(accepted));
  return defaultIndex;
}
