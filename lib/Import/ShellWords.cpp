//===- ShellWords.cpp - the words of a shell script -----------------------===//
#include "ShellWords.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir::moe;
using llvm::StringRef;

namespace {
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
  void set(StringRef name, StringRef value);
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
    else if (llvm::isSpace(rest.front()) || (isInQuotes && rest.front() == '"')) {
      if (isInQuotes && rest.front() == '"') {
        isInQuotes = false;
        endWords();
      }
      skip(1);
    } else if (rest.front() == '#')
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

void ShellReader::set(StringRef name, StringRef value) {
  auto [known, isNew] = variables.try_emplace(name);
  known->second.isDoubtful |= !isNew && known->second.value != value;
  known->second.value = value.str();
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
  bool endsArray = false;
  if (arrays > 0 && !word.isQuoted && text.ends_with(")") && text.count(')') > text.count('(')) {
    --arrays;
    word.text.pop_back();
    endsArray = true;
  }
  size_t length = getNameLength(word.text);
  if (length > 0 && StringRef(word.text).substr(length).starts_with("="))
    set(StringRef(word.text).take_front(length), StringRef(word.text).drop_front(length + 1));
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

std::vector<ShellWord> mlir::moe::splitShellWords(StringRef script) { return ShellReader(script).run(); }
