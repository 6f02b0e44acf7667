//===- Report.h - what moe-run prints of a run, and its trace -------------===//
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
  /// Name of the op's group; empty if it has none.
  std::string groupOf(const Op &op) const {
    return op.group < 0 ? "" : metadata.groups[static_cast<size_t>(op.group)].name;
  }
  /// Whether the steps only verified something, so that their times do not matter.
  bool isVerdict() const { return options.gradients || (verification && options.wide == MOERT_WIDE_FIELD); }
};

/// Prints one JSON object.
void printJson(const Report &report, std::ostream &out);
/// Prints tables of at most 100 columns.
void printTables(const Report &report, std::ostream &out);
/// Writes a Perfetto/Chrome trace: a process for each rank, a thread for each stream, and a complete event for each op
/// of the last step.
Status writeTrace(const std::string &path, const Report &report);

} // namespace moert::run

#endif // MOERT_RUN_REPORT_H
