//===- CommandLine.cpp - the options of a program of the runtime ----------===//

#include "core/CommandLine.h"

#include <charconv>
#include <cmath>
#include <sstream>

namespace moert {
namespace {

constexpr size_t kHelpColumn = 21, kLineWidth = 110;

template <class T> bool parseNumber(const std::string &text, T &number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

Status check(bool isGood, const std::string &kind, const OptionRow &row, const std::string &value) {
  return isGood ? Status{} : invalid("expected " + kind + " for " + row.name + " but got '" + value + "'");
}

/// Stores a value that is there.
struct Store {
  const OptionRow &row;
  const std::string &value;

  Status operator()(bool *) const { return invalid(std::string(row.name) + " takes no value"); }
  Status operator()(std::string *text) const {
    *text = value;
    return {};
  }
  Status operator()(std::vector<std::string> *texts) const {
    texts->push_back(value);
    return {};
  }
  Status operator()(int64_t *count) const {
    return check(parseNumber(value, *count) && *count > 0, "a positive integer", row, value);
  }
  Status operator()(uint64_t *count) const {
    return check(parseNumber(value, *count), "an integer that is not negative", row, value);
  }
  Status operator()(double *number) const {
    return check(parseNumber(value, *number) && *number >= 0 && std::isfinite(*number), "a number that is not negative",
                 row, value);
  }
  Status operator()(const std::function<Status(const std::string &)> &set) const { return set(value); }
};

Status set(const OptionRow &row, bool hasValue, const std::string &value) {
  const bool isOptional = row.value.starts_with('[');
  if (bool *const *flag = std::get_if<bool *>(&row.target); flag && !hasValue) {
    **flag = true;
    return {};
  }
  if (!row.value.empty() && value.empty() && !(isOptional && !hasValue))
    return invalid("expected a value: " + std::string(row.name) + "=...");
  return std::visit(Store{row, value}, row.target);
}

/// "  --ranks=N", "  --verify[=f64]" or "  -o FILE".
std::string usageOf(const OptionRow &row) {
  std::string text = std::string("  ") + row.name;
  if (!row.value.empty() && row.value[0] != '[')
    text += row.name[1] == '-' ? "=" : " ";
  return text + row.value;
}

/// `text` in lines that begin at kHelpColumn, after what stands in `line` already.
std::string wrap(std::string line, const std::string &text) {
  std::string lines;
  auto breakLine = [&] {
    lines += line + "\n";
    line.clear();
  };
  if (line.size() + 2 > kHelpColumn)
    breakLine();
  line.resize(kHelpColumn, ' ');
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (line.size() > kHelpColumn && line.size() + 1 + word.size() > kLineWidth) {
      breakLine();
      line.resize(kHelpColumn, ' ');
    }
    line += (line.size() > kHelpColumn ? " " : "") + word;
  }
  breakLine();
  return lines;
}

} // namespace

std::string CommandLine::helpText() const {
  std::string text = std::string("usage: ") + program + " " + arguments + "\n\n" + overview + "\n";
  for (const OptionSection &section : sections) {
    text += "\n" + std::string(section.title) + ":\n";
    for (const OptionRow &row : section.rows)
      text += wrap(usageOf(row), row.help);
  }
  return text + "\n" + end + "\n";
}

Status CommandLine::parse(const std::string &argument) const {
  const size_t equals = argument.find('=');
  const bool hasValue = equals != std::string::npos;
  const std::string name = argument == "-h" ? "--help" : argument.substr(0, equals);
  for (const OptionSection &section : sections)
    for (const OptionRow &row : section.rows)
      if (name == row.name)
        return set(row, hasValue, hasValue ? argument.substr(equals + 1) : "");
  return invalid("unknown option '" + name + "'; " + program + " --help lists them");
}

std::string versionText(const char *program) { return std::string(program) + " (MoePlan) " + MOE_VERSION + "\n"; }

} // namespace moert
