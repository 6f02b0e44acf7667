//===- JsonReader.cpp - typed reads of JSON objects, with places ----------===//

#include "moe/Support/JsonReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <functional>
#include <utility>

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;
using Place = JsonReader::Place;

/// Limit of nesting. LLVM's JSON parser is recursive, and deeper text could exceed the stack.
static constexpr size_t maxDepth = 64;

/// Describes the value as in a file, shortened if it is long.
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

static std::string describeRange(int64_t min, int64_t max) {
  if (min == max)
    return std::to_string(min);
  if (min == std::numeric_limits<int64_t>::min() && max == std::numeric_limits<int64_t>::max())
    return "an integer";
  return "an integer from " + std::to_string(min) + " to " + std::to_string(max);
}

llvm::Error mlir::moe::makeErrorAt(StringRef fileName, Place place, const Twine &message) {
  return llvm::createStringError(fileName + ":" + Twine(place.line) + ":" + Twine(place.column) +
                                 ": error: " + message);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

namespace {

/// Walks JSON text, valid or not, and reports the places of the root (an empty path), of keys and of elements (`a[2]`).
class PlaceFinder {
public:
  using Visitor = llvm::function_ref<void(StringRef path, Place place, bool repeated)>;
  PlaceFinder(StringRef text, Visitor visit) : text(text), visit(visit) {}

  /// Returns the depth of the nesting.
  size_t run();

private:
  /// An open bracket.
  struct Frame {
    size_t pathSize; ///< length of the path of the object or list
    bool isObject;
    /// Whether a key or an element begins next.
    bool expectsNext = true;
    size_t index = 0;
    llvm::StringSet<> keys = {};
  };
  void beginElement();
  /// Begins at the first quote of a string, and moves on to the last. Returns false if there is none.
  bool readString();

  StringRef text;
  Visitor visit;
  size_t position = 0;
  Place here;
  std::string path;
  std::vector<Frame> frames;
  bool seenRoot = false;
};

size_t PlaceFinder::run() {
  size_t deepest = 0;
  for (; position < text.size(); ++position, ++here.column) {
    char c = text[position];
    if (c == '\n') {
      ++here.line;
      here.column = 0;
      continue;
    }
    if (llvm::isSpace(c))
      continue;
    if (c != ']' && c != ',')
      beginElement();
    if (c == '{' || c == '[') {
      if (!std::exchange(seenRoot, true))
        visit("", here, false);
      frames.push_back({path.size(), c == '{'});
      deepest = std::max(deepest, frames.size());
    } else if ((c == '}' || c == ']') && !frames.empty()) {
      frames.pop_back();
    } else if (c == ',' && !frames.empty()) {
      frames.back().expectsNext = true;
    } else if (c == '"' && !readString()) {
      break;
    }
  }
  return deepest;
}

void PlaceFinder::beginElement() {
  if (frames.empty() || frames.back().isObject || !frames.back().expectsNext)
    return;
  Frame &list = frames.back();
  list.expectsNext = false;
  path.resize(list.pathSize);
  path += ("[" + Twine(list.index++) + "]").str();
  visit(path, here, false);
}

bool PlaceFinder::readString() {
  size_t end = position + 1;
  while (end < text.size() && text[end] != '"' && text[end] != '\n')
    end += text[end] == '\\' ? 2 : 1;
  if (end >= text.size() || text[end] != '"')
    return false;
  StringRef token = text.slice(position, end + 1);
  if (!frames.empty() && frames.back().isObject && std::exchange(frames.back().expectsNext, false)) {
    // Parsing the token undoes its escapes.
    if (llvm::Expected<llvm::json::Value> key = llvm::json::parse(token)) {
      Frame &object = frames.back();
      path.resize(object.pathSize);
      path += (path.empty() ? "" : ".") + key->getAsString()->str();
      visit(path, here, !object.keys.insert(*key->getAsString()).second);
    } else {
      llvm::consumeError(key.takeError());
    }
  }
  here.column += token.size() - 1;
  position = end;
  return true;
}

} // namespace

//===----------------------------------------------------------------------===//
// JsonReader
//===----------------------------------------------------------------------===//

/// Writes the numbers that Python writes and JSON lacks in as many columns: an infinite one as one that is too large,
/// and NaN, which is no value of any key, as a string.
static std::string replacePythonNumbers(StringRef text) {
  std::string replaced = text.str();
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"')
      inString = !inString;
    if (inString) {
      i += text[i] == '\\';
      continue;
    }
    for (auto [word, number] : {std::pair<StringRef, StringRef>("Infinity", "1e999999"), {"NaN", "\"N\""}})
      if (text.substr(i).starts_with(word))
        replaced.replace(i, number.size(), number.data());
  }
  return replaced;
}

llvm::Expected<JsonReader> JsonReader::parse(StringRef written, StringRef fileName, StringRef format) {
  const std::string text = replacePythonNumbers(written);
  Place rootPlace, repeatedPlace;
  std::string repeated;
  size_t depth = PlaceFinder(text, [&](StringRef path, Place place, bool isRepeated) {
                   if (path.empty())
                     rootPlace = place;
                   if (isRepeated && repeated.empty()) {
                     repeated = path.str();
                     repeatedPlace = place;
                   }
                 }).run();
  if (depth > maxDepth)
    return makeErrorAt(fileName, {}, "expected " + format + " nested at most " + Twine(maxDepth) + " deep");
  llvm::Expected<llvm::json::Value> root = llvm::json::parse(text);
  if (!root) {
    // The text of the error is "[line:column, byte=offset]: reason".
    std::string message = llvm::toString(root.takeError());
    auto [where, reason] = StringRef(message).split("]: ");
    auto [line, rest] = where.drop_front().split(':');
    Place place;
    line.getAsInteger(10, place.line);
    rest.consumeInteger(10, place.column);
    place.column = std::max(place.column, 1u);
    return makeErrorAt(fileName, place, "expected " + format + ": " + reason);
  }
  if (!root->getAsObject())
    return makeErrorAt(fileName, rootPlace, "expected a JSON object but got " + describe(*root));
  if (!repeated.empty())
    return makeErrorAt(fileName, repeatedPlace, "'" + repeated + "': expected each key once");
  auto file = std::make_shared<File>();
  file->name = fileName.str();
  file->text = written.str();
  file->root = std::move(*root);
  const llvm::json::Object *object = file->root.getAsObject();
  return JsonReader(std::move(file), object, "");
}

/// Whether there is a value that is not null.
static bool isSet(const llvm::json::Value *value) { return value && value->kind() != llvm::json::Value::Null; }

StringRef JsonReader::getName(StringRef key) const {
  auto alias = aliases.find(key);
  return alias != aliases.end() && !isSet(object->get(key)) && isSet(object->get(alias->second))
             ? StringRef(alias->second)
             : key;
}

const llvm::json::Value *JsonReader::findDefault(StringRef key) const {
  if (!defaults)
    return nullptr;
  const llvm::json::Value *value = defaults->get(key);
  auto alias = aliases.find(key);
  return !value && alias != aliases.end() ? defaults->get(alias->second) : value;
}

const llvm::json::Value *JsonReader::lookUp(StringRef key) const {
  StringRef name = getName(key);
  file->asked[object].insert(name);
  const llvm::json::Value *value = object->get(name), *otherwise = findDefault(key);
  return !value || (!isSet(value) && otherwise && otherwise->getAsObject()) ? otherwise : value;
}

const llvm::json::Value *JsonReader::find(StringRef key) const {
  const llvm::json::Value *value = lookUp(key);
  return isSet(value) ? value : nullptr;
}

bool JsonReader::isNull(StringRef key) const {
  const llvm::json::Value *value = lookUp(key);
  return value && value->kind() == llvm::json::Value::Null;
}

bool JsonReader::unsetsDefault(StringRef key) const { return isNull(key) && isSet(findDefault(key)); }

void JsonReader::accept(llvm::ArrayRef<StringRef> keys) const {
  for (StringRef key : keys)
    lookUp(key);
}

void JsonReader::acceptIf(StringRef key, llvm::function_ref<bool(const llvm::json::Value &)> hasNoEffect) const {
  const llvm::json::Value *value = object->get(key);
  if (!value || hasNoEffect(*value))
    lookUp(key);
}

void JsonReader::addAlias(StringRef alias, StringRef key) {
  // An earlier alias that the file has stays.
  std::string name = getName(key).str();
  if (name == key)
    aliases[key] = alias.str();
  aliases[alias] = key.str();
  const llvm::json::Value *value = object->get(name), *other = object->get(alias);
  if (!value || !other)
    return;
  file->asked[object].insert(name);
  file->asked[object].insert(alias);
  if (isSet(value) && isSet(other) && *value != *other)
    fail(alias, Twine(describe(*value)) + ", as '" + name + "' has, which is another name for it,");
}

std::string JsonReader::getPath(StringRef key) const { return path.empty() ? key.str() : path + "." + key.str(); }

JsonReader::Place JsonReader::getPlace(StringRef key) const {
  // Places are looked up, not stored, because only errors need them.
  std::string keyPath = getPath(getName(key));
  std::optional<Place> ofKey, ofObject;
  PlaceFinder(file->text, [&](StringRef found, Place place, bool) {
    if (!ofKey && found == keyPath)
      ofKey = place;
    if (!ofObject && found == path)
      ofObject = place;
  }).run();
  return ofKey ? *ofKey : ofObject.value_or(Place());
}

void JsonReader::fail(StringRef key, const Twine &expected) {
  auto [name, rest] = key.split('[');
  const llvm::json::Value *value = lookUp(name);
  if (hasFailed())
    return;
  size_t index = 0;
  if (value && value->getAsArray() && !rest.consumeInteger(10, index) && index < value->getAsArray()->size())
    value = &(*value->getAsArray())[index];
  std::string got = value ? " but got " + describe(*value) : std::string(" but the key is missing");
  if (value && !object->get(getName(name)))
    got += ", the default of a missing key";
  file->errorPlace = getPlace(key);
  file->error = ("'" + Twine(getPath(getName(key))) + "': expected " + expected + got).str();
}

/// Whether a value means the same as a missing key.
static bool saysNothing(const llvm::json::Value &value) {
  if (const llvm::json::Object *object = value.getAsObject())
    return object->empty();
  if (const llvm::json::Array *array = value.getAsArray())
    return array->empty();
  return value.kind() == llvm::json::Value::Null;
}

std::vector<JsonReader::Key> JsonReader::findKeys(const llvm::StringSet<> &paths) const {
  std::vector<Key> keys;
  PlaceFinder(file->text, [&](StringRef found, Place place, bool) {
    if (paths.contains(found))
      keys.push_back({found.str(), place});
  }).run();
  return keys;
}

std::vector<JsonReader::Key> JsonReader::getOtherKeys(llvm::function_ref<bool(StringRef)> isHarmless) const {
  llvm::StringSet<> others;
  std::function<void(const llvm::json::Value &, const std::string &)> visit;
  auto visitObject = [&](const llvm::json::Object &object, const std::string &path) {
    const llvm::StringSet<> &known = file->asked.at(&object);
    bool isThis = &object == this->object;
    for (const auto &[key, value] : object) {
      std::string inner = path.empty() ? key.str() : path + "." + key.str();
      if (known.contains(key))
        visit(value, inner);
      else if (const llvm::json::Value *usual = isThis ? findDefault(key) : nullptr;
               !saysNothing(value) && !isHarmless(key) && !(usual && *usual == value))
        others.insert(inner);
    }
  };
  visit = [&](const llvm::json::Value &value, const std::string &path) {
    const llvm::json::Object *inner = value.getAsObject();
    if (inner && file->asked.count(inner))
      visitObject(*inner, path);
    if (const llvm::json::Array *list = value.getAsArray())
      for (const auto &[i, element] : llvm::enumerate(*list))
        visit(element, path + "[" + std::to_string(i) + "]");
  };
  visitObject(*object, path);
  return findKeys(others);
}

void JsonReader::refuseOtherKeys() {
  if (hasFailed())
    return;
  const llvm::StringSet<> &asked = file->asked.at(object);
  llvm::StringSet<> others;
  for (const auto &[key, value] : *object)
    if (!asked.contains(key))
      others.insert(getPath(key));
  if (others.empty())
    return;
  const Key first = findKeys(others).front();
  llvm::SmallVector<StringRef> known(asked.keys());
  llvm::sort(known);
  file->errorPlace = first.place;
  file->error = ("'" + Twine(first.path) + "': expected one of the keys " + quoteAll(known)).str();
}

llvm::Error JsonReader::takeError() {
  if (!hasFailed())
    return llvm::Error::success();
  return makeErrorAt(file->name, file->errorPlace, file->error);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static std::optional<int64_t> toInteger(const llvm::json::Value &value, int64_t min, int64_t max) {
  std::optional<int64_t> integer = value.getAsInteger();
  return integer && *integer >= min && *integer <= max ? integer : std::nullopt;
}

static std::optional<double> toNumber(const llvm::json::Value &value, const NumberRange &range) {
  std::optional<double> number = value.getAsNumber();
  return number && range.contains(*number) ? number : std::nullopt;
}

template <class T> using Convert = llvm::function_ref<std::optional<T>(const llvm::json::Value &)>;

/// Reads the value of `key`. Returns `wrong` after an error.
template <class T>
static T read(JsonReader &reader, StringRef key, const Twine &expected, std::optional<T> defaultValue, T wrong,
              Convert<T> convert) {
  const llvm::json::Value *value = reader.find(key);
  if (!value && defaultValue)
    return *defaultValue;
  if (std::optional<T> converted = value ? convert(*value) : std::nullopt)
    return *converted;
  reader.fail(key, expected);
  return wrong;
}

/// Reads a list. Replaces each wrong element by `wrong`.
template <class T>
static std::vector<T> readList(JsonReader &reader, StringRef key, StringRef expectedList, const Twine &expected,
                               T wrong, Convert<T> convert) {
  const llvm::json::Value *value = reader.find(key);
  if (value && !value->getAsArray())
    reader.fail(key, expectedList);
  std::vector<T> elements;
  if (value && value->getAsArray())
    for (const auto &[i, element] : llvm::enumerate(*value->getAsArray())) {
      std::optional<T> converted = convert(element);
      if (!converted)
        reader.fail((key + "[" + Twine(i) + "]").str(), expected);
      elements.push_back(converted.value_or(wrong));
    }
  return elements;
}

int64_t JsonReader::getInteger(StringRef key, int64_t min, int64_t max, std::optional<int64_t> defaultValue) {
  return read<int64_t>(*this, key, describeRange(min, max), defaultValue, min,
                       [&](const llvm::json::Value &value) { return toInteger(value, min, max); });
}

double JsonReader::getNumber(StringRef key, const NumberRange &range, std::optional<double> defaultValue) {
  // 1 is in every range.
  return read<double>(*this, key, range.text, defaultValue, defaultValue.value_or(1),
                      [&](const llvm::json::Value &value) { return toNumber(value, range); });
}

bool JsonReader::getBool(StringRef key, std::optional<bool> defaultValue) {
  return read<bool>(*this, key, "true or false", defaultValue, defaultValue.value_or(false),
                    [](const llvm::json::Value &value) { return value.getAsBoolean(); });
}

std::string JsonReader::getString(StringRef key, std::optional<StringRef> defaultValue) {
  return read<StringRef>(*this, key, "a string that is not empty", defaultValue, "",
                         [](const llvm::json::Value &value) {
                           std::optional<StringRef> string = value.getAsString();
                           return string && !string->trim().empty() ? string : std::nullopt;
                         })
      .str();
}

size_t JsonReader::getChoice(StringRef key, llvm::ArrayRef<StringRef> accepted, std::optional<size_t> defaultIndex) {
  return read<size_t>(*this, key, (accepted.size() > 1 ? "one of " : "") + quoteAll(accepted), defaultIndex,
                      defaultIndex.value_or(0), [&](const llvm::json::Value &value) -> std::optional<size_t> {
                        std::optional<StringRef> string = value.getAsString();
                        const auto *found = string ? llvm::find(accepted, *string) : accepted.end();
                        return found == accepted.end() ? std::nullopt : std::optional(found - accepted.begin());
                      });
}

JsonReader JsonReader::getObject(StringRef key) {
  static const llvm::json::Object none;
  const llvm::json::Value *value = find(key);
  const llvm::json::Object *found = value ? value->getAsObject() : nullptr;
  if (!found)
    fail(key, "an object");
  return JsonReader(file, found ? found : &none, getPath(key));
}

std::vector<JsonReader> JsonReader::getObjects(StringRef key) {
  using Object = const llvm::json::Object *;
  std::vector<Object> objects =
      readList<Object>(*this, key, "a list of objects", "an object", nullptr, [](const llvm::json::Value &value) {
        return value.getAsObject() ? std::optional<Object>(value.getAsObject()) : std::nullopt;
      });
  std::vector<JsonReader> readers;
  for (auto [i, object] : llvm::enumerate(objects))
    if (object)
      readers.push_back(JsonReader(file, object, getPath((key + "[" + Twine(i) + "]").str())));
  return readers;
}

std::vector<double> JsonReader::getNumbers(StringRef key, const NumberRange &range) {
  return readList<double>(*this, key, "a list of numbers", range.text, 1,
                          [&](const llvm::json::Value &value) { return toNumber(value, range); });
}

std::vector<std::pair<double, double>> JsonReader::getPairs(StringRef key, const NumberRange &first,
                                                            const NumberRange &second) {
  using Pair = std::pair<double, double>;
  auto convert = [&](const llvm::json::Value &value) -> std::optional<Pair> {
    const llvm::json::Array *pair = value.getAsArray();
    if (!pair || pair->size() != 2)
      return std::nullopt;
    std::optional<double> a = toNumber(pair->front(), first), b = toNumber(pair->back(), second);
    return a && b ? std::optional(Pair(*a, *b)) : std::nullopt;
  };
  return readList<Pair>(*this, key, "a list of pairs of numbers", "a list of " + first.text + " and " + second.text,
                        {1, 1}, convert);
}

std::vector<int64_t> JsonReader::getIntegers(StringRef key, int64_t min, int64_t max) {
  return readList<int64_t>(*this, key, "a list of integers", describeRange(min, max), min,
                           [&](const llvm::json::Value &value) { return toInteger(value, min, max); });
}

std::vector<std::string> JsonReader::getStrings(StringRef key) {
  auto strings = readList<StringRef>(*this, key, "a list of strings", "a string", "",
                                     [](const llvm::json::Value &value) { return value.getAsString(); });
  return {strings.begin(), strings.end()};
}
