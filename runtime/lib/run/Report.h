//===- Report.h - what moe-run prints -------------------------------------===//
#ifndef MOERT_RUN_REPORT_H
#define MOERT_RUN_REPORT_H

#include "run/Verify.h"

namespace moert::run {

/// A run to report. `verification` is null without --verify.
struct Report {
  const Options &options;
  const Metadata &metadata;
  std::span<const Program> programs;
  const RunResult &result;
  const Verification *verification;
  /// Whether the steps only verified something, so that their times do not matter.
  bool isVerdict() const { return options.gradients || (verification && options.wide == MOERT_WIDE_FIELD); }
};

/// Prints one JSON object.
void printJson(const Report &report, std::ostream &out);
/// Prints tables of at most 100 columns.
void printTables(const Report &report, std::ostream &out);

} // namespace moert::run

#endif // MOERT_RUN_REPORT_H
