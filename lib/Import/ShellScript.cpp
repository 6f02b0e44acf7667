//===- ShellScript.cpp - words of a shell script --------------------------===//
#include "ShellScript.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

namespace {
/// Evaluates `$((..))`: integers, parentheses and + - * / %. Null for other text, and if a result does not fit.
class Arithmetic {
public:
  explicit Arithmetic(StringRef text) : rest(text) {}

  std::optional<int64_t> run() {
    std::optional<int64_t> value = parseSum();
    return rest.trim().empty() ? value : std::nullopt;
  }

private:
  /// Takes one of these characters; 0 if none of them is next.
  char take(StringRef characters) {
    rest = rest.ltrim();
    if (rest.empty() || !characters.contains(rest.front()))
      return 0;
    char taken = rest.front();
    rest = rest.drop_front();
    return taken;
  }
  std::optional<int64_t> parseSum();
  std::optional<int64_t> parseProduct();
  std::optional<int64_t> parseFactor();

  StringRef rest;
  int factors = 0;
};
} // namespace

std::optional<int64_t> Arithmetic::parseFactor() {
  constexpr int most = 100; // It bounds the recursion, too.
  if (++factors > most)
    return std::nullopt;
  if (take("-")) {
    std::optional<int64_t> value = parseFactor();
    int64_t negative = 0;
    return value && !llvm::SubOverflow<int64_t>(0, *value, negative) ? std::optional(negative) : std::nullopt;
  }
  int64_t number = 0;
  if (take("(")) {
    std::optional<int64_t> value = parseSum();
    return take(")") ? value : std::nullopt;
  }
  rest = rest.ltrim();
  return rest.consumeInteger(10, number) ? std::nullopt : std::optional(number);
}

std::optional<int64_t> Arithmetic::parseProduct() {
  std::optional<int64_t> value = parseFactor();
  while (char sign = value ? take("*/%") : 0) {
    std::optional<int64_t> other = parseFactor();
    int64_t product = 0;
    if (!other || (sign != '*' && *other == 0) || llvm::MulOverflow(*value, *other, product))
      return std::nullopt;
    value = sign == '*' ? product : sign == '/' ? *value / *other : *value % *other;
  }
  return value;
}

std::optional<int64_t> Arithmetic::parseSum() {
  std::optional<int64_t> value = parseProduct();
  while (char sign = value ? take("+-") : 0) {
    std::optional<int64_t> other = parseProduct();
    int64_t sum = 0;
    if (!other || (sign == '+' ? llvm::AddOverflow(*value, *other, sum) : llvm::SubOverflow(*value, *other, sum)))
      return std::nullopt;
    value = sum;
  }
  return value;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

namespace {
class ShellReader {
public:
  explicit ShellReader(StringRef script) : rest(script) {}

  ShellScript run();

private:
  /// A part of the script whose words a command may not get.
  struct Block {
    enum Kind { Condition, Function, Braces, Words, QuotedWords } kind;
    std::string name; ///< name of a function or a variable
    int outer;        ///< number of the block around it; -1: none
  };
  struct Variable {
    std::string value;
    bool isDoubtful = false;
  };
  static constexpr int kScript = -1;

  void skip(size_t count);
  bool skipSpace();
  bool readAssignment();
  void readWord();
  void readVariable(ShellWord &word);
  size_t readBraces(StringRef inner, ShellWord &word);
  bool readParentheses(ShellWord &word);
  std::string replaceVariables(StringRef text);
  void readQuoted(ShellWord &word);
  void setVariable(StringRef text);
  void addWord(ShellWord word);
  void endCommand();
  void readKeyword(const ShellWord &word);
  void open(Block::Kind kind, StringRef name = {}) {
    blocks.push_back({kind, name.str(), block});
    block = static_cast<int>(blocks.size()) - 1;
  }
  void close(Block::Kind kind) {
    if (isIn(kind))
      block = blocks[block].outer;
  }
  bool isIn(Block::Kind kind) const { return block != kScript && blocks[block].kind == kind; }
  bool isInCondition() const;
  void findUses();
  std::string getObstacle(int at) const;

  StringRef rest;
  unsigned line = 1, column = 1;
  int block = kScript;
  std::vector<Block> blocks;
  bool isCommand = true;                         ///< the next word is the name of a command
  std::string command;                           ///< name of the command whose words are read
  bool isChained = false;                        ///< the command depends on a test before it
  std::vector<int> blockOf;                      ///< block of each word
  std::vector<std::pair<std::string, int>> uses; ///< variables and commands, and the blocks in which they are used
  llvm::StringSet<> used;                        ///< names of `uses` that a command reaches
  llvm::StringMap<Variable> variables;
  ShellScript script;
};
} // namespace

void ShellReader::skip(size_t count) {
  for (char c : rest.take_front(count)) {
    line += c == '\n';
    column = c == '\n' ? 1 : column + 1;
  }
  rest = rest.drop_front(count);
}

void ShellReader::endCommand() {
  isCommand = true;
  command.clear();
  if (std::exchange(isChained, false))
    close(Block::Condition);
}

/// Returns false at the end.
bool ShellReader::skipSpace() {
  while (!rest.empty()) {
    if (rest.starts_with("\\\n") || rest.starts_with("\\\r\n")) {
      skip(rest.find('\n') + 1);
    } else if (isIn(Block::QuotedWords) && rest.front() == '"') {
      addWord({")", {line, column}, "", false, ""});
      close(Block::QuotedWords);
      skip(1);
    } else if (llvm::isSpace(rest.front())) {
      if (rest.front() == '\n' && !isIn(Block::Words) && !isIn(Block::QuotedWords))
        endCommand();
      skip(1);
    } else if (rest.front() == '#') {
      skip(std::min(rest.find('\n'), rest.size()));
    } else {
      return true;
    }
  }
  return false;
}

static size_t getNameLength(StringRef text) {
  size_t length = text.find_if_not([](char c) { return llvm::isAlnum(c) || c == '_'; });
  return std::min(length, text.size());
}

/// Reads the text before the words of a variable's value, if there is any.
bool ShellReader::readAssignment() {
  size_t length = getNameLength(rest);
  StringRef name = rest.take_front(length), after = rest.drop_front(length);
  bool adds = after.consume_front("+");
  if (length == 0 || llvm::isDigit(rest.front()) || !after.consume_front("="))
    return false;
  length += adds + 2;
  bool isArray = after.starts_with("(");
  if (!isArray && !(after.consume_front("\"") && after.take_until([](char c) { return c == '"'; }).contains("--")))
    return false;
  open(isArray ? Block::Words : Block::QuotedWords, name);
  skip(length);
  return true;
}

/// Replaces variables in the text of an expression.
std::string ShellReader::replaceVariables(StringRef text) {
  std::string result;
  while (!text.empty()) {
    StringRef name = text;
    bool hasSign = name.consume_front("$"), hasBrace = hasSign && name.consume_front("{");
    name = name.take_front(llvm::isDigit(name.empty() ? '0' : name.front()) ? 0 : getNameLength(name));
    auto known = variables.find(name);
    if (name.empty() || known == variables.end()) {
      result += text.front();
      text = text.drop_front();
      continue;
    }
    uses.emplace_back(name.str(), block);
    result += known->second.value;
    text = text.drop_front(name.size() + hasSign + 2 * hasBrace);
  }
  return result;
}

/// Reads `$((..))`, or `$(..)`, which stays as it is. Returns false if the parentheses do not end.
bool ShellReader::readParentheses(ShellWord &word) {
  size_t length = 1, depth = 0;
  do {
    if (length == rest.size())
      return false;
    depth += rest[length] == '(';
    depth -= rest[length] == ')';
    ++length;
  } while (depth > 0);
  StringRef text = rest.take_front(length), inner = text;
  std::optional<int64_t> value;
  if (inner.consume_front("$((") && inner.consume_back("))"))
    value = Arithmetic(replaceVariables(inner)).run();
  word.text += value ? std::to_string(*value) : text.str();
  skip(length);
  return true;
}

/// Reads `$NAME`, `${NAME}` or `${NAME:-default}`. A variable that the script does not set stays as it is.
void ShellReader::readVariable(ShellWord &word) {
  if (rest.starts_with("$(") && readParentheses(word))
    return;
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
  uses.emplace_back(inner.take_front(getNameLength(inner)).str(), block);
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

bool ShellReader::isInCondition() const {
  for (int at = block; at != kScript; at = blocks[at].outer)
    if (blocks[at].kind == Block::Condition)
      return true;
  return false;
}

/// Sets a variable if `text` is NAME=value. A value in a condition does not replace another one.
void ShellReader::setVariable(StringRef text) {
  size_t length = getNameLength(text);
  StringRef value = text.substr(length);
  if (length == 0 || !value.consume_front("="))
    return;
  auto [known, isNew] = variables.try_emplace(text.take_front(length));
  known->second.isDoubtful |= !isNew && known->second.value != value;
  if (isNew || !isInCondition())
    known->second.value = value.str();
}

void ShellReader::addWord(ShellWord word) {
  script.words.push_back(std::move(word));
  blockOf.push_back(block);
}

/// Follows the structure of commands, of which `word` is the first word or a separator.
void ShellReader::readKeyword(const ShellWord &word) {
  StringRef text = word.text;
  auto isOneOf = [&](std::initializer_list<StringRef> words) { return llvm::is_contained(words, text); };
  if (command == "function") {
    open(Block::Function, text.take_until([](char c) { return c == '('; }));
    return endCommand();
  }
  if (text == "()" && !command.empty()) {
    uses.pop_back();
    open(Block::Function, command);
    return endCommand();
  }
  if (word.isQuoted || (!isCommand && !isOneOf({"&&", "||", ";", ";;", "|", "&"})))
    return;
  bool isTest = llvm::is_contained({"[", "[[", "test"}, StringRef(command));
  if (isOneOf({"||"}) || (text == "&&" && isTest)) {
    endCommand();
    open(Block::Condition);
    isChained = true;
  } else if (isOneOf({"&&", ";", ";;", "|", "&", "then", "do", "else", "elif", "!", "time", "exec"})) {
    endCommand();
  } else if (isOneOf({"if", "while", "until", "for", "case", "select"})) {
    open(Block::Condition);
    isCommand = text != "for" && text != "case" && text != "select";
  } else if (isOneOf({"fi", "done", "esac"})) {
    close(Block::Condition);
    isCommand = false;
  } else if (text == "{") {
    open(Block::Braces);
  } else if (text == "}") {
    close(Block::Braces);
    close(Block::Function);
  } else if (text.ends_with("()")) {
    open(Block::Function, text.drop_back(2));
  } else {
    command = text;
    isCommand = text.contains('='); // A command may stand behind variables.
    uses.emplace_back(text.str(), block);
    if (text == "source" || text == ".")
      script.remarks.push_back({"'" + text.str() +
                                    "': MoePlan does not read another file; variables and flags of that file "
                                    "must be in this one",
                                word.place});
  }
}

void ShellReader::readWord() {
  ShellWord word;
  word.place = {line, column};
  StringRef ends = isIn(Block::QuotedWords) ? " \t\r\n\"" : " \t\r\n";
  bool endsArray = false;
  int open = 0; // parentheses
  while (!rest.empty() && !ends.contains(rest.front()) && !rest.starts_with("\\\n") && !endsArray) {
    char c = rest.front();
    endsArray = c == ')' && isIn(Block::Words) && open == 0;
    if (endsArray) {
      skip(1);
    } else if (c == '$') {
      readVariable(word);
    } else if (c == '\'' || (c == '"' && !isIn(Block::QuotedWords))) {
      readQuoted(word);
    } else if (c == '\\' && rest.size() > 1) {
      word.text += rest[1];
      skip(2);
    } else {
      open += c == '(' ? 1 : c == ')' ? -1 : 0;
      word.text += c;
      skip(1);
    }
  }
  StringRef text = word.text;
  const bool endsCommand = !word.isQuoted && text.size() > 1 && text.ends_with(";");
  if (endsCommand && isCommand)
    word.text.pop_back();
  setVariable(word.text);
  if (!isIn(Block::Words) && !isIn(Block::QuotedWords))
    readKeyword(word);
  ConfigPlace end = {line, column};
  if (!word.text.empty())
    addWord(std::move(word));
  if (endsArray) {
    addWord({")", end, "", false, ""});
    close(Block::Words);
  }
  if (endsCommand)
    endCommand();
}

/// Finds the variables and functions that commands use, directly or through others.
void ShellReader::findUses() {
  auto isReached = [&](int at) {
    for (; at != kScript; at = blocks[at].outer)
      if (blocks[at].kind != Block::Condition && blocks[at].kind != Block::Braces && !used.contains(blocks[at].name))
        return false;
    return true;
  };
  for (size_t before = ~size_t(0); before != used.size();) {
    before = used.size();
    for (const auto &[name, at] : uses)
      if (isReached(at))
        used.insert(name);
  }
}

std::string ShellReader::getObstacle(int at) const {
  for (; at != kScript; at = blocks[at].outer) {
    const Block &one = blocks[at];
    bool isVariable = one.kind == Block::Words || one.kind == Block::QuotedWords;
    if (one.kind == Block::Condition)
      return "in a condition or a loop";
    if (one.kind == Block::Function && !used.contains(one.name))
      return "in the function '" + one.name + "', which no command calls";
    if (isVariable && !used.contains(one.name))
      return "in the variable '" + one.name + "', which no command uses";
  }
  return "";
}

ShellScript ShellReader::run() {
  while (skipSpace())
    if (!readAssignment())
      readWord();
  findUses();
  bool usesNone = llvm::none_of(blocks, [&](const Block &one) {
    return (one.kind == Block::Words || one.kind == Block::QuotedWords) && used.contains(one.name);
  });
  if (usesNone)
    for (const Block &one : blocks)
      if (one.kind == Block::Words || one.kind == Block::QuotedWords)
        used.insert(one.name);
  for (auto [word, at] : llvm::zip(script.words, blockOf))
    word.obstacle = getObstacle(at);
  return std::move(script);
}

ShellScript mlir::moe::readShellScript(StringRef text) { return ShellReader(text).run(); }
