//===- Report.h - what moe-run prints -------------------------------------===//
#ifndef MOERT_RUN_REPORT_H
#define MOERT_RUN_REPORT_H

#include "run/Verify.h"

namespace moert::run {

/// What there is to say about a run. `verification` is null without --verify.
struct Report {
  const Options &options;
  const Metadata &metadata;
  std::span<const Program> programs;
  const RunResult &result;
  const Verification *verification;
  /// Whether the steps were only to verify something, and nobody measures them.
  bool isVerdict() const { return options.gradients || (verification && options.wide == MOERT_WIDE_FIELD); }
};

/// One JSON object.
void printJson(const Report &report, std::ostream &out);
/// Tables of at most 100 columns.
void printTables(const Report &report, std::ostream &out);

} // namespace moert::run

#endif // MOERT_RUN_REPORT_H
