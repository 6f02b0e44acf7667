//===- MoeCalibrate.h - moe-calibrate without its main function -*- C++ -*-===//
#ifndef MOERT_CALIBRATE_MOECALIBRATE_H
#define MOERT_CALIBRATE_MOECALIBRATE_H

#include <ostream>
#include <string>
#include <vector>

namespace moert::calibrate {

/// Runs moe-calibrate with `arguments`, which do not have the program's name. The profile goes to a file, or to `out`
/// if the file is "-". Messages go to `err`, and progress too if `isTerminal`. Returns the exit status.
int runMain(const std::vector<std::string> &arguments, std::ostream &out, std::ostream &err, bool isTerminal);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_MOECALIBRATE_H
