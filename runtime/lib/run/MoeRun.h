//===- MoeRun.h - moe-run without its main function ---------------*- C++ -*-===//
#ifndef MOERT_RUN_MOERUN_H
#define MOERT_RUN_MOERUN_H

#include <ostream>
#include <string>
#include <vector>

namespace moert::run {

/// Runs moe-run with `arguments`, which do not have the program's name. Results go to `out`, messages to `err`, and
/// progress too if `isTerminal`. Returns the exit status.
int runMain(const std::vector<std::string> &arguments, std::ostream &out, std::ostream &err, bool isTerminal);

} // namespace moert::run

#endif // MOERT_RUN_MOERUN_H
