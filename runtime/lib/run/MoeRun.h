//===- MoeRun.h - moe-run without its main function ---------------*- C++ -*-===//
#ifndef MOERT_RUN_MOERUN_H
#define MOERT_RUN_MOERUN_H

#include "run/Options.h"

#include <ostream>

namespace moert::run {

/// Exit statuses. `Stopped` is that of a shell for SIGTERM.
enum ExitStatus { Done = 0, CheckFailed = 1, BadInput = 2, Stopped = 143 };

/// Runs moe-run with `arguments`, which do not have the program's name. Results go to `out`, messages to `err`, and
/// progress too if `isTerminal`. Returns the exit status.
int runMain(const std::vector<std::string> &arguments, std::ostream &out, std::ostream &err, bool isTerminal);

/// Trains the plan's model on the tokens of `options.train.data`. It starts from an existing checkpoint, from
/// `options.loads` or from random parameters. Writes a line for each step to `out`, or one JSON object at the end, and
/// reports on `err` where it began.
Status train(const Options &options, std::ostream &out, std::ostream &err);

} // namespace moert::run

#endif // MOERT_RUN_MOERUN_H
