//===- ProgramOptions.h - command lines of programs, by CLI11 ---*- C++ -*-===//
//
// CLI11 takes long to compile: one file of each program includes this header.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_PROGRAMOPTIONS_H
#define MOERT_CORE_PROGRAMOPTIONS_H

#include "core/View.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <limits>
#include <numeric>
#include <sstream>

namespace moert {

/// Group of the options that only --help-hidden prints.
inline constexpr const char *kHidden = "Hidden options";

/// Accepts text that is a number from `least` to `most`. `kind` names the numbers in the error.
template <class T> CLI::Validator isNumber(const std::string &kind, T least, T most = std::numeric_limits<T>::max()) {
  auto check = [=](std::string &text) -> std::string {
    T number{};
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || !(number >= least && number <= most))
      return "expected " + kind + " but got '" + text + "'";
    // CLI11 reads a leading 0 as the mark of an octal number.
    if constexpr (std::is_integral_v<T>)
      text = std::to_string(number);
    return "";
  };
  return CLI::Validator(check, "");
}
inline CLI::Validator isPositive() { return isNumber<int64_t>("a positive integer", 1); }

/// Prints help in the layout that tools/help_pages.py reads: usage, overview, and groups of options in short lines.
class HelpFormatter : public CLI::Formatter {
public:
  /// `arguments` are those of the usage line.
  explicit HelpFormatter(std::string arguments) : arguments(std::move(arguments)) {}

  std::string make_help(const CLI::App *app, std::string, CLI::AppFormatMode mode) const override {
    std::string text = "usage: " + app->get_name() + " " + arguments + "\n\n" + app->get_description() + "\n";
    for (const std::string &group : app->get_groups()) {
      if (group == kHidden && mode != CLI::AppFormatMode::All)
        continue;
      text += "\n" + group + ":\n";
      for (const CLI::Option *option : app->get_options())
        if (option->nonpositional() && option->get_group() == group)
          text += wrap("  " + option->get_name() + option->get_option_text(), option->get_description());
    }
    return text + "\n" + app->get_footer() + "\n";
  }

private:
  /// Sets `text` in lines that begin at a fixed column, after `line`.
  static std::string wrap(std::string line, const std::string &text) {
    constexpr size_t kColumn = 21, kWidth = 110;
    std::string lines;
    auto breakLine = [&] {
      lines += line + "\n";
      line.clear();
    };
    if (line.size() + 2 > kColumn)
      breakLine();
    line.resize(kColumn, ' ');
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      if (line.size() > kColumn && line.size() + 1 + word.size() > kWidth) {
        breakLine();
        line.resize(kColumn, ' ');
      }
      line += (line.size() > kColumn ? " " : "") + word;
    }
    breakLine();
    return lines;
  }

  std::string arguments;
};

/// Number of letters to insert, remove or replace to get from one word to the other.
inline size_t editDistance(const std::string &from, const std::string &to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= from.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= to.size(); ++j) {
      size_t changed = diagonal + (from[i - 1] != to[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

/// Error of an argument that no option and no position takes, with the nearest option.
inline Status unexpected(const CLI::App &app, const std::string &argument) {
  const std::string all = "; " + app.get_name() + " --help lists the options";
  if (!argument.starts_with("-"))
    return invalid("unexpected argument '", argument, "'", all);
  const std::string name = argument.substr(0, argument.find('='));
  auto distance = [&](const CLI::Option *option) { return editDistance(name, option->get_name()); };
  const auto options = app.get_options([](const CLI::Option *option) { return option->nonpositional(); });
  const CLI::Option *nearest = *std::ranges::min_element(options, {}, distance);
  const bool isNear = 3 * distance(nearest) <= name.size();
  return invalid("unknown option '", name, "'", isNear ? "; did you mean " + nearest->get_name() + "?" : all);
}

/// Adds --help, --help-hidden and --version, and parses. `information` becomes the text that one of these asks for.
inline Status parse(CLI::App &app, std::vector<std::string> arguments, std::string &information) {
  app.set_help_flag("--help,-h", "print this help");
  app.set_help_all_flag("--help-hidden", "print this help with all options");
  app.set_version_flag("--version", app.get_name() + " (MoePlan) " MOE_VERSION, "print the version");
  app.allow_extras();
  for (CLI::Option *option : app.get_options())
    option->check([](const std::string &text) {
      return text.empty() || text.starts_with("--") ? "expected a value but got '" + text + "'" : std::string();
    });
  try {
    std::ranges::reverse(arguments);
    app.parse(std::move(arguments));
  } catch (const CLI::Success &asked) {
    std::ostringstream out;
    app.exit(asked, out, out);
    information = out.str();
    return {};
  } catch (const CLI::ArgumentMismatch &error) {
    const std::string text = error.what();
    return invalid(text.substr(0, text.find(':')), ": expected a value");
  } catch (const CLI::ParseError &error) {
    return invalid(error.what());
  }
  const std::vector<std::string> rest = app.remaining();
  return rest.empty() ? Status{} : unexpected(app, rest.front());
}

} // namespace moert

#endif // MOERT_CORE_PROGRAMOPTIONS_H
