//===- Main.h - moe-run ---------------------------------------------------===//
#ifndef MOERT_RUN_MAIN_H
#define MOERT_RUN_MAIN_H

#include <ostream>
#include <string>
#include <vector>

namespace moert::run {

/// Runs moe-run with `arguments` (without the program's name): results on `out`, messages on `err`, progress there too
/// where `isTerminal`. Returns the exit status.
int runMain(const std::vector<std::string> &arguments, std::ostream &out, std::ostream &err, bool isTerminal);

} // namespace moert::run

#endif // MOERT_RUN_MAIN_H
