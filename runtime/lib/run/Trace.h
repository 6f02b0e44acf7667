//===- Trace.h - a step as a Perfetto/Chrome trace ------------------------===//
#ifndef MOERT_RUN_TRACE_H
#define MOERT_RUN_TRACE_H

#include "run/Runner.h"

namespace moert::run {

/// Writes a process for each rank, a thread for each stream, and a complete event for each op of the last step.
Status writeTrace(const std::string &path, std::span<const Program> programs, const std::vector<Group> &groups,
                  const RunResult &result);

} // namespace moert::run

#endif // MOERT_RUN_TRACE_H
