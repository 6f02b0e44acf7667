//===- MegatronArguments.cpp - the arguments of a Megatron-LM job ---------===//
#include "moe/Import/MegatronArguments.h"

#include "moe/Support/Text.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <map>

using namespace mlir::moe;
using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Words of a shell script
//===----------------------------------------------------------------------===//

namespace {
struct ShellWord {
  std::string text; ///< without quotes, and with the values of variables that the script sets before
  ConfigPlace place;
  /// Variable in it that the script sets to different values, of which `text` has the last one; empty: none.
  std::string doubtful;
  bool isQuoted = false; ///< a part of it is in quotes, which makes it no word of the shell
};

/// Splits a script into words. It knows comments, quotes, `\` at line ends, NAME=value, NAME=(words) and NAME="words
/// with --flags", whose words become those of the script, followed by a `)`. The rest are words like any others.
class ShellReader {
public:
  explicit ShellReader(StringRef script) : rest(script) {}

  std::vector<ShellWord> run();

private:
  void skip(size_t count);
  bool skipSpace();
  void readAssignment();
  void readWord();
  void readVariable(ShellWord &word);
  void readQuoted(ShellWord &word);
  /// Marks the end of a variable's words.
  void endWords() { words.push_back({")", {line, column}, "", false}); }

  struct Variable {
    std::string value;
    bool isDoubtful = false;
  };
  StringRef rest;
  unsigned line = 1, column = 1;
  bool isInQuotes = false; ///< the words are those of a variable's value in quotes
  int arrays = 0;          ///< number of open ones
  std::vector<ShellWord> words;
  llvm::StringMap<Variable> variables;
};
} // namespace

void ShellReader::skip(size_t count) {
  for (char c : rest.take_front(count)) {
    line += c == '\n';
    column = c == '\n' ? 1 : column + 1;
  }
  rest = rest.drop_front(count);
}

/// Returns false at the end.
bool ShellReader::skipSpace() {
  while (!rest.empty()) {
    if (rest.starts_with("\\\n") || rest.starts_with("\\\r\n"))
      skip(rest.find('\n') + 1);
    else if (isInQuotes && rest.front() == '"') {
      isInQuotes = false;
      endWords();
      skip(1);
    } else if (llvm::isSpace(rest.front()))
      skip(1);
    else if (rest.front() == '#')
      skip(std::min(rest.find('\n'), rest.size()));
    else
      return true;
  }
  return false;
}

static size_t getNameLength(StringRef text) {
  size_t length = text.find_if_not([](char c) { return llvm::isAlnum(c) || c == '_'; });
  return std::min(length, text.size());
}

/// Skips the text before the words of a variable's value, if there is any.
void ShellReader::readAssignment() {
  size_t length = getNameLength(rest);
  StringRef after = rest.drop_front(length);
  bool adds = after.consume_front("+");
  if (length == 0 || llvm::isDigit(rest.front()) || !after.consume_front("="))
    return;
  length += adds + 1;
  if (after.starts_with("(")) {
    ++arrays;
    return skip(length + 1);
  }
  if (after.starts_with("\"") && after.drop_front().take_until([](char c) { return c == '"'; }).contains("--")) {
    isInQuotes = true;
    skip(length + 1);
  }
}

/// Reads `$NAME`, `${NAME}` or `${NAME:-default}`. A variable that the script does not set stays as it is.
void ShellReader::readVariable(ShellWord &word) {
  StringRef inner = rest.drop_front(), otherwise;
  size_t length = 0;
  if (inner.starts_with("{") && inner.contains('}')) {
    inner = inner.drop_front().take_until([](char c) { return c == '}'; });
    length = inner.size() + 3;
    std::tie(inner, otherwise) = inner.split(":-");
  } else {
    inner = inner.take_front(getNameLength(inner));
    length = inner.size() + 1;
  }
  auto known = variables.find(inner);
  if (known != variables.end()) {
    word.text += known->second.value;
    if (known->second.isDoubtful)
      word.doubtful = inner.str();
  } else {
    word.text += otherwise.empty() ? rest.take_front(length) : otherwise.trim("\"'");
  }
  skip(length);
}

void ShellReader::readQuoted(ShellWord &word) {
  char quote = rest.front();
  word.isQuoted = true;
  skip(1);
  while (!rest.empty() && rest.front() != quote) {
    if (quote == '"' && rest.front() == '$') {
      readVariable(word);
      continue;
    }
    if (quote == '"' && rest.front() == '\\' && rest.size() > 1)
      skip(1);
    word.text += rest.front();
    skip(1);
  }
  skip(1);
}

void ShellReader::readWord() {
  ShellWord word;
  word.place = {line, column};
  StringRef ends = isInQuotes ? " \t\r\n\"" : " \t\r\n";
  while (!rest.empty() && !ends.contains(rest.front()) && !rest.starts_with("\\\n")) {
    char c = rest.front();
    if (c == '$') {
      readVariable(word);
    } else if (c == '\'' || (c == '"' && !isInQuotes)) {
      readQuoted(word);
    } else if (c == '\\' && rest.size() > 1) {
      word.text += rest[1];
      skip(2);
    } else {
      word.text += c;
      skip(1);
    }
  }
  StringRef text = word.text;
  const bool endsArray = arrays > 0 && !word.isQuoted && text.ends_with(")") && text.count(')') > text.count('(');
  if (endsArray) {
    --arrays;
    word.text.pop_back();
  }
  size_t length = getNameLength(word.text);
  if (StringRef value = StringRef(word.text).substr(length); length > 0 && value.consume_front("=")) {
    auto [known, isNew] = variables.try_emplace(StringRef(word.text).take_front(length));
    known->second.isDoubtful |= !isNew && known->second.value != value;
    known->second.value = value.str();
  }
  if (!word.text.empty())
    words.push_back(std::move(word));
  if (endsArray)
    endWords();
}

std::vector<ShellWord> ShellReader::run() {
  while (skipSpace()) {
    size_t before = rest.size();
    readAssignment();
    if (rest.size() == before)
      readWord();
  }
  return std::move(words);
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

namespace {
struct Argument {
  ConfigPlace place;
  const MegatronFlag *flag = nullptr;
  llvm::SmallVector<std::string> values;
};

class ArgumentsReader {
public:
  ArgumentsReader(StringRef text, StringRef fileName) : words(ShellReader(text).run()) {
    result.fileName = fileName.str();
  }

  llvm::Expected<MegatronArguments> run();

private:
  llvm::Error makeError(const ShellWord &word, const Twine &text) const {
    return makeErrorAt(result.fileName, word.place, text);
  }
  void addRemark(const ConfigPlace &place, const Twine &text) { result.remarks.push_back({text.str(), place}); }
  llvm::Error readFlag();
  llvm::Error readValues(const ShellWord &word, Argument &argument);
  llvm::Error checkNext(unsigned line) const;
  void keep(StringRef name, Argument argument);
  void write();

  std::vector<ShellWord> words;
  size_t next = 0;
  MegatronArguments result;
  /// Keeps the last argument of each name.
  llvm::MapVector<std::string, Argument, std::map<std::string, unsigned>> arguments;
};
} // namespace

static bool isFlag(const ShellWord &word) {
  StringRef text = word.text;
  return !word.isQuoted && text.size() > 2 && text.starts_with("--") && llvm::isAlpha(text[2]);
}

/// True for words that end a command's arguments, such as `;`, or that expand to more arguments, such as `$ARGS`.
static bool isShell(const ShellWord &word) {
  static constexpr StringRef kWords[] = {")", "(", "|", "||", "&", "&&", ";", "then", "fi", "else", "done", "esac"};
  StringRef text = word.text;
  return !word.isQuoted && (llvm::is_contained(kWords, text) || text.contains(".py") || text.contains('>') ||
                            text.contains("[@]") || text.starts_with("$") || text.ends_with(";"));
}

llvm::Error ArgumentsReader::readValues(const ShellWord &word, Argument &argument) {
  int count = argument.flag->values;
  auto take = [&] {
    const ShellWord &value = words[next++];
    if (!value.doubtful.empty() && !argument.flag->isHarmless)
      addRemark(value.place, "'" + word.text + "': the file sets '" + value.doubtful +
                                 "' to different values; the last one before this place, " + value.text + ", is taken");
    argument.values.push_back(value.text);
  };
  if (count == kManyValues) {
    while (next < words.size() && !isFlag(words[next]) && !isShell(words[next]))
      take();
    return llvm::Error::success();
  }
  while (static_cast<int>(argument.values.size()) < count) {
    if (next == words.size() || isFlag(words[next]))
      return makeError(word, "'" + word.text + "': expected a value after it");
    take();
  }
  return llvm::Error::success();
}

/// Checks that another flag, or a word of the shell, follows a complete flag on its line.
llvm::Error ArgumentsReader::checkNext(unsigned line) const {
  if (next == words.size() || words[next].place.line != line || isFlag(words[next]) || isShell(words[next]))
    return llvm::Error::success();
  return makeError(words[next], "expected a flag, such as '--num-layers', but got '" + words[next].text + "'");
}

void ArgumentsReader::keep(StringRef name, Argument argument) {
  std::string key = name.str();
  std::replace(key.begin(), key.end(), '-', '_');
  auto [known, isNew] = arguments.insert({key, argument});
  if (isNew)
    return;
  if (known->second.values != argument.values && !argument.flag->isHarmless)
    addRemark(argument.place, "'--" + name + "' was given before, on line " + Twine(known->second.place.line) +
                                  ", with another value; as in Megatron-LM the last one is taken");
  known->second = std::move(argument);
}

llvm::Error ArgumentsReader::readFlag() {
  const ShellWord word = words[next++];
  auto [text, value] = StringRef(word.text).drop_front(2).split('=');
  bool hasValue = text.size() + 2 < word.text.size();
  std::string name = text.str();
  std::replace(name.begin(), name.end(), '_', '-');
  Argument argument{word.place, findMegatronFlag(name), {}};
  if (!argument.flag) {
    addRemark(word.place, "'--" + name + "': expected an argument of Megatron-LM that MoePlan knows" +
                              suggestName(name, getMegatronFlagNames()) + "; it is left out");
    while (next < words.size() && !isFlag(words[next]) && !isShell(words[next]) &&
           words[next].place.line == word.place.line)
      ++next;
    return llvm::Error::success();
  }
  if (hasValue && argument.flag->values == 0)
    return makeError(word, "'--" + name + "': expected no value but got '" + value + "'");
  if (hasValue)
    argument.values.push_back(value.str());
  if (llvm::Error error = readValues(word, argument))
    return error;
  unsigned line = argument.values.empty() || hasValue ? word.place.line : words[next - 1].place.line;
  if (llvm::Error error = checkNext(line))
    return error;
  if (!argument.flag->instead.empty())
    addRemark(word.place, "'--" + name + "': MoePlan takes " + argument.flag->instead + " instead");
  keep(name, std::move(argument));
  return llvm::Error::success();
}

static llvm::json::Value makeValue(StringRef text) {
  int64_t integer = 0;
  if (!text.getAsInteger(10, integer))
    return integer;
  double number = 0;
  if (!text.getAsDouble(number))
    return number;
  return llvm::json::fixUTF8(text);
}

static llvm::json::Value makeValue(const Argument &argument) {
  if (argument.flag->values == 0)
    return true;
  if (argument.flag->values == 1)
    return makeValue(argument.values.front());
  llvm::json::Array array;
  for (StringRef value : argument.values)
    array.push_back(llvm::json::fixUTF8(value));
  return array;
}

/// Writes each argument on its line and, if there is room, in its column.
void ArgumentsReader::write() {
  llvm::raw_string_ostream os(result.json);
  auto sorted = arguments.takeVector();
  llvm::stable_sort(sorted, [](const auto &a, const auto &b) {
    return std::pair(a.second.place.line, a.second.place.column) <
           std::pair(b.second.place.line, b.second.place.column);
  });
  os << "{";
  unsigned line = 1, column = 2;
  bool isFirst = true;
  for (const auto &[key, argument] : sorted) {
    if (argument.flag->isHarmless)
      continue;
    if (!isFirst)
      ++column, os << ",";
    isFirst = false;
    for (; line < argument.place.line; ++line, column = 1)
      os << "\n";
    for (; column < argument.place.column; ++column)
      os << " ";
    std::string text = llvm::formatv("\"{0}\": {1}", key, makeValue(argument));
    os << text;
    column += text.size();
  }
  os << "}\n";
}

llvm::Expected<MegatronArguments> ArgumentsReader::run() {
  while (next < words.size()) {
    if (!isFlag(words[next]))
      ++next;
    else if (llvm::Error error = readFlag())
      return error;
  }
  if (arguments.empty())
    return makeErrorAt(result.fileName, {}, "expected arguments of Megatron-LM, such as '--num-layers 32'");
  write();
  return std::move(result);
}

llvm::Expected<MegatronArguments> mlir::moe::parseMegatronArguments(StringRef text, StringRef fileName) {
  return ArgumentsReader(text, fileName).run();
}
