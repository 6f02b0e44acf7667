//===- CommandLine.h - the options of a program of the runtime --*- C++ -*-===//
#ifndef MOERT_CORE_COMMANDLINE_H
#define MOERT_CORE_COMMANDLINE_H

#include "core/View.h"

#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace moert {

/// Where the value of an option goes, which also says what it may be.
using OptionTarget = std::variant<bool *,                     ///< takes no value
                                  std::string *,              ///< any text that is not empty
                                  std::vector<std::string> *, ///< the same; the option may be repeated
                                  int64_t *,                  ///< a positive integer
                                  uint64_t *,                 ///< an integer that is not negative
                                  double *,                   ///< a finite number that is not negative
                                  std::function<Status(const std::string &value)>>;

/// --NAME, or --NAME=VALUE.
struct OptionRow {
  const char *name; ///< "--ranks"
  std::string
      value; ///< "N", or "a|b" for what may be chosen; "" where it takes none; "[=f64]" where it may be left out
  OptionTarget target;
  std::string help; ///< in one line
};

struct OptionSection {
  const char *title;
  std::vector<OptionRow> rows;
};

/// The one table from which a command line is parsed and its help is printed. Shell completion and manual pages are
/// made of the help.
struct CommandLine {
  const char *program;
  const char *arguments; ///< "PLAN.so [options]"
  const char *overview;
  std::vector<OptionSection> sections;
  const char *end; ///< the last paragraph of the help

  std::string helpText() const;
  /// Sets what `argument`, which begins with -, stands for.
  Status parse(const std::string &argument) const;
};

/// "moe-run (MoePlan) 0.1.0" and a line break.
std::string versionText(const char *program);

} // namespace moert

#endif // MOERT_CORE_COMMANDLINE_H
