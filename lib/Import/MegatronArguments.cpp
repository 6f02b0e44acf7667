//===- MegatronArguments.cpp - the arguments of a Megatron-LM job ---------===//
#include "moe/Import/MegatronArguments.h"

#include "ShellScript.h"

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

namespace {
struct Argument {
  ConfigPlace place;
  const MegatronFlag *flag = nullptr;
  llvm::SmallVector<std::string> values;
};

class ArgumentsReader {
public:
  ArgumentsReader(ShellScript script, StringRef fileName) : words(std::move(script.words)) {
    result.fileName = fileName.str();
    result.remarks = std::move(script.remarks);
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
  void checkTogether();
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
  static constexpr StringRef kWords[] = {")", "(",    "}",  "|",    "||",   "&",   "&&",
                                         ";", "then", "fi", "else", "done", "esac"};
  StringRef text = word.text;
  return !word.isQuoted && (llvm::is_contained(kWords, text) || text.contains(".py") || text.contains('>') ||
                            text.contains("[@]") || text.starts_with("$") || text.ends_with(";"));
}

llvm::Error ArgumentsReader::readValues(const ShellWord &word, Argument &argument) {
  int count = argument.flag->values;
  auto take = [&] {
    const ShellWord &value = words[next++];
    if (!value.doubtful.empty() && !argument.flag->isHarmless)
      addRemark(value.place, "'" + word.text + "': the file sets '" + value.doubtful + "' to different values; " +
                                 value.text + " is taken, the last one before this place that is in no condition");
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

/// Whether MoePlan's substitute does the same as the argument.
static bool isSame(const Argument &argument) {
  llvm::SmallVector<StringRef> same;
  llvm::SplitString(argument.flag->same, same, " ");
  return !argument.values.empty() &&
         llvm::all_of(argument.values, [&](StringRef value) { return llvm::is_contained(same, value); });
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

/// Reports flags whose meaning depends on others.
void ArgumentsReader::checkTogether() {
  auto latent = arguments.find("multi_latent_attention");
  if (latent != arguments.end() && !arguments.contains("qk_layernorm"))
    addRemark(latent->second.place, "'--multi-latent-attention' without --qk-layernorm: MoePlan takes latent attention "
                                    "with norms of the latent vectors, as with --qk-layernorm");
  auto capacity = arguments.find("moe_expert_capacity_factor"), policy = arguments.find("moe_token_drop_policy");
  bool isByPosition = policy != arguments.end() && policy->second.values.front() == "position";
  if (capacity != arguments.end() && !isByPosition)
    addRemark(capacity->second.place, "'--moe-expert-capacity-factor': MoePlan drops the last choices of an expert, as "
                                      "with --moe-token-drop-policy position, and not the least probable ones");
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
  if (!word.obstacle.empty()) {
    if (!argument.flag->isHarmless)
      addRemark(word.place, "'--" + name + "' stands " + word.obstacle + ", so it is left out");
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
  if (!argument.flag->instead.empty() && !isSame(argument))
    addRemark(word.place, "'--" +
                              llvm::join(llvm::concat<const std::string>(llvm::ArrayRef(name), argument.values), " ") +
                              "': MoePlan takes " + argument.flag->instead + " instead");
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
  checkTogether();
  if (arguments.empty())
    return makeErrorAt(result.fileName, {}, "expected arguments of Megatron-LM, such as '--num-layers 32'");
  write();
  return std::move(result);
}

llvm::Expected<MegatronArguments> mlir::moe::parseMegatronArguments(StringRef text, StringRef fileName) {
  return ArgumentsReader(readShellScript(text), fileName).run();
}
